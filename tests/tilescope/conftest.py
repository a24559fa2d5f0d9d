"""Reports, and a function that runs the command in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.analyser.small_report import Shape, write_small_report

from tilescope.main import main


@dataclass(frozen=True)
class Outcome:
    """The output and exit code of a command."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Return standard output as JSON."""
        return json.loads(self.out)


@pytest.fixture
def tilescope(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Return a function that runs the command."""

    def run(*arguments: object) -> Outcome:
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


@pytest.fixture(scope="session")
def reports_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a folder for every kind of report."""
    directory = tmp_path_factory.mktemp("reports")
    shapes = {
        "baseline": Shape(),
        "same": Shape(wall_host="elsewhere"),
        "slower": Shape(conv_tile0_cycles=260, has_bias=True),
        "no_runs": Shape(n_runs=0),
        "too_large": Shape(bytes_per_tile=250),
        "no_memory": Shape(has_memory=False),
        "depends": Shape(is_data_dependent=True),
        "incomplete": Shape(is_finished=False),
        "hostile": Shape(conv_name="layer\x1b[2J\x1b]0;gone\x07\u202e/conv"),
    }
    for name, shape in shapes.items():
        write_small_report(directory / name, shape)
    return directory
