"""Compact arrays hold the integers they were made of, in few bytes; so do whole programs."""

from __future__ import annotations

import numpy as np
import pytest

from tilescope.engine.codelets.popops.elementwise.copy import COPY
from tilescope.engine.compiler.compact import compact, stored_bytes
from tilescope.engine.compiler.executable.executable import Executable
from tilescope.engine.graph import Graph, blocks
from tilescope.engine.machine import load_machine
from tilescope.engine.program import Execute, Sequence
from tilescope.engine.session.compile import compile_programs


@pytest.mark.parametrize(
    ("values", "n_bytes"),
    [
        ([], 0),
        ([7] * 1_000, 1),
        ([2**40] * 3, 8),
        ([-128, 127], 2),
        ([5, 128], 4),
        ([0, -(2**31)], 8),
        ([1, 2**31], 16),
    ],
    ids=str,
)
def test_a_compact_array_takes_the_narrowest_type(values: list[int], n_bytes: int) -> None:
    array = compact(np.array(values, np.int64))
    assert array.tolist() == values
    assert not array.flags.writeable
    assert stored_bytes(array) == n_bytes


def test_numbers_of_all_tiles_are_stored_once() -> None:
    one, other = compact(np.arange(1_472)), compact(np.arange(1_472, dtype=np.int32))
    assert one is other
    assert compact(np.arange(1_472)[::-1]).tolist() == [*range(1_471, -1, -1)]


def shifted(n_sets: int, n_tiles: int) -> Executable:
    """Return a program of copies from other tiles, each to another distance."""
    graph = Graph(load_machine("gc200", tiles_per_ipu=n_tiles))
    start = np.arange(n_tiles) * 4
    tensors = [graph.add_variable("float32", (4 * n_tiles,), f"v{i}") for i in range(2)]
    for tensor in tensors:
        graph.set_tile_mapping(tensor, start, np.arange(n_tiles))
    program = Sequence("program")
    for i in range(n_sets):
        compute_set = graph.add_compute_set(f"step {i}")
        source = (np.arange(n_tiles) + 1 + i) % n_tiles * 4
        x, out = tensors[i % 2].variable, tensors[1 - i % 2].variable
        fields = {
            "x": blocks(x, source, [4], [1], n_tiles),
            "out": blocks(out, start, [4], [1], n_tiles),
        }
        graph.add_vertices(compute_set, COPY, np.arange(n_tiles), fields)
        program.add(Execute(compute_set))
    return compile_programs(graph, [program])


def test_an_exchange_takes_few_bytes_a_tile() -> None:
    """Costs, message buffers and parts; not the vertices."""
    n_sets, n_tiles = 16, 1_472
    executable = shifted(n_sets, n_tiles)
    arrays: dict[int, np.ndarray] = {}
    for step in executable.steps:
        columns = [getattr(step.cost, name) for name in ("tile_cycles", "sent_bytes", "fragments")]
        columns += [step.cost.received_bytes, step.code_bytes]
        held = [a for c in columns if c is not None for a in (c.ids, c.narrow_values)]
        if step.messages is not None:
            held += [step.messages.variable_id, step.messages.tile, step.messages.n_bytes]
        arrays |= {id(array): array for array in held}
    parts = executable.memory.parts
    arrays |= {id(a): a for a in (parts.owner, parts.narrow_bytes, parts.narrow_offset)}
    n_bytes = sum(map(stored_bytes, arrays.values()))
    assert n_bytes < 24 * n_sets * n_tiles
    assert sum(step.messages is not None for step in executable.steps) == n_sets
