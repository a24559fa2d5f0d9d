"""Reports, and a function that runs the command in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper
from tests.analyser.small_report import Shape, write_small_report
from tests.engine.operators.graphs import info, model_of

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


def save_products(batch: int | None) -> Path:
    """Write a product, a relu and a product to the working directory; None is any batch."""
    rng = np.random.default_rng(0)
    weights: dict[str, NDArray[Any]] = {
        name: rng.standard_normal(shape).astype(np.float32)
        for name, shape in (("w1", (6, 8)), ("w2", (8, 4)))
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="between"),
        helper.make_node("MatMul", ["b", "w2"], ["y"], name="second"),
    ]
    graph = model_of(nodes, [info("x", [batch, 6])], [info("y", [batch, 4])], weights)
    onnx.save(graph, "model.onnx")
    return Path("model.onnx")


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a product, a relu and a product, of any batch."""
    monkeypatch.chdir(tmp_path)
    return save_products(None)
