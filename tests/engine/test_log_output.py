"""POPLAR_LOG_LEVEL and POPLAR_LOG_DEST, tested in subprocesses."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINE = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z "
    r"PO:(?P<module>[A-Z]+) +\d+\.\d+ (?P<level>[CEWIDT]): .+"
)
PROGRAM = """
import numpy as np
from tilescope.engine import Engine, Graph, compile_programs, load_machine
from tilescope.engine.program import Sequence, StreamCopyIn, StreamCopyOut
graph = Graph(load_machine("gc200", tiles_per_ipu=4))
x = graph.add_variable("float32", (8,), "x\\x1b[31m")
graph.map_linearly(x)
program = Sequence("main")
program.add(StreamCopyIn("in", x))
program.add(StreamCopyOut(x, "out"))
with Engine(compile_programs(graph, [program])) as engine:
    engine.connect_stream("in", np.arange(8, dtype=np.float32))
    engine.run()
"""


def ran(**variables: str) -> subprocess.CompletedProcess[str]:
    clean = {key: text for key, text in os.environ.items() if not key.startswith("POPLAR_")}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**clean, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def matched(text: str) -> list[re.Match[str]]:
    results = [LINE.fullmatch(line) for line in text.splitlines()]
    assert all(results), text
    return [match for match in results if match is not None]


def test_nothing_is_logged_by_default() -> None:
    finished = ran()
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")


def test_info_logs_the_phases_to_standard_error() -> None:
    finished = ran(POPLAR_LOG_LEVEL="INFO")
    lines = matched(finished.stderr)
    assert [line["module"] for line in lines] == [
        "TARGET",
        "PROGRAM",
        "PROGRAM",
        "ENGINE",
        "ENGINE",
    ]
    assert {line["level"] for line in lines} == {"I"}
    assert finished.stdout == ""


def test_trace_logs_every_tile_to_a_file(tmp_path: Path) -> None:
    log = tmp_path / "poplar.log"
    finished = ran(POPLAR_LOG_LEVEL="TRACE", POPLAR_LOG_DEST=str(log))
    assert (finished.stdout, finished.stderr) == ("", "")
    lines = matched(log.read_text(encoding="utf-8"))
    assert [line["level"] for line in lines].count("T") == 4
    assert {line["level"] for line in lines} == {"T", "D", "I"}


def test_one_module_has_a_level_of_its_own_on_standard_output() -> None:
    finished = ran(POPLAR_ENGINE_LOG_LEVEL="INFO", POPLAR_LOG_DEST="stdout")
    assert {line["module"] for line in matched(finished.stdout)} == {"ENGINE"}
    finished = ran(POPLAR_LOG_LEVEL="INFO", POPLAR_ENGINE_LOG_LEVEL="OFF", POPLAR_LOG_DEST="stdout")
    assert {line["module"] for line in matched(finished.stdout)} == {"TARGET", "PROGRAM"}


@pytest.mark.parametrize("level", ["OFF", "CRITICAL", "ERR", "WARN"])
def test_levels_above_info_keep_quiet(level: str) -> None:
    finished = ran(POPLAR_LOG_LEVEL=level)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"POPLAR_LOG_LEVEL": "LOUD"}, "'LOUD'; expected one of OFF, CRITICAL, ERR, WARN, INFO"),
        (
            {"POPLAR_LOG_LEVEL": "INFO", "POPLAR_LOG_DEST": "/no/such/folder/log"},
            "'/no/such/folder/log', which is not writable",
        ),
    ],
)
def test_the_command_ends_in_one_sentence(variables: dict[str, str], words: str) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "tilescope", "machines"],
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 2
    assert words in process.stderr
    assert process.stderr.count("\n") == 1
