"""Elementwise operations in place: the result replaces the first operand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilescope.engine.codelets.elementwise import TO_BOOL, flops_per_element
from tilescope.engine.codelets.in_place import (
    BINARY_IN_PLACE,
    BINARY_IN_PLACE_BLOCK,
    UNARY_IN_PLACE,
    UNARY_IN_PLACE_BLOCK,
)
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import View
from tilescope.engine.graph.codelet import Codelet
from tilescope.engine.graph.elements import share_elements
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.elementwise import check_function, row_major_copy
from tilescope.engine.library.walk import joint_walks

__all__ = ["apply_in_place", "binary_in_place", "unary_in_place"]


@checked
def unary_in_place(builder: Builder, function: str, x: View) -> None:
    """Replace a tensor by a function of it: see `tilescope.engine.codelets.unary_functions`.

    Parameters
    ----------
    builder
        Target of the program.
    function
        Name of the function; not one that returns bools.
    x
        A view without aliased elements.

    Raises
    ------
    BadGraph
        If the function is unknown, returns bools or does not support the type, or `x` aliases
        elements.
    """
    check_function(function, [x])
    _refuse_bools(function, x)
    detail = {"operation": function, "shape": list(x.shape)}
    flops = flops_per_element(function) * x.n_elements * x.dtype.is_float
    build = builder.inside(f"{function}InPlace", "popops.mapInPlace", detail, flops=flops)
    apply_in_place(build, function, (UNARY_IN_PLACE[function], UNARY_IN_PLACE_BLOCK[function]), [x])


@checked
def binary_in_place(builder: Builder, function: str, a: View, b: View) -> None:
    """Replace a tensor by a function of it and of another one.

    Parameters
    ----------
    builder
        Target of the program.
    function
        Name of the function: see `tilescope.engine.codelets.binary_functions`; not one that
        returns bools.
    a
        A view without aliased elements.
    b
        Second operand of the same type, broadcast to the shape of `a`. It is copied first if it
        aliases elements of `a` at other positions.

    Raises
    ------
    BadGraph
        If the function is unknown, returns bools or does not support the type, if types or shapes
        are incompatible, or if `a` aliases elements.
    """
    check_function(function, [a, b])
    _refuse_bools(function, a)
    detail = {"operation": function, "shapes": [list(a.shape), list(b.shape)]}
    flops = flops_per_element(function) * a.n_elements * a.dtype.is_float
    build = builder.inside(f"{function}InPlace", "popops.mapInPlace", detail, flops=flops)
    codelets = BINARY_IN_PLACE[function], BINARY_IN_PLACE_BLOCK[function]
    apply_in_place(build, function, codelets, [a, b])


def _refuse_bools(function: str, x: View) -> None:
    if function in TO_BOOL:
        raise BadGraph(
            f"{function} of {x.name!r} returns bools, which do not fit in its place: use the form"
            " that returns a tensor"
        )


def apply_in_place(
    builder: Builder,
    name: str,
    codelets: tuple[Codelet, Codelet],
    operands: Sequence[View],
    scalars: Mapping[str, Any] | None = None,
) -> None:
    """Add a compute set that writes the result over the first operand.

    Parameters
    ----------
    builder
        Target of the program.
    name
        Name of the compute set.
    codelets
        For vectors and for blocks.
    operands
        The target and the other operands, which broadcast to it.
    scalars
        Scalars of the codelets.

    Raises
    ------
    BadGraph
        If the target aliases elements, or strides are incompatible even through row-major copies.
    """
    target, *others = operands
    # A vertex must not read what another writes; it may read elements that it writes itself.
    read = [
        row_major_copy(builder, x, "copy") if x != target and share_elements(target, x) else x
        for x in others
    ]
    walks = joint_walks(read, target)
    if walks is None:
        walks = joint_walks([row_major_copy(builder, x, "rearrange") for x in read], target)
    if walks is None:
        raise BadGraph(
            f"{name}: the strides of {target.name!r} are incompatible with its operands: copy it"
            " to a row-major tensor first"
        )
    compute_set = builder.compute_set(name)
    for walk in walks:
        for is_block, tiles, regions in walk.batches():
            codelet = codelets[is_block]
            # The target is last in a walk and first in a vertex.
            ordered = [regions[-1], *regions[:-1]]
            fields = {f.name: r for f, r in zip(codelet.fields, ordered, strict=True)}
            builder.vertices(compute_set, codelet, tiles, fields, scalars)
