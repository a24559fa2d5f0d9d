"""A small program whose recorded runs are known, for trials that interrupt or kill it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from tilescope.engine import Engine, Graph, compile_programs, load_machine, resolve_options
from tilescope.engine.compiler.executable.executable import Executable
from tilescope.engine.options import EngineOptions
from tilescope.engine.program import Copy, Repeat, Sequence
from tilescope.reports import Report, check_report, open_report
from tilescope.reports.schema import run, run_trace

__all__ = ["contradictions", "engine_options", "executable", "run_names", "start"]


@cache
def executable(n_ipus: int = 1) -> Executable:
    """Return copies between tiles of every IPU, in a loop."""
    graph = Graph(load_machine("gc200", n_ipus=n_ipus, tiles_per_ipu=4))
    x, y = (graph.add_variable("float32", (64,), name) for name in "xy")
    for tensor in (x, y):
        graph.map_linearly(tensor)
    body = Sequence("body", [Copy(x, y), Copy(y, x)])
    return compile_programs(graph, [Sequence("main", [Copy(x, y), Repeat(3, body)])])


def engine_options(directory: Path) -> EngineOptions:
    """Return options that record all runs into a directory."""
    options = {
        "autoReport.all": "true",
        "autoReport.directory": str(directory),
        "autoReport.executionProfileProgramRunCount": "1000000",
    }
    return resolve_options(environ={"POPLAR_ENGINE_OPTIONS": json.dumps(options)})


def start(directory: Path, n_ipus: int = 1) -> Engine:
    """Return an engine that records into a directory."""
    return Engine(executable(n_ipus), engine_options(directory))


def run_names(report: Report) -> list[str]:
    """Return the names of the recorded runs."""
    return list(report.column(run, "name"))


def contradictions(path: Path) -> list[str]:
    """Return what is wrong with the report of `executable`: digests, references, times of runs."""
    mismatch = [problem.sentence for problem in check_report(path)]
    if mismatch:
        return mismatch
    with open_report(path) as report:
        entries = report.array("trace.step_id").read()
        starts, ends = (report.array(f"trace.{side}_cycle").read() for side in ("start", "end"))
        rows = report.rows(run_trace, "run_id", "ipu_id", "start_cycle", "end_cycle")
        ranges = report.rows(run_trace, "first_entry", "n_entries", "shift_cycles")
        last: dict[int, int] = {}
        course: dict[int, bytes] = {}
        for (run_id, ipu_id, begin, end), (first, n, shift) in zip(rows, ranges, strict=True):
            if begin < last.get(ipu_id, 0):
                mismatch.append(f"Run {run_id} begins before the run before it ends.")
            last[ipu_id] = end
            part = slice(first, first + n)
            stored = begin - (shift or 0)
            local = b"".join(
                values.tobytes()
                for values in (entries[part], starts[part] - stored, ends[part] - stored)
            )
            if course.setdefault(ipu_id, local) != local:
                mismatch.append(f"Run {run_id} has another course than the first.")
    return mismatch
