"""Invariants of programs, machines and reports."""

from __future__ import annotations

import random as standard_random
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracle.drawn_graphs import machines
from tests.oracle.memory_rules import check_memory, check_places
from tests.properties.drawn_models import models

from tilescope.analyser import diff
from tilescope.analyser.memory.liveness import curve
from tilescope.analyser.memory.lowered_variables import tile_variables
from tilescope.analyser.memory.tile_memory import tile_memory
from tilescope.analyser.summary.metrics import values
from tilescope.analyser.time.execution import execution
from tilescope.engine import (
    CompiledModel,
    Engine,
    EngineOptions,
    Executable,
    Graph,
    Machine,
    compile_model,
    compile_programs,
    load_machine,
    resolve_options,
)
from tilescope.engine.graph.graph import checked_graph
from tilescope.engine.ir import Model
from tilescope.engine.lower import lower
from tilescope.reports import check_report, open_report

__all__ = ["check_memory"]


def evaluate(model: Model, x: np.ndarray) -> np.ndarray:
    """Return a model's result by the operators' numpy equivalents."""
    known = {model.inputs[0]: x}
    for operation in model.operations:
        inputs = [
            known[value] if value.known is None else value.known for value in operation.operands
        ]
        assert operation.operator.evaluate is not None
        (result,) = operation.operator.evaluate(operation, inputs)
        known[operation.output] = result
    return np.asarray(known[model.outputs[0][1]])


def run(compiled: CompiledModel, options: EngineOptions | None = None) -> np.ndarray:
    with Engine(compiled.executable, options or resolve_options()) as engine:
        return compiled.run(engine, compiled.random_inputs(0))["y"]


@given(models(), machines())
def test_the_machine_changes_no_value(model: Model, machine: Machine) -> None:
    compiled = compile_model(model, machine, is_checked=True)
    expected = evaluate(model, compiled.random_inputs(0)["x"])
    result = run(compiled)
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@given(models(), machines())
def test_what_is_sent_is_received(model: Model, machine: Machine) -> None:
    """A multicast is sent once and received by many; without one, the two are equal."""
    for step in compile_model(model, machine, is_checked=True).executable.steps:
        if step.kind not in ("DoExchange", "GlobalExchange"):
            continue
        sent, received = step.cost.sent_bytes.sum(), step.cost.received_bytes.sum()
        assert 0 < sent <= received
        assert step.cost.link_in_bytes.sum() == step.cost.link_out_bytes.sum() <= received
        assert step.cost.fragments[step.cost.received_bytes.ids].all()
        if machine.n_tiles == 2:  # no receivers to multicast to
            assert sent == received


@given(models(), machines())
def test_memory_adds_up_and_nothing_overlaps(model: Model, machine: Machine) -> None:
    executable = compile_model(model, machine, is_checked=True).executable
    check_memory(executable)
    check_places(executable)


def renumber(graph: Graph, order: np.ndarray) -> None:
    for variable in graph.variables:
        if variable.is_mapped:
            variable.map_tile = order[variable.map_tile]
    for compute_set in graph.compute_sets:
        compute_set.batches = [
            replace(batch, tile=order[batch.tile]) for batch in compute_set.batches
        ]


def without_order_of_sends(machine: Machine) -> Machine:
    """Return a machine on which exchanges depend on what is sent, and not on when.

    Of tiles that may begin to send in one cycle, the lowest number goes first.
    """
    return replace(
        machine,
        exchange_is_scheduled=0,
        exchange_code_bytes_per_source=0,
        exchange_code_bytes_per_pointer=0,
    )


def check_same_totals(before: Executable, after: Executable, order: np.ndarray) -> None:
    assert before.memory.excluding_gaps.tolist() == after.memory.excluding_gaps[order].tolist()
    assert before.memory.including_gaps.sum() == after.memory.including_gaps.sum()
    for a, b in zip(before.steps, after.steps, strict=True):
        assert a.cost.sent_bytes.tolist() == b.cost.sent_bytes[order].tolist()
        assert a.cost.received_bytes.tolist() == b.cost.received_bytes[order].tolist()
        assert a.cost.fragments.tolist() == b.cost.fragments[order].tolist()


