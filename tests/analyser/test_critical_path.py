"""The critical path of several IPUs, against hand figures and a walk over written-out traces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tilescope import analyser, engine
from tilescope.analyser.machine.target import target
from tilescope.analyser.time import runs
from tilescope.analyser.time.execution import (
    PHASES,
    execution,
    ipu_cycles,
    ipu_phase_cycles,
    steps,
    taken_cycles,
)
from tilescope.engine import load_machine, resolve_options
from tilescope.engine.graph import blocks
from tilescope.engine.program import Copy, Execute, Program, Repeat, Sequence
from tilescope.reports import Report
from tilescope.reports.schema.vocabulary import SYNC_ZONES

N_TILES = 4


@engine.codelet(
    engine.Field("x", "inout"),
    law=lambda batch, _machine: batch.scalars["cycles"],
    is_supervisor=True,
    code_bytes=20,
    scalars=(engine.Scalar("cycles"),),
)
def work(x, cycles):  # noqa: ARG001 - the law reads it
    x[0] += 1


class Stages:
    """Work on either of two IPUs that takes as long as is wanted, and a meeting of both."""

    def __init__(self, n_ipus: int = 2) -> None:
        self.graph = engine.Graph(load_machine("gc200", n_ipus=n_ipus, tiles_per_ipu=N_TILES))
        self.ends = [self._variable(f"end {ipu}", ipu) for ipu in range(n_ipus)]

    def _variable(self, name: str, ipu: int) -> engine.Tensor:
        tensor = self.graph.add_variable("float32", (2,), name)
        self.graph.map_linearly(tensor, grain=2, tiles=range(ipu * N_TILES, ipu * N_TILES + 1))
        return tensor

    def work(self, ipu: int, cycles: int) -> Program:
        """Return a step that keeps an IPU busy."""
        name = f"work {ipu} {cycles}"
        compute_set = self.graph.add_compute_set(name)
        x = self._variable(name, ipu)
        self.graph.add_vertices(
            compute_set,
            work,
            [ipu * N_TILES],
            {"x": blocks(x.variable, 0, [1], [1], 1)},
            scalars={"cycles": [cycles]},
        )
        return Execute(compute_set)

    def meet(self, name: str = "meet") -> Program:
        """Return an exchange from the first IPU to the second."""
        return Copy(self.ends[0], self.ends[1], name)

    def report(self, directory: Path, program: Sequence) -> Report:
        """Return the report of a run."""
        executable = engine.compile_programs(self.graph, [program])
        options = resolve_options(
            code={"autoReport.all": "true", "autoReport.directory": str(directory)}
        )
        with engine.Engine(executable, options) as device:
            device.run()
        return analyser.open(directory)


def naive_path(report: Report) -> NDArray[np.int64]:
    """Return the critical cycles by IPU and step, walking every run span by span."""
    n_ipus, n_steps = target(report).n_ipus, len(steps(report))
    is_external = report.array("cost.sync_zone").read() == SYNC_ZONES["external"]
    external = set(report.array("cost.step_id").read()[is_external].tolist())
    cycles = np.zeros((n_ipus, n_steps), dtype=np.int64)
    for run in runs.runs(report):
        executed = runs.executed(report, run.run_id)
        lanes: list[list[tuple[int, int, int]]] = []
        for ipu in range(n_ipus):
            has_run = executed.start_cycle[:, ipu] >= 0
            columns = (executed.start_cycle, executed.end_cycle)
            start, end = (column[has_run, ipu].tolist() for column in columns)
            lanes.append(sorted(zip(start, end, executed.step_id[has_run].tolist(), strict=True)))
        first = min(lane[0][0] for lane in lanes)
        ends = [lane[-1][1] for lane in lanes]
        spans = [_meetings(lane, external) for lane in lanes]
        before = first
        for arrivals in zip(*spans, strict=True):
            release = max(start for _, start in arrivals)
            late = int(np.argmax([ready for ready, _ in arrivals]))
            _add(cycles[late], lanes[late], before, release)
            before = release
        late = int(np.argmax(ends))
        _add(cycles[late], lanes[late], before, ends[late])
    return cycles


def _meetings(lane: list[Any], external: set[int]) -> list[tuple[int, int]]:
    """Return when a lane was ready for each meeting, and when its entry begins."""
    ready = lane[0][0]
    results = []
    for start, end, step in lane:
        if step in external:
            results.append((min(ready, start), start))
        ready = end
    return results


def _add(cycles: NDArray[np.int64], lane: list[Any], begin: int, end: int) -> None:
    """Add what a lane did between two cycles."""
    for entry_start, entry_end, step in lane:
        cycles[step] += max(0, min(entry_end, end) - max(entry_start, begin))


def test_the_slow_stage_on_the_other_ipu_is_critical(tmp_path: Path) -> None:
    """IPU 0 works 1,000 then 300 cycles, IPU 1 works 4,000 then 20; they meet in between."""
    built = Stages()
    program = Sequence(
        "main",
        [
            built.work(0, 1_000),
            built.work(1, 4_000),
            built.meet(),
            built.work(0, 300),
            built.work(1, 20),
        ],
    )
    with built.report(tmp_path, program) as report:
        ran = execution(report)
        by_name = {
            name: ran.critical_cycles[:, step].tolist()
            for step, name in enumerate(steps(report).name)
            if name.startswith("work") and steps(report).kind[step] == "OnTileExecute"
        }
        assert by_name == {
            "work 0 1000": [0, 0],
            "work 1 4000": [0, 4_000],
            "work 0 300": [300, 0],
            "work 1 20": [0, 0],
        }
        assert ran.phase_cycles["compute"] == 4_300
        assert ran.phase_cycles["other"] == 0
        assert sum(ran.phase_cycles.values()) == ran.total_cycles
        assert ran.waiting_cycles.sum(axis=1).tolist() == [3_000, 0]
        assert ran.caused_cycles.sum(axis=1).tolist() == [0, 3_000]
        phases = ipu_phase_cycles(report)
        compute = steps(report).phase == PHASES.index("compute")
        meets = np.array(steps(report).name) == "meet"  # what arrives is copied to its place
        landing = taken_cycles(report)[1, compute & meets].sum()
        assert phases["compute"].tolist() == [1_300, 4_020 + landing]
        assert np.array_equal(sum(phases.values()), ipu_cycles(report))


@pytest.mark.parametrize("slow", [0, 1])
@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_loops_that_meet(tmp_path: Path, slow: int, rounds: int) -> None:
    built = Stages()
    body = [
        built.work(slow, 700),
        built.work(1 - slow, 200),
        built.meet("first"),
        built.work(slow, 30),
        built.work(1 - slow, 90),
        built.meet("second"),
        built.work(slow, 5),
        built.work(1 - slow, 11),
    ]
    program = Sequence(
        "main",
        [built.work(0, 400), Repeat(rounds, Sequence("body", body)), built.work(1, 1_500)],
    )
    with built.report(tmp_path, program) as report:
        assert np.array_equal(execution(report).critical_cycles, naive_path(report))
        assert execution(report).phase_cycles["other"] == 0


def test_loops_that_do_not_meet(tmp_path: Path) -> None:
    built = Stages()
    alone = Repeat(6, Sequence("alone", [built.work(0, 70), built.work(1, 100)]))
    outer = Sequence("outer", [alone, built.meet(), built.work(0, 44)])
    program = Sequence("main", [Repeat(3, outer), built.meet("last"), built.work(0, 10)])
    with built.report(tmp_path, program) as report:
        actual = execution(report)
        assert np.array_equal(actual.critical_cycles, naive_path(report))
        slow = next(i for i, name in enumerate(steps(report).name) if name == "work 1 100")
        # In later rounds IPU 0 begins 44 cycles after IPU 1, and both still wait for IPU 1.
        assert actual.critical_cycles[1, slow] == 3 * 6 * 100
