"""Figures by IPU and stage, against a count over the executions of a tiny pipeline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests.analyser.pipelined import MICRO_BATCHES

from tilescope import analyser
from tilescope.analyser.advice.insights import insights, tips
from tilescope.analyser.advice.ledger import ledger, ledger_parts
from tilescope.analyser.advice.time_insights import time_insights
from tilescope.analyser.diff import compare, explain
from tilescope.analyser.memory.liveness import curve
from tilescope.analyser.program.operations import Layer, operations
from tilescope.analyser.program.program_tree import all_programs, ancestors
from tilescope.analyser.program.stages import (
    first_copy_step,
    pipeline,
    roles_of_steps,
    stages_of_steps,
)
from tilescope.analyser.program.training import passes_of_steps
from tilescope.analyser.summary.stage_figures import (
    IpuMemory,
    ipu_memory,
    ipu_times,
    stage_figures,
)
from tilescope.analyser.time.execution import costs, execution, track_rows
from tilescope.analyser.time.runs import executed, runs
from tilescope.analyser.trace import stage_picture
from tilescope.engine import Builder, Engine, Graph, compile_programs, load_machine, resolve_options
from tilescope.engine.library.popops.elementwise.fill import fill
from tilescope.engine.program import Call, Function, Program, Sequence
from tilescope.reports import Report
from tilescope.webapp.pages.stage_panels import stages_panel


@pytest.fixture(params=["train", "run"])
def piped(request: pytest.FixtureRequest, pipelines: Path) -> Iterator[Report]:
    with analyser.open(pipelines / request.param) as report:
        yield report


def _functions(report: Report) -> dict[int, str]:
    """Return the function that every step is in, empty for the control program."""
    every = all_programs(report)
    return {
        program.step_id: root.name if root.root_kind == "function" else ""
        for program in every.values()
        if program.step_id is not None
        for root in [every[(*ancestors(report, program.program_id), program.program_id)[0]]]
    }


def _counted(report: Report) -> tuple[Counter[tuple[str, int]], Counter[int], int]:
    """Return work by stage and IPU, waits by IPU and length of all runs, one by one."""
    function, passes = _functions(report), passes_of_steps(report)
    column = costs(report).column
    cost = {
        (step, ipu): cycles
        for step, ipu, cycles in zip(
            *(column[name].tolist() for name in ("step_id", "ipu_id", "cycles")), strict=True
        )
    }
    work: Counter[tuple[str, int]] = Counter()
    waits: Counter[int] = Counter()
    total = 0
    for run in runs(report):
        length = max(run.cycles_by_ipu)
        total += length
        spent = Counter[int]()
        entries = executed(report, run.run_id)
        rows = zip(
            entries.step_id.tolist(),
            entries.start_cycle.tolist(),
            entries.end_cycle.tolist(),
            strict=True,
        )
        for step, starts, ends in rows:
            for ipu, (start, end) in enumerate(zip(starts, ends, strict=True)):
                if start < 0:
                    continue
                spent[ipu] += cost[step, ipu]
                assert end - start >= cost[step, ipu]
                name = function[step]
                if ":" in name or not name.startswith(("forward", "backward")):
                    continue
                if "," in name:
                    is_forward = passes[step] in (None, "forward")
                    name = name.split(", ")[0 if is_forward else 1]
                work[name, ipu] += end - start
        for ipu in range(len(run.cycles_by_ipu)):
            waits[ipu] += length - spent[ipu]
    return work, waits, total


def test_work_and_waits_are_those_of_the_timelines(piped: Report) -> None:
    work, waits, total = _counted(piped)
    figures = stage_figures(piped)
    assert figures is not None
    assert {(row.stage.name, row.ipu_id): row.cycles for row in figures.stages} == work
    assert {row.ipu_id: row.waiting_cycles for row in figures.ipus} == waits
    assert figures.total_cycles == total
    for row in figures.ipus:
        assert row.total_cycles == total
        of_stages = [stage.cycles for stage in figures.stages if stage.ipu_id == row.ipu_id]
        assert row.work_cycles == sum(of_stages)
    assert figures.idle_share == sum(waits.values()) / (3 * total)
    assert figures.bubble_share == sum(waits.values()) / (sum(waits.values()) + sum(work.values()))


def test_stages_are_in_the_order_of_a_micro_batch(pipelines: Path) -> None:
    with analyser.open(pipelines / "train") as report:
        figures = stage_figures(report)
        assert figures is not None
        names = [row.stage.name for row in figures.stages]
        assert names == [f"forward {i}" for i in (0, 1, 2)] + [f"backward {i}" for i in (2, 1, 0)]
        assert [row.ipu_id for row in figures.stages] == [0, 1, 2, 2, 1, 0]
        assert {row.n_executions for row in figures.stages} == {MICRO_BATCHES * figures.n_runs}
        per_batch = {row.stage.name: row.cycles / row.n_executions for row in figures.stages}
        assert figures.slowest.stage.name == max(per_batch, key=lambda name: per_batch[name])
        loads = {stage.name for stage in stages_of_steps(report) if stage is not None}
        assert loads == set(names)


def test_cycles_are_those_of_the_schedule(pipelines: Path) -> None:
    """Stage s works on micro-batch c - s in cycle c; the last one is forward and backward."""
    with analyser.open(pipelines / "train") as report:
        found = pipeline(report)
    assert found is not None
    actual = [cycle.stages for cycle in found.cycles for _ in range(cycle.n_cycles)]
    position = [0, 1, 2, 2, 3, 4]
    assert actual == [
        tuple(i for i, s in enumerate(position) if 0 <= cycle - s < MICRO_BATCHES)
        for cycle in range(MICRO_BATCHES + 4)
    ]


def test_balanced_stages_take_the_mean(piped: Report) -> None:
    """Recomputed cycle by cycle; with their own times, cycles last what the critical path has."""
    figures, found = stage_figures(piped), pipeline(piped)
    assert figures is not None
    assert found is not None
    own = [row.cycles / row.n_executions for row in figures.stages]
    means = {
        direction: np.mean(
            [t for t, row in zip(own, figures.stages, strict=True)
             if row.stage.direction == direction]
        )
        for direction in ("forward", "backward")
        if any(row.stage.direction == direction for row in figures.stages)
    }  # fmt: skip

    def length(times: list[float]) -> float:
        total = 0.0
        for cycle in found.cycles:
            ipus = [0.0] * 3
            for place in cycle.stages:
                ipus[figures.stages[place].ipu_id] += times[place]
            total += cycle.n_cycles * max(ipus)
        return total * figures.n_runs

    roles = np.array(roles_of_steps(piped))
    on_the_path = execution(piped).critical_cycles[:, roles == "work"].sum()
    assert length(own) == pytest.approx(on_the_path)
    balanced = length([float(means[row.stage.direction]) for row in figures.stages])
    expected = figures.total_cycles - (length(own) - balanced)
    assert figures.balanced_cycles == pytest.approx(expected, abs=1)
    assert figures.balance_gain_cycles > 0


def test_memory_of_ipus(pipelines: Path) -> None:
    with analyser.open(pipelines / "train") as report:
        rows = ipu_memory(report)
        for row in rows:
            live = curve(report, ("ipu", row.ipu_id))
            expected = live.always_live_bytes + int(live.not_always_live_bytes.max())
            assert row.total_bytes == expected
    assert [row.stash_bytes > 0 for row in rows] == [True, True, False]
    assert min(row.weight_bytes for row in rows) >= 0


def test_one_ipu_has_no_stages_and_never_waits(pipelines: Path) -> None:
    with analyser.open(pipelines / "one") as report:
        assert pipeline(report) is None
        assert stage_figures(report) is None
        assert set(stages_of_steps(report)) == {None}
        (row,) = ipu_times(report)
        ran = execution(report)
        assert row.total_cycles == ran.total_cycles
        assert (row.work_cycles, row.waiting_cycles, row.collective_cycles) == (0, 0, 0)
        assert row.host_cycles == ran.phase_cycles["stream_copy"]


def test_a_run_alone(pipelines: Path) -> None:
    with analyser.open(pipelines / "train") as report:
        whole = stage_figures(report)
        parts = [stage_figures(report, run.run_id) for run in runs(report)]
        assert whole is not None
        assert sum(part.total_cycles for part in parts if part) == whole.total_cycles
        for i, row in enumerate(whole.stages):
            assert sum(part.stages[i].cycles for part in parts if part) == row.cycles


def test_a_report_without_runs(small: Report) -> None:
    assert stage_figures(small) is None


def test_the_ledger_by_ipu_and_stage(piped: Report) -> None:
    """IPUs add up to the ledger kind by kind, stages to their work."""
    whole, parts = ledger(piped), ledger_parts(piped)
    figures = stage_figures(piped)
    assert figures is not None
    kinds = {entry.kind: entry.tile_cycles for entry in whole.entries}
    of_ipus = [part for part in parts if part.stage is None]
    for kind, tile_cycles in kinds.items():
        assert sum(part.tile_cycles.get(kind, 0) for part in of_ipus) == tile_cycles
    assert [part.total for part in of_ipus] == [whole.total_cycles * 8] * 3
    assert {part.stage: part.total for part in parts if part.stage} == {
        row.stage.name: row.cycles * 8 for row in figures.stages
    }


def test_one_ipu_has_no_parts(pipelines: Path) -> None:
    with analyser.open(pipelines / "one") as report:
        assert ledger_parts(report) == ()


@pytest.mark.parametrize("layer", ["library", "model", "step"])
def test_operations_have_ipu_and_stage(layer: Layer, pipelines: Path) -> None:
    with analyser.open(pipelines / "train") as report:
        listed, figures = operations(report, layer), stage_figures(report)
    assert figures is not None
    assert listed.has_stages
    assert listed.has_ipus
    home = {row.stage.name: row.ipu_id for row in figures.stages}
    of_stages = [operation for operation in listed.operations if operation.stage]
    if layer == "model":
        by_name = {operation.name: operation.stage for operation in of_stages}
        assert by_name["first"] == "forward 0"
        assert by_name["first:MatMulWeightsGrad"] == "backward 0"
        assert by_name["third:MatMulDataGrad"] == "backward 2"
    # The host's copies of a stage concern all IPUs.
    assert {operation.ipu_id for operation in of_stages} <= {None, *home.values()}
    assert all(operation.ipu_id in (None, home[operation.stage or ""]) for operation in of_stages)
    names = [operation.name for operation in listed.of_stage("backward 1").operations]
    assert names == [item.name for item in of_stages if item.stage == "backward 1"]


def test_operations_of_one_ipu(pipelines: Path) -> None:
    with analyser.open(pipelines / "one") as report:
        listed = operations(report)
    assert not listed.has_stages
    assert not listed.has_ipus


def test_insights_name_the_slowest_stage(piped: Report) -> None:
    """By what equal stages gain for the whole, in place of what IPUs wait."""
    figures = stage_figures(piped)
    assert figures is not None
    found = [item for item in time_insights(piped).found if item.kind in ("stages", "waiting")]
    (insight,) = found
    assert insight.subject == figures.slowest.stage.name
    assert insight.gain_cycles == figures.total_cycles - figures.balanced_cycles
    assert f"would take {figures.balanced_cycles:,}" in insight.text
    stages = stages_of_steps(piped)
    assert {stages[step] for step in insight.step_ids} == {figures.slowest.stage}


@pytest.mark.parametrize(("stash_bytes", "is_said"), [(9, False), (10, True)])
def test_a_tip_on_stashes(stash_bytes: int, is_said: bool, pipelines: Path) -> None:
    with analyser.open(pipelines / "train") as report:
        known = insights(report)
    held = (IpuMemory(1, 20, stash_bytes, 80 - stash_bytes),)
    titles = [tip.title for tip in tips(replace(known, stashes=held))]
    assert ("Stash less of micro-batches" in titles) is is_said
    assert [row.ipu_id for row in known.stashes] == [1, 0]


def test_the_difference_names_moved_nodes_and_changed_stages(pipelines: Path) -> None:
    with (
        analyser.open(pipelines / "train") as baseline,
        analyser.open(pipelines / "moved") as candidate,
    ):
        sides = [stage_figures(report) for report in (baseline, candidate)]
        difference = compare(baseline, candidate)
    moved = {node.name: (node.baseline_stage, node.candidate_stage) for node in difference.moved}
    assert moved["second"] == ("forward 0", "forward 1")
    assert moved["second:MatMulWeightsGrad"] == ("backward 0", "backward 1")
    assert moved["after"] == ("forward 1", "forward 2")
    assert not {"first", "third"} & set(moved)
    per_batch = [
        {row.stage.name: row.cycles / row.n_executions for row in side.stages}
        for side in sides
        if side is not None
    ]
    for change in difference.stages:
        assert change.baseline_cycles == per_batch[0][change.name]
        assert change.candidate_cycles == per_batch[1][change.name]
    sentences = " ".join(explain(difference))
    assert "second (forward 0 → forward 1)" in sentences
    assert "By stage, for a micro-batch: " in sentences


def test_equal_pipelines_and_one_ipu_have_no_changes_of_stages(pipelines: Path) -> None:
    with analyser.open(pipelines / "train") as report, analyser.open(pipelines / "one") as one:
        same, alone = compare(report, report), compare(one, one)
    assert same.moved == ()
    assert {change.delta_cycles for change in same.stages} == {0}
    assert alone.stages == ()


def test_the_picture_of_a_pipeline(piped: Report) -> None:
    """Executions and waits add up to the figures; stages follow as the schedule says."""
    for run in runs(piped):
        picture, figures = stage_picture(piped, run.run_id), stage_figures(piped, run.run_id)
        assert picture is not None
        assert figures is not None
        for row in figures.stages:
            mine = [item for item in picture.slices if item.stage == row.stage]
            assert {item.ipu_id for item in mine} == {row.ipu_id}
            assert [item.micro_batch for item in mine] == list(range(row.n_executions))
            assert sum(item.end_cycle - item.start_cycle for item in mine) == row.cycles
        starts = {(item.stage, item.micro_batch): item.start_cycle for item in picture.slices}
        for before, after in pairwise(figures.stages):
            for k in range(before.n_executions):
                assert starts[before.stage, k] < starts[after.stage, k]
        waiting = execution(piped, run.run_id).waiting_cycles.sum(axis=1).tolist()
        for ipu_id, expected in enumerate(waiting):
            mine_ = [wait for wait in picture.waits if wait.ipu_id == ipu_id]
            assert sum(wait.end_cycle - wait.start_cycle for wait in mine_) == expected
        home = {row.stage: row.ipu_id for row in figures.stages}
        named = [wait for wait in picture.waits if wait.stage is not None]
        assert named
        assert all(home[wait.stage] == wait.late_ipu_id for wait in named if wait.stage)
        begin = {
            row.ipu_id: row.start_cycle for row in track_rows(piped) if row.run_id == run.run_id
        }
        ends = {(item.stage, item.end_cycle - begin[item.ipu_id]) for item in picture.slices}
        assert all((wait.stage, wait.end_cycle - begin[wait.ipu_id]) in ends for wait in named)


def test_labels_are_direction_and_micro_batch(pipelines: Path) -> None:
    with analyser.open(pipelines / "train") as report:
        picture = stage_picture(report, 0)
    with analyser.open(pipelines / "one") as report:
        assert stage_picture(report, 0) is None
    assert picture is not None
    labels = [item.label for item in picture.slices if item.ipu_id == 2]
    assert labels == [f"{part}{k}" for k in range(MICRO_BATCHES) for part in "FB"]


def test_the_panel_of_stages_names_micro_batches_and_waits(pipelines: Path) -> None:
    with analyser.open(pipelines / "train") as report:
        picture, figures = stage_picture(report, 0), stage_figures(report, 0)
    assert picture is not None
    assert figures is not None
    text = str(stages_panel(picture, figures, None, None).to_plotly_json())
    assert "Backward 0, micro-batch 5: " in text
    assert "IPU 1 waits for backward 0 on IPU 0: " in text
    cut = str(stages_panel(picture, figures, 0, 5000).to_plotly_json())
    assert "micro-batch 0" in cut
    assert "micro-batch 1" not in cut


def test_names_make_no_pipeline(tmp_path: Path) -> None:
    """Functions of a program that happen to be called as those of a pipeline."""
    graph = Graph(load_machine("gc200", tiles_per_ipu=4))
    x = graph.add_variable("float32", [4], "x")
    graph.set_tile_mapping(x, [0], [0])
    body = Sequence()
    fill(Builder(graph, body), x, 1.0)
    called: list[Program] = [Call(Function(body, name)) for name in ("forward 0", "copies")]
    executable = compile_programs(graph, [Sequence("main", called)])
    options = resolve_options(
        environ={}, code={"autoReport.all": True, "autoReport.directory": str(tmp_path)}
    )
    with Engine(executable, options) as engine:
        engine.run(0)
    with analyser.open(tmp_path) as report:
        assert {root.name for root in all_programs(report).values()} >= {"forward 0", "copies"}
        assert pipeline(report) is None
        assert set(roles_of_steps(report)) == {"other"}
        assert first_copy_step(report) is None