@given(models(), st.integers(1, 9), st.randoms(use_true_random=False))
def test_renumbering_tiles_leaves_totals(
    model: Model, n_tiles: int, random: standard_random.Random
) -> None:
    """The number of a tile only affects when it sends: the duration of an exchange and its code."""
    machine = without_order_of_sends(load_machine("gc200", tiles_per_ipu=n_tiles))
    lowered = lower(model, machine)
    graph, program = checked_graph(lowered.graph), lowered.programs[0]
    before = compile_programs(graph, [program])
    order = np.array(random.sample(range(n_tiles), n_tiles), dtype=np.int32)
    renumber(graph, order)
    after = compile_programs(graph, [program])
    check_same_totals(before, after, order)
    for a, b in zip(before.steps, after.steps, strict=True):
        if a.kind not in ("DoExchange", "GlobalExchange"):
            assert a.cost.cycles.tolist() == b.cost.cycles.tolist()


@given(models(), st.integers(1, 4), st.randoms(use_true_random=False))
def test_renumbering_pairs_of_one_row_leaves_cycles(
    model: Model, n_pairs: int, random: standard_random.Random
) -> None:
    machine = without_order_of_sends(load_machine("gc200", tiles_per_ipu=2 * n_pairs))
    machine = replace(machine, exchange_row_cycles=0)
    lowered = lower(model, machine)
    graph, program = checked_graph(lowered.graph), lowered.programs[0]
    before = compile_programs(graph, [program])
    pairs = random.sample(range(n_pairs), n_pairs)
    order = np.array([2 * p + side for p in pairs for side in random.sample((0, 1), 2)])
    order = order.astype(np.int32)
    renumber(graph, order)
    after = compile_programs(graph, [program])
    check_same_totals(before, after, order)
    for a, b in zip(before.steps, after.steps, strict=True):
        assert a.cost.cycles.tolist() == b.cost.cycles.tolist()
        assert a.cost.paired_bytes.tolist() == b.cost.paired_bytes[order].tolist()


@given(models(), machines())
def test_the_clock_changes_no_cycle(model: Model, machine: Machine) -> None:
    slow = compile_model(model, machine, is_checked=True).executable
    fast = compile_model(model, replace(machine, clock_hz=2 * machine.clock_hz)).executable
    for a, b in zip(slow.steps, fast.steps, strict=True):
        assert a.cost.cycles.tolist() == b.cost.cycles.tolist()


def into(directory: Path) -> EngineOptions:
    return resolve_options(code={"autoReport.all": True, "autoReport.directory": str(directory)})


@settings(max_examples=15)
@given(models(), machines(most_tiles=5))
def test_a_report_matches_the_executable(model: Model, machine: Machine) -> None:
    compiled = compile_model(model, machine, is_checked=True)
    executable = compiled.executable
    with tempfile.TemporaryDirectory() as folder:
        run(compiled, into(Path(folder)))
        assert check_report(Path(folder)) == []
        with open_report(Path(folder)) as report:
            actual = execution(report)
            metrics = values(report)
            total = tile_memory(report).series["Total"]
            with_gaps = tile_memory(report, include_gaps=True).series["Total"]
            live = curve(report).not_always_live_bytes
            lowered = [tile_variables(report, tile) for tile in range(machine.n_tiles)]
    cycles = np.sum([step.cost.cycles.dense() for step in executable.steps], axis=0)
    with Engine(executable, resolve_options()) as engine:
        ends = [timeline.n_cycles for timeline in engine.timelines(0)]
    assert metrics["cycles.total"] == max(ends)
    if machine.n_ipus == 1:  # no IPU waits for another
        assert ends == cycles.tolist()
    assert sum(actual.phase_cycles.values()) == max(ends), "waiting is part of a sync"
    laid_out = executable.memory
    assert metrics["memory.max_address"] == laid_out.including_gaps.max()
    assert total.tolist() == laid_out.excluding_gaps.tolist()
    assert with_gaps.tolist() == laid_out.including_gaps.tolist()
    assert live.tolist() == laid_out.live.totals.tolist()
    for parts in lowered:
        for offset, size, region in zip(parts.offset_bytes, parts.bytes, parts.region, strict=True):
            reaches = {
                "Non-interleaved" if address < machine.non_interleaved_bytes else "Interleaved"
                for address in (offset, offset + size - 1)
            }
            assert set(region.split(", ")) == reaches


@settings(max_examples=10)
@given(models(), machines(most_tiles=5))
def test_two_runs_give_identical_reports(model: Model, machine: Machine) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name in ("baseline", "candidate"):
            run(compile_model(model, machine, is_checked=True), into(Path(folder) / name))
        with (
            open_report(Path(folder) / "baseline") as baseline,
            open_report(Path(folder) / "candidate") as candidate,
        ):
            assert diff.unequal_data(baseline, candidate) == ()
            assert all(
                change.baseline == change.candidate
                for change in diff.metric_changes(baseline, candidate)
            )
