"""Rings: the last few values of a tensor, on its own tiles, at a slot that every tile counts.

Source: graphcore/popart, willow/src/popx/op/stashx.cpp and restorex.cpp: a dynamic update and a
dynamic slice of a tensor with one dimension more, whose entries are laid out as the value is. There
a counter is on one tile, and a division ends its round.
"""

from __future__ import annotations

import numpy as np

from tilescope.engine.codelets.gcl.ring_index import RING_STEP
from tilescope.engine.codelets.popops.slicing.dynamic_update import DYNAMIC_UPDATE
from tilescope.engine.codelets.popops.slicing.multi_slice import DYNAMIC_SLICE
from tilescope.engine.graph import INT32, ComputeSet, Tensor, Variable
from tilescope.engine.graph import unchecked_blocks as blocks
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.library.builder import Builder

__all__ = ["create_ring", "create_slots", "next_slot", "read_ring", "write_ring"]


def create_slots(builder: Builder, name: str) -> Tensor:
    """Add a counter on every tile, and return them: no tile asks another one for its slot.

    Parameters
    ----------
    builder
        Its graph and tiles.
    name
        Name of the variable.

    Returns
    -------
    Tensor
        Of int32, an element for every tile of the builder.
    """
    n_tiles = builder.tiles.ids.size
    slots = builder.graph.add_variable(INT32, (n_tiles,), name, builder.debug)
    builder.graph.set_tile_mapping(slots, np.arange(n_tiles, dtype=np.int64), builder.tiles.ids)
    return slots


def next_slot(builder: Builder, slots: Tensor, n_slots: int) -> None:
    """Let counters go on to the next slot; the first one follows the last.

    Parameters
    ----------
    builder
        Target of the program.
    slots
        The result of `create_slots`.
    n_slots
        Number of slots.
    """
    tiles, n = slots.variable.map_tile, slots.n_elements
    fields = {"index": blocks(slots.variable, np.arange(n), [1], [1], n)}
    scalars = {"size": n_slots, "is_interleaved": 0, "distance": 1}
    builder.vertices(builder.compute_set("next"), RING_STEP, tiles, fields, scalars)


def create_ring(builder: Builder, x: Tensor, n_slots: int, name: str) -> Tensor:
    """Add a variable for several values of a tensor, and return it.

    Parameters
    ----------
    builder
        Its graph.
    x
        A tensor that has every element of its variable once.
    n_slots
        Number of values.
    name
        Name of the variable.

    Returns
    -------
    Tensor
        Of shape (n_slots, …), with every value in the order and on the tiles of `x`.
    """
    of_x = x.variable
    ring = builder.graph.add_variable(x.dtype, (n_slots, of_x.n_elements), name, builder.debug)
    first = np.arange(n_slots, dtype=np.int64)[:, None] * of_x.n_elements
    start = (first + of_x.map_start).reshape(-1)
    builder.graph.set_tile_mapping(ring, start, np.tile(of_x.map_tile, n_slots))
    return Tensor(ring.variable, 0, (((n_slots, of_x.n_elements),), *x.dims))


def write_ring(builder: Builder, ring: Tensor, x: Tensor, slot: Tensor) -> None:
    """Write a value into a ring.

    Parameters
    ----------
    builder
        Target of the program.
    ring
        The result of `create_ring` for a tensor laid out as `x`.
    x
        The value.
    slot
        Number of the entry, from `create_slots`.
    """
    build = builder.inside("dynamicUpdate", "popops.dynamicUpdate", _detail(ring), flops=0)
    _add(build, build.compute_set("update"), DYNAMIC_UPDATE, (ring, x.variable, slot))


def read_ring(builder: Builder, ring: Tensor, slot: Tensor, name: str) -> Tensor:
    """Return a copy of a value in a ring, laid out as it was.

    Parameters
    ----------
    builder
        Target of the program.
    ring
        The result of `create_ring`.
    slot
        Number of the entry, from `create_slots`.
    name
        Name of the variable of the copy.
    """
    build = builder.inside("dynamicSlice", "popops.dynamicSlice", _detail(ring), flops=0)
    variable = ring.variable
    n_elements = variable.shape[1]
    copy = build.graph.add_variable(variable.dtype, (n_elements,), name, build.debug)
    within = variable.map_start < n_elements
    build.graph.set_tile_mapping(copy, variable.map_start[within], variable.map_tile[within])
    _add(build, build.compute_set("slice"), DYNAMIC_SLICE, (ring, copy.variable, slot))
    return Tensor(copy.variable, 0, ring.dims[1:])


def _detail(ring: Tensor) -> dict[str, object]:
    return {"shape": list(ring.variable.shape), "dims": [0]}


def _add(
    builder: Builder,
    compute_set: ComputeSet,
    codelet: Codelet,
    operands: tuple[Tensor, Variable, Tensor],
) -> None:
    """Add a vertex for every run of elements on one tile.

    Parameters
    ----------
    operands
        The ring, the variable of one value, and the slots.
    """
    ring, value, slots = operands
    of_slots = slots.variable
    counter = of_slots.map_start[np.searchsorted(of_slots.map_tile, value.map_tile)]
    n_slots, n_elements = ring.variable.shape
    start, length, n = value.map_start, value.map_end - value.map_start, value.map_tile.size
    fields = {
        "base": blocks(ring.variable, start, [1, n_slots, length], [0, n_elements, 1], n),
        "offset": blocks(of_slots, counter, [1], [1], n),
        "sub": blocks(value, start, [1, 1, length], [0, n_elements, 1], n),
    }
    builder.vertices(compute_set, codelet, value.map_tile, fields)
