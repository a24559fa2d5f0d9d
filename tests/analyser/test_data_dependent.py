"""Balance and efficiency of data-dependent steps, against sums computed on paper."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests.pva import clients

import pva
from tilescope import engine
from tilescope.analyser.program.operations import operations
from tilescope.analyser.summary.metrics import values
from tilescope.analyser.time.data_dependent import Measured, measured
from tilescope.analyser.trace import range_summary
from tilescope.engine.graph import ROOT, DebugContext, blocks
from tilescope.engine.program import Execute, Repeat, Sequence, StreamCopyIn
from tilescope.reports import Report, check_report, open_report

N_TILES, N_ROUNDS = 4, 3


@engine.codelet(
    engine.Field("x", "inout"),
    law=lambda batch, _machine: 10 + batch.counts,
    code_bytes=20,
    is_data_dependent=True,
)
def grow(x):
    x[0] += x[0]
    return x[0]


@engine.codelet(
    engine.Field("x", "inout"), law=lambda batch, _: np.full(batch.n_vertices, 7), code_bytes=20
)
def touch(x):
    x[0] += 0


@pytest.fixture
def ran(tmp_path: Path) -> Report:
    """Return a report of three rounds in which tile i counts 2 i, then 4 i, then 8 i."""
    graph = engine.Graph(engine.load_machine("gc200", tiles_per_ipu=N_TILES))
    x = graph.add_variable("int32", (N_TILES,), "x")
    graph.map_linearly(x)
    tiles = np.arange(N_TILES)
    sets = []
    call = DebugContext("call", "library", "test.grow")
    for codelet, debug in ((grow, call), (touch, ROOT)):
        sets.append(graph.add_compute_set(codelet.name, debug))
        fields = {"x": blocks(x.variable, tiles, [1], [1], N_TILES)}
        graph.add_vertices(sets[-1], codelet, tiles, fields)
    body = Sequence("body", [Execute(compute_set) for compute_set in sets])
    program = Sequence("main", [StreamCopyIn("x", x), Repeat(N_ROUNDS, body)])
    options = engine.resolve_options(
        code={"autoReport.all": True, "autoReport.directory": str(tmp_path)}
    )
    with engine.Engine(engine.compile_programs(graph, [program]), options) as device:
        device.connect_stream("x", tiles)
        device.run()
        device.run()
    assert check_report(tmp_path) == []
    return open_report(tmp_path)


def test_every_execution_counts_with_its_own_cycles(ran: Report) -> None:
    rounds = [6 * (10 + 2 ** (k + 1) * np.arange(N_TILES)) for k in range(N_ROUNDS)]
    steps = [*rounds, *[np.full(N_TILES, 6 * 7)] * N_ROUNDS]
    busy, largest = sum(s.sum() for s in steps), sum(s.max() for s in steps)
    with ran as report:
        metrics, summary = values(report), range_summary(report)
    assert metrics["tile.balance"] == busy / (largest * N_TILES) == summary.tile_balance
    total = metrics["cycles.total"]
    assert total is not None
    assert metrics["parallel.efficiency"] == pytest.approx(2 * busy / (total * N_TILES))
    assert summary.parallel_efficiency == pytest.approx(metrics["parallel.efficiency"])


def test_tile_cycles_are_those_of_every_execution(ran: Report) -> None:
    rounds = [6 * (10 + 2 ** (k + 1) * np.arange(N_TILES)) for k in range(N_ROUNDS)]
    computed = sum(s.sum() for s in (*rounds, *[np.full(N_TILES, 6 * 7)] * N_ROUNDS))
    with ran as report:
        metrics = values(report)
        with pva.openReport(report.path) as opened:
            on_tiles = clients.by_all_tiles(opened)
    assert metrics["tile_cycles.compute"] == 2 * computed == on_tiles["OnTileExecute"]


def test_a_call_is_as_busy_as_its_tiles_over_all_executions(ran: Report) -> None:
    rounds = [6 * (10 + 2 ** (k + 1) * np.arange(N_TILES)) for k in range(N_ROUNDS)]
    busy, largest = sum(s.sum() for s in rounds), sum(s.max() for s in rounds)
    with ran as report:
        (call,) = operations(report).operations
    assert call.cycles == 2 * largest
    assert call.utilisation == busy / (largest * N_TILES)


def test_figures_of_neighbouring_ranges_add_up(ran: Report) -> None:
    with ran as report:
        full = range_summary(report)
        cuts = np.linspace(full.start_cycle, full.end_cycle, 12).astype(int).tolist()
        parts = [range_summary(report, a, b) for a, b in pairwise(cuts)]
        worked = sum((p.parallel_efficiency or 0) * p.cycles for p in parts)
        assert worked == pytest.approx((full.parallel_efficiency or 0) * full.cycles)
        (actual,) = measured(report).values()
        assert actual.start.size == 2 * N_ROUNDS


def test_entries_that_repeat_are_cut_like_those_written_out() -> None:
    def column(*numbers: int) -> np.ndarray:
        return np.array(numbers, np.int64)

    loop = Measured(
        *map(column, (0, 10, 14, 7, 5, 100, 40, 3)),
    )
    apart = Measured(
        np.zeros(5, np.int64),
        10 + 7 * np.arange(5),
        14 + 7 * np.arange(5),
        *np.array([[0], [1], [100], [40], [3]]).repeat(5, 1),
    )
    for low in range(50):
        for high in range(low, 50):
            assert loop.busy_cycles(low, high) == pytest.approx(apart.busy_cycles(low, high))
