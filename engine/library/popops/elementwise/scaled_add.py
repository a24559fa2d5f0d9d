"""Scaled addition into a tensor: a = a + s b."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilescope.engine.codelets.popops.elementwise.scaled_add import (
    SCALED_ADD,
    SCALED_ADD_BLOCK,
    SCALED_ADD_BLOCK_FAST,
    SCALED_ADD_FAST,
)
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Tensor, View
from tilescope.engine.graph import unchecked_blocks as blocks
from tilescope.engine.graph.mapping.elements import share_elements
from tilescope.engine.graph.tensor.tensor import row_major
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.operations import (
    copy_to,
    row_major_copy,
    vector_elements,
)
from tilescope.engine.library.walk import Walk, joint_walks

__all__ = ["scaled_add"]


#: Addends with shorter contiguous runs than this many vectors are copied into the target's order: a
#: vertex of the library spends more on a row than a copy on its elements.
_SHORTEST_VECTORS = 2
#: Addends are copied into the order of a target on all tiles, rather than on its own, if one of
#: those holds more than so many even shares.
_UNEVEN = 2  # Assumption: an even copy takes an exchange more
#: Bytes of such a copy that a tile holds at least.
#: Source: graphcore/poplibs sdk-release-3.3, lib/poputil/TileMapping.cpp, minBytesPerTile.
_LEAST_BYTES = 128


@checked
def scaled_add(
    builder: Builder,
    a: View,
    b: View,
    scale: Tensor | float,
    *,
    optimise_for_speed: bool = False,
) -> None:
    """Add `scale` times b to a, in place.

    Parameters
    ----------
    builder
        Target of the program.
    a
        Target of the addition; a view without aliased elements.
    b
        Addend of the same type, broadcast to the shape of `a`. It is copied first if it aliases
        elements of `a` at other positions.
    scale
        A tensor of one element of the same type, or a number, which becomes a constant on the
        builder's first tile.
    optimise_for_speed
        Whether `a` and `b` must meet the memory constraints of the fast loop: different memory
        elements and, for vectors, `a` in interleaved memory. Off by default in the library, which
        supports it for halves only.

    Raises
    ------
    BadGraph
        If types, shapes or strides are incompatible, or `a` is broadcast.
    """
    if a.dtype.name not in ("float16", "float32"):
        raise BadGraph(
            f"{a.name!r} is {a.dtype}: a scaled addition takes float16 or float32; cast it first"
        )
    if not isinstance(scale, Tensor):
        number = np.array([scale], np.float32)
        scale = builder.graph.add_constant(number, "scale", dtype=a.dtype, debug=builder.debug)
        builder.graph.set_tile_mapping(scale, [0], builder.tiles.ids[:1])
    for operand in (b, scale):
        if operand.dtype != a.dtype:
            raise BadGraph(
                f"{operand.name!r} is {operand.dtype}, but its target"
                f" {a.name!r} is {a.dtype}: cast one of them"
            )
    if scale.n_elements != 1:
        raise BadGraph(
            f"{scale.variable.name!r} scales an addition and has {scale.n_elements} elements:"
            " expected one"
        )
    detail = {"shape": list(a.shape)}
    build = builder.inside("scaledAdd", "popops.scaledAddTo", detail, flops=2 * a.n_elements)
    # A vertex must not read what another writes; it may read elements that it writes itself.
    if b != a and share_elements(a, b):
        b = row_major_copy(build, b, "copy")
    if share_elements(a, scale):
        scale = row_major_copy(build, scale, "scale")
    walks = joint_walks([b], a)
    if walks is None or _is_torn(build, walks, a):
        b = _in_order_of(build, b.broadcast_to(a.shape), a)
        walks = joint_walks([b], a)
    if walks is None:
        raise BadGraph(f"cannot add {b.name!r} to {a.name!r}: their strides are incompatible")
    vector, block = SCALED_ADD, SCALED_ADD_BLOCK
    if optimise_for_speed:
        vector, block = SCALED_ADD_FAST, SCALED_ADD_BLOCK_FAST
    compute_set = build.compute_set("addTo")
    batches = (batch for walk in walks for batch in walk.batches())
    for is_block, tiles, (added, target) in batches:
        fields = {
            "a": target,
            "b": added,
            "scale": blocks(scale.variable, scale.offset, [1], [1], tiles.size),
        }
        build.vertices(compute_set, block if is_block else vector, tiles, fields)


def _is_torn(builder: Builder, walks: Sequence[Walk], target: View) -> bool:
    """Return whether the addend lies in shorter runs than the target, and in very short ones."""
    run, of_target = _shortest_run(walks), joint_walks([], target)
    assert of_target is not None, "a target has no aliased elements"
    shortest = _SHORTEST_VECTORS * vector_elements(builder.tiles.machine, target.dtype)
    return run < min(shortest, _shortest_run(of_target))


def _shortest_run(walks: Sequence[Walk]) -> int:
    """Return the elements that lie together in both operands, at least."""
    return min(
        walk.sizes[-1] if all(strides[-1] == 1 for strides in walk.strides) else 1 for walk in walks
    )


def _in_order_of(builder: Builder, addend: View, target: View) -> Tensor:
    """Return a copy that lies as the target does; row-major if the target is in several parts.

    Its elements are copied one by one, on all tiles if the target is on few.
    """
    copy = builder.graph.clone(target, "rearrange", debug=builder.debug)
    mapping = builder.graph.tile_mapping(copy)
    fullest = int(np.bincount(mapping.tile, mapping.end - mapping.start).max())
    least = _LEAST_BYTES // copy.dtype.n_bytes
    if fullest > _UNEVEN * max(copy.n_elements // builder.tiles.ids.size, least):
        in_memory = Tensor(copy.variable, 0, row_major(copy.variable.shape))
        grain = vector_elements(builder.tiles.machine, copy.dtype)
        builder.spread(in_memory, grain=grain, minimum=least)
    copy_to(builder, addend, copy, "rearrange")
    return copy
