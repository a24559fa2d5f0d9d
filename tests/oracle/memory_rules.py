"""The rules of tile memory in plain Python, for any executable."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

import numpy as np
from tests.oracle.naive_machine import elements_of

from tilescope.engine import Executable
from tilescope.engine.compiler.executable.executable import Step
from tilescope.engine.graph import Regions, VertexBatch
from tilescope.engine.machine import Machine

__all__ = ["check_memory", "check_places"]

Span = tuple[int, int]


def check_memory(executable: Executable) -> None:
    """Check totals, gaps, regions, and that no two live parts overlap."""
    memory, machine = executable.memory, executable.machine
    live = memory.live.dense()
    assert (live >= 0).all()
    assert memory.not_always_live_peak.tolist() == live.max(axis=0).tolist()
    assert memory.live.peak_step.tolist() == live.argmax(axis=0).tolist()
    assert memory.live.totals.tolist() == live.sum(axis=1).tolist()
    total = memory.always_live + memory.not_always_live_peak
    assert memory.excluding_gaps.tolist() == total.tolist()
    assert (memory.excluding_gaps <= memory.including_gaps).all()
    in_categories = sum(regions.sum(axis=0) for regions in memory.categories.values())
    assert np.asarray(in_categories).tolist() == memory.excluding_gaps.tolist()
    parts = memory.parts.rows()
    for tile in range(machine.n_tiles):
        here = range(int(parts.tile_start[tile]), int(parts.tile_start[tile + 1]))
        highest = -(-int(_always_live_code(executable, tile)) // 8) * 8
        base = highest
        for i in here:
            end = int(parts.offset[i] + parts.n_bytes[i])
            assert base <= parts.offset[i], "parts lie above code and state"
            highest = max(highest, -(-end // 8) * 8)
            for j in range(i + 1, here.stop):
                apart_in_time = (
                    parts.end_step[i] <= parts.start_step[j]
                    or parts.end_step[j] <= parts.start_step[i]
                )
                apart_in_space = (
                    end <= parts.offset[j] or parts.offset[j] + parts.n_bytes[j] <= parts.offset[i]
                )
                assert apart_in_time or apart_in_space
        assert memory.including_gaps[tile] == highest, "gaps end at the highest address in use"
        fits = highest <= machine.allocatable_bytes
        fits &= bool(memory.code_end[tile] <= machine.non_interleaved_bytes)
        assert (tile in executable.overfull_tiles) != fits


def _always_live_code(executable: Executable, tile: int) -> int:
    """Return the bytes below the first part: all categories except variables."""
    held = ("variable", "constant", "message")
    categories = executable.memory.categories
    return sum(int(split[:, tile].sum()) for name, split in categories.items() if name not in held)


def check_places(executable: Executable) -> None:
    """Check that fields meet the memory constraints of codelets, or vertices take the slow path."""
    for step in executable.steps:
        if step.compute_set is None:
            continue
        for index, batch in enumerate(step.compute_set.batches):
            for vertex in range(batch.n_vertices):
                is_met = _is_met(executable, step, batch, vertex)
                tile = int(batch.tile[vertex])
                slow = executable.memory.slow_tiles.get((step.step_id, index))
                if batch.codelet.has_slow_path:
                    # Vertices of a tile are slow together, even those that are met.
                    assert is_met or (slow is not None and tile in slow)
                else:
                    assert slow is None
                    assert is_met


def _is_met(executable: Executable, step: Step, batch: VertexBatch, vertex: int) -> bool:
    machine = executable.machine
    tile = int(batch.tile[vertex])
    spans = {
        field.name: list(_spans(executable, step, batch, field.name, vertex))
        for field in batch.codelet.fields
    }
    for field in batch.codelet.fields:
        for low, _ in spans[field.name]:
            if field.interleaved and low < machine.non_interleaved_bytes:
                return False
    for group in batch.codelet.apart:
        for a, b in combinations(group, 2):
            for first, second in product(spans[a], spans[b]):
                if elements(first, machine) & elements(second, machine):
                    return False
    assert all(spans.values()), f"a field on tile {tile} has no address"
    return True


def elements(span: Span, machine: Machine) -> set[int]:
    """Return the memory elements of a span, counted from the boundary of the regions."""
    meet, size = machine.non_interleaved_bytes, machine.memory_element_bytes
    actual = set()
    for address in range(*span):
        if address < meet:
            actual.add(-1 - (meet - 1 - address) // size)
        else:
            actual.add((address - meet) // (size * machine.interleave_factor))
    return actual


def _touched(regions: Regions, vertex: int) -> set[int]:
    """Return the elements of a vertex's region, or regions."""
    return {element for _, element in elements_of(regions, vertex)}


def _spans(
    executable: Executable, step: Step, batch: VertexBatch, name: str, vertex: int
) -> Iterator[Span]:
    """Yield the addresses of the parts that hold a field of a vertex at a step."""
    field, regions = batch.codelet.field(name), batch.fields[name]
    variable, tile = regions.variable, int(batch.tile[vertex])
    owners = variable.tile_of(np.array(sorted(_touched(regions, vertex))))
    if (owners == tile).any():
        yield _span(executable, variable.variable_id, tile, step)
    if (owners == tile).all():
        return
    for number, title in executable.memory.message_names.items():
        start, end = executable.memory.lifetimes[number]
        arrives = field.is_read and start == step.step_id - 1
        leaves = field.is_written and start == step.step_id
        if title == f"{step.name}/message/{variable.name}" and (arrives or leaves):
            assert start <= step.step_id < end
            yield _span(executable, number, tile, step)


def _span(executable: Executable, number: int, tile: int, step: Step) -> Span:
    parts = executable.memory.parts.rows()
    for i in range(int(parts.tile_start[tile]), int(parts.tile_start[tile + 1])):
        # A variable has a part for each of its lives.
        is_live = parts.start_step[i] <= step.step_id < parts.end_step[i]
        if parts.variable_id[i] == number and is_live:
            return int(parts.offset[i]), int(parts.offset[i] + parts.n_bytes[i])
    raise AssertionError(f"tile {tile} has no part of variable {number} that is live")
