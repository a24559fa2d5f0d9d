"""Invariants of programs built with the graph API, with any loops and branches."""

from __future__ import annotations

import random as standard_random
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.oracle.memory_rules import check_memory, check_places
from tests.properties.drawn_programs import Drawn, programs

from tilescope.engine import Engine, Executable, compile_programs, resolve_options
from tilescope.engine.errors import BadGraph
from tilescope.engine.execute.timeline import Timeline
from tilescope.engine.graph import ComputeSet, VertexBatch


def compiled(drawn: Drawn) -> Executable:
    return compile_programs(drawn.graph, [drawn.program], is_checked=True)


def run(drawn: Drawn, executable: Executable) -> tuple[dict[str, np.ndarray], list[Timeline]]:
    with Engine(executable, resolve_options(environ={})) as engine:
        for name, tensor in drawn.tensors.items():
            engine.write_tensor(tensor, drawn.before[name])
        engine.run()
        values = {name: engine.read_tensor(tensor) for name, tensor in drawn.tensors.items()}
        return values, list(engine.timelines())


@given(programs())
def test_a_program_does_what_its_author_wrote(drawn: Drawn) -> None:
    actual, _ = run(drawn, compiled(drawn))
    for name, expected in drawn.after().items():
        assert actual[name].tolist() == expected.tolist(), name


def written_out(timeline: Timeline) -> list[tuple[int, int]]:
    """Return start and end of every round of every entry, in order."""
    spans = []
    for start, end, period, count in zip(
        timeline.start, timeline.end, timeline.period, timeline.count, strict=True
    ):
        spans += [(int(start + i * period), int(end + i * period)) for i in range(count)]
    return sorted(spans)


@given(programs())
def test_the_phases_of_a_track_make_up_its_time(drawn: Drawn) -> None:
    """An IPU computes, exchanges, syncs or waits in a sync: every cycle is exactly one of these."""
    executable = compiled(drawn)
    _, timelines = run(drawn, executable)
    for timeline in timelines:
        spans = written_out(timeline)
        assert [start for start, _ in spans] == [0, *(end for _, end in spans)][: len(spans)]
        assert timeline.n_cycles == (spans[-1][1] if spans else 0)


@given(programs())
def test_memory_adds_up_and_no_two_live_variables_meet(drawn: Drawn) -> None:
    executable = compiled(drawn)
    check_memory(executable)
    check_places(executable)


@given(programs(is_fixed=True), st.randoms(use_true_random=False))
def test_numbers_of_tiles_mean_nothing_to_totals(
    drawn: Drawn, random: standard_random.Random
) -> None:
    """Bytes and cycles move with the tiles of an IPU to their new numbers."""
    graph, machine = drawn.graph, drawn.graph.machine
    before = compiled(drawn)
    per_ipu = machine.tiles_per_ipu
    order = np.concatenate(
        [
            np.array(random.sample(range(per_ipu), per_ipu)) + i * per_ipu
            for i in range(machine.n_ipus)
        ]
    ).astype(np.int32)
    for variable in graph.variables:
        variable.map_tile = order[variable.map_tile]
    for compute_set in graph.compute_sets:
        compute_set.batches = [
            replace(batch, tile=order[batch.tile]) for batch in compute_set.batches
        ]
    after = compiled(drawn)
    for a, b in zip(before.steps, after.steps, strict=True):
        assert a.cost.sent_bytes.tolist() == b.cost.sent_bytes[order].tolist()
        assert a.cost.received_bytes.tolist() == b.cost.received_bytes[order].tolist()
        if a.kind == "OnTileExecute":
            assert a.cost.tile_cycles.tolist() == b.cost.tile_cycles[order].tolist()


@given(programs())
def test_twice_the_clock_changes_no_cycle(drawn: Drawn) -> None:
    slow = compiled(drawn)
    machine = drawn.graph.machine
    drawn.graph.machine = replace(machine, clock_hz=2 * machine.clock_hz)
    fast = compiled(drawn)
    for a, b in zip(slow.steps, fast.steps, strict=True):
        assert a.cost.cycles.tolist() == b.cost.cycles.tolist()


@given(programs(), st.data())
def test_a_planted_violation_is_found(drawn: Drawn, data: st.DataObject) -> None:
    """A vertex modified to write where another vertex of its compute set writes."""
    compiled(drawn)
    candidates: list[tuple[ComputeSet, VertexBatch, str, tuple[int, int]]] = [
        (compute_set, batch, field.name, pair)
        for compute_set in drawn.graph.compute_sets
        for batch in compute_set.batches
        for field in batch.codelet.fields
        if field.is_written
        for pair in permutations(range(batch.n_vertices), 2)
        # Other sizes than those of the vertex's operands are a violation of their own.
        if np.array_equal(*batch.fields[field.name].size[list(pair)])
    ]
    assume(candidates)
    compute_set, batch, name, (first, second) = data.draw(st.sampled_from(candidates))
    regions = batch.fields[name]
    start, size, stride = (getattr(regions, part).copy() for part in ("start", "size", "stride"))
    start[first], size[first], stride[first] = start[second], size[second], stride[second]
    moved = replace(regions, start=start, size=size, stride=stride)
    broken = replace(batch, fields={**batch.fields, name: moved})
    compute_set.batches = [broken if second is batch else second for second in compute_set.batches]
    with pytest.raises(BadGraph, match=r"both write elements|which .* writes"):
        compiled(drawn)
