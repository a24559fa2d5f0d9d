"""Options that were recorded as having an effect and had none, and reports that several want."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tilescope.engine import Builder, Engine, Graph, compile_programs, load_machine, resolve_options
from tilescope.engine.compiler.executable.executable import Executable
from tilescope.engine.library.popops.elementwise.operations import unary
from tilescope.engine.options import ENVIRONMENT_VARIABLE
from tilescope.engine.program import Sequence
from tilescope.reports import check_report, open_report
from tilescope.reports.schema import memory_category, notice, run


def compiled(*, is_instrumented: bool | None = None) -> Executable:
    graph = Graph(load_machine("gc200", tiles_per_ipu=8))
    builder = Builder(graph, Sequence("main"))
    x = graph.add_variable("float32", (64,), "x")
    graph.map_linearly(x)
    unary(builder, "relu", x)
    return compile_programs(graph, [builder.sequence], is_instrumented=is_instrumented)


def set_options(monkeypatch: pytest.MonkeyPatch, **options: object) -> None:
    named = {name.replace("_", "."): value for name, value in options.items()}
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, json.dumps(named))


def counters_bytes(folder: Path) -> tuple[int, int, list[str]]:
    """Return the bytes of cycle counters, the number of runs, and the notices of a report."""
    with open_report(folder) as report:
        rows = report.table(memory_category)
        by_name = dict(zip(rows["name"], rows["total_bytes"], strict=True))
        return (
            by_name["instrumentationResults"],
            len(report.table(run)["run_id"]),
            report.table(notice)["code"],
        )


@pytest.mark.parametrize("instrument", [True, False])
def test_without_instrumentation_nothing_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instrument: bool
) -> None:
    set_options(
        monkeypatch,
        autoReport_all=True,
        autoReport_directory=str(tmp_path),
        debug_instrument=instrument,
    )
    with Engine(compiled()) as engine:
        engine.run()
    n_bytes, n_runs, codes = counters_bytes(tmp_path)
    assert check_report(tmp_path) == []
    assert (n_bytes > 0, n_runs) == (instrument, int(instrument))
    assert ("not_instrumented" in codes) is not instrument


def test_an_execution_profile_alone_without_instrumentation_is_a_report(tmp_path: Path) -> None:
    options = resolve_options(
        environ={},
        code={
            "autoReport.outputExecutionProfile": True,
            "autoReport.directory": str(tmp_path),
            "debug.instrument": False,
        },
    )
    with Engine(compiled(), options) as engine:
        engine.run()
    with open_report(tmp_path) as report:
        (sentence,) = report.table(notice)["message"]
    assert "debug.instrument" in sentence


def test_a_graph_has_counters_unless_they_are_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    def n_bytes(executable: Executable) -> int:
        return int(executable.memory.categories["instrumentationResults"].sum())

    assert n_bytes(compiled()) == n_bytes(compiled(is_instrumented=True)) > 0
    assert n_bytes(compiled(is_instrumented=False)) == 0
    set_options(monkeypatch, debug_instrument=False)
    assert n_bytes(compiled()) == 0
    assert n_bytes(compiled(is_instrumented=True)) > 0


_SCRIPT = """
import sys
from tests.engine.options.test_effects import compiled
from tilescope.engine import Engine
with Engine(compiled()) as engine:
    engine.run()
    print("open", flush=True)
    sys.stdin.read()  # until all have begun
"""


def test_processes_with_one_report_directory_all_write_a_report(tmp_path: Path) -> None:
    options = json.dumps({"autoReport.all": True, "autoReport.directory": str(tmp_path)})
    started = [
        subprocess.Popen(
            [sys.executable, "-c", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, ENVIRONMENT_VARIABLE: options},
        )
        for _ in range(3)
    ]
    for process in started:
        assert process.stdout is not None
        process.stdout.readline()
    output = [process.communicate()[1] for process in started]
    assert [process.returncode for process in started] == [0, 0, 0], output
    assert "Traceback" not in "".join(output)
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.pop")) == [
        "engine2/profile.pop",
        "engine3/profile.pop",
        "profile.pop",
    ]
    for folder in (tmp_path, tmp_path / "engine2", tmp_path / "engine3"):
        assert check_report(folder) == []
    lines = [line for text in output for line in text.splitlines() if "engine" in line]
    assert len(lines) == 2
    assert all(line.startswith("warning: Another engine is writing a report") for line in lines)
