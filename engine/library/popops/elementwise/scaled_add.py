"""Scaled addition into a tensor: a = a + s b."""

from __future__ import annotations

import numpy as np

from tilescope.engine.codelets.popops.elementwise.scaled_add import (
    SCALED_ADD,
    SCALED_ADD_BLOCK,
    SCALED_ADD_BLOCK_FAST,
    SCALED_ADD_FAST,
)
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Tensor, View, blocks
from tilescope.engine.graph.mapping.elements import share_elements
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.operations import row_major_copy
from tilescope.engine.library.walk import joint_walks

__all__ = ["scaled_add"]


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
    walks = joint_walks([b], a) or joint_walks([row_major_copy(build, b, "rearrange")], a)
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
