"""Help, examples and completion."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilescope.main import COMMANDS, command_line

ROOT = Path(__file__).parents[2]
Run = Callable[..., Any]


def every_command() -> dict[str, Any]:
    """Return all commands by name, those of groups by both names."""
    group: Any = command_line(is_whole=True)
    answer: dict[str, Any] = {}
    for name, command in group.commands.items():
        inner = getattr(command, "commands", {})
        answer |= {f"{name} {sub}": below for sub, below in inner.items()} or {name: command}
    return answer


def examples_of(command: Any) -> list[str]:
    return re.findall(r"^  tilescope (.+)$", command.epilog or "", re.MULTILINE)


@pytest.mark.parametrize("name", every_command())
def test_every_command_has_examples(tilescope: Run, name: str) -> None:
    lines = examples_of(every_command()[name])
    assert lines
    assert all(line == name or line.startswith(f"{name} ") for line in lines)
    text = tilescope(*name.split(), "--help").out
    assert all(f"tilescope {line}" in text for line in lines), "wrapped or missing"


def test_the_list_of_commands_has_the_first_lines_of_their_help() -> None:
    group = command_line(is_whole=True)
    assert {name: group.commands[name].get_short_help_str(1_000) for name in COMMANDS} == COMMANDS


def test_an_unknown_command_is_refused_with_the_nearest_one(tilescope: Run) -> None:
    finished = tilescope("sumary", "report")
    assert (finished.code, finished.out) == (2, "")
    assert "Did you mean 'summary'?" in finished.err


#: Commands that only read one report.
QUERIES = (
    "summary", "insights", "ledger", "fit", "memory", "liveness", "programs", "ops", "exchange",
    "variables", "tile", "trace",
)  # fmt: skip


@pytest.mark.parametrize(
    "line", [line for name in QUERIES for line in examples_of(every_command()[name])]
)
def test_examples_run(tilescope: Run, reports_directory: Path, line: str) -> None:
    # Names and numbers that the small report has.
    replaced = {"report": str(reports_directory / "baseline"), "17": "7", "conv1": "layer1/conv"}
    replaced |= {"12": "2"}
    finished = tilescope(*(replaced.get(word, word) for word in shlex.split(line)))
    assert (finished.code, finished.err) == (0, "")
    assert finished.out


def complete(words: str) -> list[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "_TILESCOPE_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    process = subprocess.run(
        [sys.executable, "-m", "tilescope"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.stderr == ""
    return process.stdout.split()


def test_completion(reports_directory: Path) -> None:
    report = reports_directory / "baseline"
    assert complete("tilescope va") == ["variables"]
    assert complete("tilescope run model.onnx --machine g") == ["gc2", "gc200"]
    assert complete(f"tilescope variables {report} --name w") == ["weights"]
    assert complete(f"tilescope ops {report} --plan lay") == ["layer1/conv"]
    assert complete("tilescope variables /nowhere --name w") == []
    assert "step" in complete(f"tilescope ops {report} --layer s")


def test_metrics_are_completed() -> None:
    assert "cycles.total" in complete("tilescope diff a b --fail-on cycles.t")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "tilescope", "--show-completion", shell],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0
    assert "_TILESCOPE_COMPLETE" in process.stdout


def test_the_help_loads_no_slow_package() -> None:
    program = (
        "import sys; from tilescope.main import main; main(['--help']);"
        "print(sorted({'numpy', 'sqlalchemy', 'apsw', 'numba', 'onnx', 'dash'} & set(sys.modules)))"
    )
    process = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout.splitlines()[-1] == "[]"
