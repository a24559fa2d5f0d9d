"""Regions: on paper, and against the list of executions taken apart in plain Python."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

import pytest
from tests.analyser.pipelined import MICRO_BATCHES

from tilescope import analyser
from tilescope.analyser import trace
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.program.operations import operations
from tilescope.analyser.program.rounds import round_loops
from tilescope.analyser.program.training import pass_label, passes_of_steps
from tilescope.analyser.time.execution import track_rows
from tilescope.analyser.trace import run_cuts
from tilescope.engine import Builder, Engine, Graph, compile_programs, load_machine, resolve_options
from tilescope.engine.library.popops.elementwise.fill import fill
from tilescope.engine.program import Call, Function, Program, Repeat, Sequence
from tilescope.reports import Report

from .conftest import loop, sequence

Make = Callable[..., Report]
Cut = tuple[int | None, int | None]


def parts(report: Report, by: str, cut: Cut) -> Iterator[tuple[str, int, int, int]]:
    """Yield name, IPU, start and end of every region in a range without time between steps."""
    low, high = cut[0] or 0, cut[1] or trace.extent(report).end_cycle
    runs = {run.run_id: run.name for run in trace.extent(report).runs}
    for track in track_rows(report):
        start, end = max(track.start_cycle, low), min(track.end_cycle, high)
        if track.track or end <= start:
            continue
        if by == "run":
            yield runs[track.run_id], track.ipu_id, start, end
            continue
        names = phase_names(report) if by == "phase" else batch_names(report, track.run_id)
        rows = trace.executions(report, start, end, [track.ipu_id], limit=10**6).rows
        for name, group in groupby(rows, names):
            ran = list(group)
            edges = max(ran[0].start_cycle, start), min(ran[-1].end_cycle, end)
            yield name, track.ipu_id, *edges


def phase_names(report: Report) -> Callable[[trace.Execution], str]:
    """Return what names the phase of an execution."""
    passes = passes_of_steps(report)
    return lambda ran: pass_label(passes[ran.step_id]) or "(outside phases)"


def batch_names(report: Report, run_id: int) -> Callable[[trace.Execution], str]:
    """Return what names the micro-batch of an execution of a run."""
    picture = trace.stage_picture(report, run_id)
    assert picture is not None

    def name(ran: trace.Execution) -> str:
        for item in picture.slices:
            if item.ipu_id == ran.ipu_id and item.start_cycle <= ran.start_cycle < item.end_cycle:
                return f"micro-batch {item.micro_batch}"
        return "(outside micro-batches)"

    return name


def test_layers_on_paper(make: Make) -> None:
    # Of one name are: 0 to 80, 80 to 99, then nothing until 110, 110 to 150, nothing until 160 in
    # the layer, and 160 to 200.
    entries = [*sequence(0), *sequence(110, (0,)), *sequence(160, (0,))]
    found = trace.regions(make([(0, 0, 0, entries)]), "layer")
    net, out = found.rows
    assert (found.cycles, found.between_cycles) == (200, 11)
    assert (net.name, net.count, net.cycles, net.ipus) == ("net", 2, 80 + 90, (0,))
    assert (net.mean_cycles, net.min_cycles, net.max_cycles) == (85, 80, 90)
    assert net.share == pytest.approx(170 / 200)
    assert net.cycles_by_kind == {
        "compute": 40 + 25 + 80, "exchange": 10, "sync": 5, "idle": 10
    }  # fmt: skip
    assert net.first == trace.RegionPlace(0, 0, 80, 0)
    assert net.longest == trace.RegionPlace(0, 110, 200, 0)
    assert (out.name, out.count, out.cycles, out.first.step_id) == ("out", 1, 19, 4)


def test_a_region_ends_with_its_run_and_at_the_edges_of_a_range(make: Make) -> None:
    report = make([(0, 0, 0, sequence(0, (0,))), (1, 0, 0, sequence(40, (3, 4)))])
    net, _ = trace.regions(report, "layer").rows
    assert (net.count, net.cycles) == (2, 65)
    (net,) = trace.regions(report, "layer", 10, 50).rows
    assert (net.min_cycles, net.max_cycles, net.cycles) == (10, 30, 40)
    first, second = trace.regions(report, "run").rows
    assert (first.name, first.count, first.cycles) == ("Engine::run #0", 1, 40)
    assert (second.name, second.cycles) == ("Engine::run #1", 37)
    assert not trace.regions(report, "layer", 5_000, 6_000).rows


@pytest.mark.parametrize("count", [3, 6_000])
def test_a_loop_is_written_out(make: Make, count: int) -> None:
    net, out = trace.regions(make([(0, 0, 0, loop(0, count, (0, 4)))]), "layer").rows
    assert (net.count, net.cycles, out.count, out.cycles) == (count, 40 * count, count, 12 * count)


def test_regions_of_ipus_are_one_row(make: Make) -> None:
    report = make([(0, ipu, 0, sequence(7 * ipu)) for ipu in range(3)], 3)
    net, _ = trace.regions(report, "layer").rows
    assert (net.ipus, net.count, net.first.ipu_id, net.longest.ipu_id) == ((0, 1, 2), 3, 0, 0)
    assert trace.regions(report, "layer", ipus=[1]).rows[0].ipus == (1,)


def test_what_cannot_be_answered_is_one_sentence(make: Make, pipelines: Path) -> None:
    report = make([(0, 0, 0, sequence(0))])
    with pytest.raises(BadQuestion, match="'weather'; use layer, phase, micro-batch, batch, run"):
        trace.regions(report, "weather")
    with pytest.raises(BadQuestion, match="trains nothing, so its runs have no phases"):
        trace.regions(report, "phase")
    with pytest.raises(BadQuestion, match="is of no pipeline"):
        trace.regions(report, "micro-batch")
    with pytest.raises(BadQuestion, match="repeats within a run, so it has no batches"):
        trace.regions(report, "batch")
    with pytest.raises(BadQuestion, match="the range 5:5 is empty"):
        trace.regions(report, "layer", 5, 5)
    with pytest.raises(BadQuestion, match="IPU 7 has no trace"):
        trace.regions(report, "layer", ipus=[7])
    with (
        analyser.open(pipelines / "train") as piped,
        pytest.raises(BadQuestion, match="several batches at a time"),
    ):
        trace.regions(piped, "batch")


def test_too_many_executions_are_refused(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_cuts, "MOST_EXECUTIONS", 5)
    report = make([(0, 0, 0, sequence(0))])
    with pytest.raises(BadQuestion, match="more than 5 executions, too many to find regions in"):
        trace.regions(report, "layer")
    assert trace.regions(report, "layer", 40, 55).rows


def test_a_report_without_runs_has_no_regions(make: Make) -> None:
    assert not trace.regions(make([]), "layer").rows


CUTS: tuple[Cut, ...] = ((None, None), (20_000, 130_001), (100_000, None))


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize(
    ("name", "by"),
    [
        ("one", "phase"),
        ("one", "run"),
        ("train", "phase"),
        ("train", "micro-batch"),
        ("train", "run"),
        ("run", "micro-batch"),
    ],
)
def test_regions_are_those_of_the_list_of_executions(
    pipelines: Path, name: str, by: str, cut: Cut
) -> None:
    with analyser.open(pipelines / name) as report:
        if cut[0] is not None and cut[0] >= trace.extent(report).end_cycle:
            cut = (5_000, 9_001)
        expected = defaultdict(list)
        for label, ipu_id, start, end in parts(report, by, cut):
            expected[label].append((start, ipu_id, end))
        found = trace.regions(report, by, *cut)
    assert {row.name for row in found.rows} == set(expected)
    for row in found.rows:
        places = sorted(expected[row.name])
        cycles = [end - start for start, _, end in places]
        assert (row.count, row.cycles) == (len(places), sum(cycles))
        assert (row.min_cycles, row.max_cycles) == (min(cycles), max(cycles))
        assert (row.first.start_cycle, row.first.ipu_id, row.first.end_cycle) == places[0]
        assert row.longest.cycles == max(cycles)
        assert row.ipus == tuple(sorted({ipu for _, ipu, _ in places}))


@pytest.mark.parametrize("cut", CUTS[:2])
@pytest.mark.parametrize("name", ["one", "train"])
def test_all_cycles_are_those_of_the_range(pipelines: Path, name: str, cut: Cut) -> None:
    with analyser.open(pipelines / name) as report:
        inside = trace.range_summary(report, *cut)
        by_kind: Counter[str] = Counter()
        for ipu in inside.ipus:
            by_kind.update(ipu.cycles_by_kind)
        for by in ("layer", "phase", "run", "batch" if name == "one" else "micro-batch"):
            found = trace.regions(report, by, *cut)
            sums: Counter[str] = Counter({"idle": found.between_cycles})
            for row in found.rows:
                assert sum(row.cycles_by_kind.values()) == row.cycles
                sums.update(row.cycles_by_kind)
            assert +sums == +by_kind
            assert found.cycles == sum(ipu.cycles for ipu in inside.ipus)
            assert sum(row.share for row in found.rows) == pytest.approx(1)


def test_layers_are_the_operations_of_the_model(pipelines: Path) -> None:
    with analyser.open(pipelines / "one") as report:
        rows = {row.name: row for row in trace.regions(report, "layer").rows}
        listed = operations(report, "model").operations
    for operation in listed:
        if operation.cycles:
            assert rows[operation.name].cycles == operation.cycles
    assert {"x", "labels", "first", "first:MatMulWeightsGrad", "Update/w1"} <= set(rows)


def test_batches_are_the_rounds_of_accumulation(pipelines: Path) -> None:
    with analyser.open(pipelines / "one") as report:
        found = trace.regions(report, "batch")
        named = {row.name: row for row in found.rows}
        inputs = [row for row in trace.executions(report, limit=10**6).rows if row.step_id == 0]
        assert {f"batch {k}" for k in range(MICRO_BATCHES)} == set(named) - {"(outside batches)"}
        for number, ran in enumerate(inputs[:MICRO_BATCHES]):
            row = named[f"batch {number}"]
            assert (row.count, row.first.start_cycle) == (2, ran.start_cycle)
        # A range within a run counts from the beginning of the run.
        third = named["batch 2"].first
        (only,) = trace.regions(report, "batch", third.start_cycle + 9, third.end_cycle - 9).rows
        assert (only.name, only.cycles) == ("batch 2", third.cycles - 18)


def test_rounds_with_functions_that_run_elsewhere_too(tmp_path: Path) -> None:
    graph = Graph(load_machine("gc200", tiles_per_ipu=4))
    x = graph.add_variable("float32", [4], "x")
    graph.set_tile_mapping(x, [0], [0])

    def filled(name: str) -> Sequence:
        body = Sequence(name)
        fill(Builder(graph, body), x, float(len(name)))
        return body

    shared = Function(filled("f"), "f")

    def call() -> Program:
        return Call(shared)

    inner = Repeat(2, Sequence("inner", [filled("bb"), call()]))
    body = Sequence("body", [call(), filled("aaa"), inner])
    main = Sequence("main", [call(), Repeat(3, body, "rounds"), call(), filled("cccc")])
    options = resolve_options(
        environ={}, code={"autoReport.all": True, "autoReport.directory": str(tmp_path)}
    )
    with Engine(compile_programs(graph, [main]), options) as engine:
        engine.run(0)
    with analyser.open(tmp_path) as report:
        (rounds,) = round_loops(report)
        assert (rounds.name, rounds.n_rounds) == ("rounds", 3)
        ran = trace.executions(report, limit=100).rows
        assert len(ran) == 1 + 3 * 6 + 2
        rows = {row.name: row for row in trace.regions(report, "batch").rows}
        for number in range(3):
            first, last = ran[1 + 6 * number], ran[6 + 6 * number]
            place = rows[f"batch {number}"].first
            assert (place.start_cycle, place.end_cycle) == (first.start_cycle, last.end_cycle)
            assert rows[f"batch {number}"].count == 1
        assert rows["(outside batches)"].count == 2
