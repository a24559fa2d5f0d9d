"""Scaled addition into a tensor: a = a + s b."""

from __future__ import annotations

import numpy as np

from tilescope.engine.codelets.scaled_add import (
    SCALED_ADD,
    SCALED_ADD_BLOCK,
    SCALED_ADD_BLOCK_FAST,
    SCALED_ADD_FAST,
)
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Tensor, View, blocks
from tilescope.engine.graph.elements import share_elements
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.elementwise import row_major_copy
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
        Where it goes.
    a
        What is added to; a view that has each of its elements once.
    b
        What is added, of the same type; it is broadcast to the shape of `a`. Where it has elements
        of `a` in other places it is copied first.
    scale
        A tensor of one element of that type, or a number, which becomes a constant on the
        first of the builder's tiles.
    optimise_for_speed
        Whether `a` and `b` are asked to lie where the loop is fast: in other memory elements, and
        in vectors `a` in interleaved memory. The library has it off, and for halves only.

    Raises
    ------
    BadGraph
        When types or shapes do not fit, `a` is broadcast, or they lie so differently that there
        is no way to walk them.
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
                f"{operand.name!r} is {operand.dtype}, but what it is added to,"
                f" {a.name!r}, is {a.dtype}: cast one of them"
            )
    if scale.n_elements != 1:
        raise BadGraph(
            f"{scale.variable.name!r} scales an addition and has {scale.n_elements} elements: it"
            " takes one"
        )
    build = builder.inside("scaledAdd", "popops.scaledAddTo", {"shape": list(a.shape)})
    # What a vertex reads must not be what another one writes; its own element may be both.
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
