"""Sums that must agree, on generated reports of several IPUs, loops and runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.generated_report import generate_report

from tilescope import analyser
from tilescope.analyser.diff import compare
from tilescope.analyser.machine.target import Source, target
from tilescope.analyser.memory import liveness, lowered_variables
from tilescope.analyser.memory import tile_memory as memory
from tilescope.analyser.program import program_tree, programs
from tilescope.analyser.summary.metrics import METRICS, values
from tilescope.analyser.time import runs
from tilescope.analyser.time.execution import PHASES, execution, steps, taken_cycles
from tilescope.reports import Report

SIZES = [
    {"n_tiles": 40, "n_steps": 300, "n_variables": 80, "n_runs": 2},
    {"n_tiles": 24, "n_ipus": 4, "n_steps": 500, "n_variables": 60, "distinct_patterns": 500},
]


@pytest.fixture(scope="module", params=SIZES, ids=["one IPU", "four IPUs"])
def report(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Report]:
    directory: Path = tmp_path_factory.mktemp("generated")
    with analyser.open(generate_report(directory, **request.param)) as opened:
        yield opened


def test_phases_add_up(report: Report) -> None:
    actual = values(report)
    assert sum(actual[f"cycles.{phase}"] or 0 for phase in PHASES) == actual["cycles.total"]
    assert 0 < (actual["parallel.efficiency"] or 0) <= (actual["tile.balance"] or 0) <= 1


def test_executions_one_by_one_are_the_counted_ones(report: Report) -> None:
    ran = execution(report)
    counted = np.zeros_like(ran.executions)
    cycles = np.zeros_like(ran.executions)
    for run in runs.runs(report):
        one_by_one = runs.executed(report, run.run_id)
        for ipu in range(target(report).n_ipus):
            takes_part = one_by_one.start_cycle[:, ipu] >= 0
            ran_steps = one_by_one.step_id[takes_part]
            np.add.at(counted[ipu], ran_steps, 1)
            took = (one_by_one.end_cycle - one_by_one.start_cycle)[takes_part, ipu]
            np.add.at(cycles[ipu], ran_steps, took)
        starts = np.where(one_by_one.start_cycle < 0, 1 << 62, one_by_one.start_cycle).min(axis=1)
        assert (np.diff(starts) >= 0).all()
    assert np.array_equal(counted, ran.executions)
    assert np.array_equal(cycles, taken_cycles(report))


@pytest.mark.parametrize("source", ["all", ("ipu", 0), ("tile", 3)])
def test_variables_add_up_to_the_curve(report: Report, source: Source) -> None:
    live = liveness.curve(report, source)
    for step in range(0, len(live), 7):
        actual = liveness.step_variables(report, step, source)
        assert actual.total_bytes == live.not_always_live_bytes[step]
    always = liveness.always_live_variables(report, source)
    assert always.total_bytes == live.always_live_bytes


def test_tiles_add_up_to_ipus_and_ipus_to_all(report: Report) -> None:
    machine = target(report)
    ipus = [
        liveness.curve(report, ("ipu", ipu)).not_always_live_bytes for ipu in range(machine.n_ipus)
    ]
    assert np.array_equal(sum(ipus), liveness.curve(report).not_always_live_bytes)
    tiles = [
        liveness.curve(report, ("tile", tile)).not_always_live_bytes
        for tile in range(machine.tiles_per_ipu)
    ]
    assert np.array_equal(sum(tiles), ipus[0])
    worst = memory.tile_memory(report, "liveness").series["Not always live"]
    assert [int(tile.max()) for tile in tiles] == worst[: machine.tiles_per_ipu].tolist()


@pytest.mark.parametrize("breakdown", ["region", "category"])
def test_stacks_add_up(report: Report, breakdown: memory.Breakdown) -> None:
    actual = memory.tile_memory(report, breakdown, include_gaps=True)
    assert np.array_equal(sum(actual.series.values()), actual.total_bytes)
    assert METRICS["memory.total_including_gaps"].compute(report) == actual.total_bytes.sum()


def test_the_parts_of_a_variable_add_up(report: Report) -> None:
    actual = lowered_variables.variable_columns(report)
    for variable_id, size in list(zip(actual["variable_id"], actual["bytes"], strict=True))[:20]:
        assert isinstance(variable_id, int)
        assert lowered_variables.variable_memory(report, variable_id).sum() == size


def test_every_program_is_reached_from_a_root(report: Report) -> None:
    waiting, visited = list(programs.roots(report)), set()
    while waiting:
        node = waiting.pop()
        visited.add(node.program_id)
        below = programs.children(report, node.program_id)
        assert len(below) == node.n_children
        assert [child.position for child in below] == list(range(len(below)))
        waiting += below
    assert visited == set(program_tree.all_programs(report))


def test_search_finds_what_a_scan_finds(report: Report) -> None:
    text = steps(report).name[-20].rpartition("/")[2] or "sync"
    every = program_tree.all_programs(report).values()
    by_hand = [node.program_id for node in every if text.lower() in node.label.lower()]
    actual = programs.search(report, text.upper(), 1000)
    assert [match.node.program_id for match in actual.matches] == by_hand
    assert actual.n_matches == len(by_hand) > 0
    assert all(
        match.ancestors == program_tree.ancestors(report, match.node.program_id)
        for match in actual.matches
    )


def test_another_seed_differs_and_the_same_does_not(tmp_path: Path) -> None:
    size: dict[str, Any] = {"n_tiles": 16, "n_steps": 200, "n_variables": 40}
    opened = [
        analyser.open(generate_report(tmp_path / str(seed), seed=seed % 2, **size))
        for seed in range(3)
    ]
    assert compare(opened[0], opened[2]).is_identical
    actual = compare(opened[0], opened[1])
    assert not actual.is_identical
    gaps = actual.metric("cycles.other").delta or 0
    assert actual.steps.delta_cycles + gaps == actual.metric("cycles.total").delta
    for report in opened:
        report.close()
