"""The ledger of tile-cycles: figures computed on paper, and sums that must close."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.analyser.small_report import Shape
from tests.analyser.test_critical_path import N_TILES, Stages, work
from tests.generated_report import generate_report

from tilescope import analyser, engine
from tilescope.analyser.advice.ledger import LEDGER_KINDS, Ledger, ledger
from tilescope.analyser.advice.time_insights import time_insights
from tilescope.analyser.diff import ledger_changes
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.time.execution import execution, external_syncs, ipu_cycles
from tilescope.analyser.time.figures import parallel_efficiency
from tilescope.engine import load_machine, resolve_options
from tilescope.engine.graph import blocks
from tilescope.engine.program import Copy, Execute, Overlap, Repeat, Sequence, StreamCopyIn
from tilescope.reports import Report


def tile_cycles(found: Ledger) -> dict[str, int]:
    return {entry.kind: entry.tile_cycles for entry in found.entries}


def is_whole(found: Ledger) -> bool:
    total = sum(entry.tile_cycles for entry in found.entries)
    return total == found.total_tile_cycles == found.total_cycles * found.n_tiles


def test_the_small_report_on_paper(small: Report) -> None:
    # Two runs of two IPUs with four tiles. IPU 0: copies 150, sync 10, exchanges 20 + 3 · 5,
    # convolution 200 (busy 500 in all), three times relu 30: 485 cycles. IPU 1: exchanges
    # 25 + 3 · 5, convolution 150 (busy 300): 440 cycles, and 45 in which IPU 0 still runs.
    actual = ledger(small)
    assert tile_cycles(actual) == {
        "compute": 2 * (500 + 300 + 2 * 3 * 120),
        "imbalance": 2 * ((800 - 500) + (600 - 300)),
        "exchange": 2 * 4 * (35 + 40),
        "sync": 2 * 4 * (10 + 10),
        "waiting": 2 * 4 * 45,
        "stream_copy": 2 * 4 * (150 + 150),
    }
    assert (actual.total_cycles, actual.n_runs, actual.n_tiles) == (970, 2, 8)
    assert is_whole(actual)
    assert sum(actual.cycles_per_run.values()) == 485
    assert sum(entry.share for entry in actual.entries) == pytest.approx(1)


def test_causes_are_operations_steps_and_ipus(small: Report) -> None:
    of_kind = {entry.kind: entry for entry in ledger(small).entries}
    (conv,) = of_kind["imbalance"].causes
    assert (conv.subject, conv.tile_cycles, conv.step_id, conv.is_operation) == (
        "layer1/conv", 1200, 3, True,
    )  # fmt: skip
    (late,) = of_kind["waiting"].causes
    assert (late.subject, late.tile_cycles, late.step_id) == ("IPU 0", 360, None)
    copies = of_kind["stream_copy"].causes
    assert [(cause.subject, cause.tile_cycles) for cause in copies] == [
        ("in", 1600), ("out_100%", 800),
    ]  # fmt: skip
    assert not copies[0].is_operation
    for entry in of_kind.values():
        assert sum(cause.tile_cycles for cause in entry.causes) == entry.tile_cycles
    assert ledger(small, None, 1) != ledger(small)


def test_gains_are_those_of_the_insights(small: Report) -> None:
    gain = {entry.kind: entry.gain_cycles for entry in ledger(small).entries}
    by_kind = {insight.kind: insight.gain_cycles for insight in time_insights(small).found}
    assert gain["imbalance"] == by_kind["imbalance"] == 150
    assert gain["stream_copy"] == by_kind["overlap"] == 300
    assert gain["compute"] is None
    # One sync in the program: none to spare. Nobody waits in a sync.
    assert (gain["sync"], gain["waiting"]) == (0, 0)


def test_one_run_and_none(small: Report, variation) -> None:
    assert {kind: 2 * size for kind, size in tile_cycles(ledger(small, 0)).items()} == tile_cycles(
        ledger(small)
    )
    with pytest.raises(BadQuestion, match="runs 0 to 1"):
        ledger(small, 2)
    compiled = ledger(variation(Shape(n_runs=0)))
    # One execution of every step; IPU 0 waits 5 cycles in the exchange, IPU 1 50 in the product.
    assert compiled.total_cycles == 100 + 10 + 25 + 200 + 5 + 30 + 50
    assert tile_cycles(compiled)["waiting"] == 4 * (5 + 50)
    assert tile_cycles(compiled)["compute"] == 500 + 300 + 240
    assert is_whole(compiled)


def test_time_in_no_step_is_other(variation) -> None:
    actual = ledger(variation(Shape(idle_cycles=7)))
    (peer,) = [entry for entry in actual.entries if entry.kind == "other"]
    assert peer.tile_cycles == 2 * 8 * 7
    assert [(cause.subject, cause.step_id) for cause in peer.causes] == [("Time in no step", None)]
    assert is_whole(actual)


def test_waits_in_syncs_are_of_the_late_ipu(tmp_path: Path) -> None:
    stages = Stages()
    body = [stages.work(0, 1000), stages.work(1, 300), stages.meet(), stages.work(1, 500)]
    report = stages.report(tmp_path, Sequence("main", [Repeat(3, Sequence("round", body))]))
    with report:
        ran, actual = execution(report), ledger(report)
        of_kind = {entry.kind: entry for entry in actual.entries}
        assert is_whole(actual)
        ends = [cause.subject for cause in of_kind["waiting"].causes]
        assert ends == ["IPU 0", "IPU 1"]  # at three syncs, and at the end
        in_syncs = ran.caused_cycles.sum(axis=1).tolist()
        at_end = ipu_cycles(report)[1] - ipu_cycles(report)[0]
        assert (in_syncs[1], at_end > 400) == (0, True)
        sizes = [cause.tile_cycles for cause in of_kind["waiting"].causes]
        assert sizes == [N_TILES * in_syncs[0], N_TILES * at_end]
        assert external_syncs(report)[of_kind["waiting"].causes[0].step_id]
        # One tile of four works: three quarters of what is not overhead are lost.
        assert of_kind["imbalance"].tile_cycles == 3 * of_kind["compute"].tile_cycles


def test_one_ipu_agrees_with_the_efficiency(tmp_path: Path) -> None:
    path = generate_report(tmp_path / "one", n_tiles=16, n_steps=60, n_variables=20, seed=5)
    with analyser.open(path) as report:
        actual = ledger(report)
        assert is_whole(actual)
        compute = next(entry for entry in actual.entries if entry.kind == "compute")
        efficiency = parallel_efficiency(report)
        assert efficiency is not None
        assert compute.share <= efficiency
        assert set(tile_cycles(actual)) <= set(LEDGER_KINDS)


@pytest.mark.parametrize("n_ipus", [2, 4])
def test_several_ipus_add_up(tmp_path: Path, n_ipus: int) -> None:
    path = generate_report(
        tmp_path / "several", n_tiles=16, n_ipus=n_ipus, n_steps=80, n_variables=20, seed=6
    )
    with analyser.open(path) as report:
        assert is_whole(ledger(report))
        assert all(entry.tile_cycles > 0 for entry in ledger(report).entries)


def test_a_wait_for_io_tiles_is_no_sync(tmp_path: Path) -> None:
    # Four compute tiles of six are done long before the copy beside them; the join waits.
    graph = engine.Graph(load_machine("gc200", tiles_per_ipu=6), n_io_tiles=2)
    coming, x = (graph.add_variable("float32", (8_000,), name) for name in ("coming", "x"))
    graph.map_linearly(coming, grain=2, tiles=graph.io_tiles)
    graph.map_linearly(x, grain=2)
    compute_set = graph.add_compute_set("work")
    fields = {"x": blocks(x.variable, 0, [1], [1], 1)}
    graph.add_vertices(compute_set, work, [0], fields, scalars={"cycles": [100]})
    feed = StreamCopyIn("batch", coming)
    program = Sequence("main", [Overlap(feed, Execute(compute_set), "beside"), Copy(coming, x)])
    executable = engine.compile_programs(graph, [program])
    options = resolve_options(
        code={"autoReport.all": "true", "autoReport.directory": str(tmp_path)}
    )
    with engine.Engine(executable, options) as device:
        device.connect_stream("batch", lambda: np.zeros(8_000, np.float32))
        device.run()
    with analyser.open(tmp_path) as report:
        actual = ledger(report)
        of_kind = {entry.kind: entry for entry in actual.entries}
        (join,) = of_kind["io"].causes
        assert join.subject == "beside/join"
        ran = execution(report)
        assert join.tile_cycles == 6 * ran.step_cycles[join.step_id]
        busy = {cause.subject: cause.tile_cycles for cause in of_kind["compute"].causes}
        assert busy["work"] == 100
        assert join.subject not in {cause.subject for cause in of_kind["sync"].causes}
        gain = of_kind["sync"].gain_cycles
        assert gain is not None
        assert gain * 6 < of_kind["sync"].tile_cycles
        assert is_whole(actual)


def test_two_reports_side_by_side(small: Report, variation) -> None:
    # The busiest tile takes 60 more: the mean of four rises by 15, 45 are lost on IPU 0, and IPU 1
    # waits for 60 more; half of that each over both IPUs.
    changes = ledger_changes(ledger(small), ledger(variation(Shape(conv_tile0_cycles=260))))
    results = {change.kind: change.delta_cycles for change in changes}
    assert results["waiting"] == pytest.approx(30)
    assert results["imbalance"] == pytest.approx(22.5)
    assert results["compute"] == pytest.approx(7.5)
    assert [change.kind for change in changes][:3] == ["waiting", "imbalance", "compute"]
    assert sum(change.delta_cycles for change in changes) == pytest.approx(60)
    assert all(change.delta_cycles == 0 for change in ledger_changes(ledger(small), ledger(small)))


def test_reports_with_other_numbers_of_runs_compare_by_run(small: Report, variation) -> None:
    single = ledger(variation(Shape(n_runs=1)))
    assert all(change.delta_cycles == 0 for change in ledger_changes(single, ledger(small)))


def test_a_kind_that_one_report_lacks(small: Report, variation) -> None:
    changes = ledger_changes(ledger(small), ledger(variation(Shape(idle_cycles=7))))
    (peer,) = [change for change in changes if change.kind == "other"]
    assert (peer.baseline, peer.baseline_cycles, peer.candidate_cycles) == (None, 0, 7)
