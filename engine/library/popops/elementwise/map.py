"""Expressions over tensors: one vertex per tile computes a whole expression for its elements.

Source: graphcore/poplibs sdk-release-3.4, include/popops/ElementWise.hpp and Expr.hpp, map.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilescope.engine.arguments import a_kind, a_list
from tilescope.engine.codelets.popops.elementwise.expression import Expression, call, operand
from tilescope.engine.codelets.popops.elementwise.fused import expression_flops, fused_codelets
from tilescope.engine.codelets.popops.elementwise.operations import TO_BOOL
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import BOOL, Tensor, View
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.in_place import apply_in_place
from tilescope.engine.library.popops.elementwise.operations import row_major_copy, similar
from tilescope.engine.library.walk import joint_walks

__all__ = ["Expression", "call", "map_expression", "map_in_place", "operand"]


@checked
def map_expression(builder: Builder, expression: Expression, operands: Sequence[View]) -> Tensor:
    """Compute an expression for every element, in one compute set.

    Parameters
    ----------
    builder
        Target of the program.
    expression
        A tree of elementwise functions, as ``call("maximum", operand(0) * 2, operand(1))``.
    operands
        float16 or float32 tensors of one type, by position; they broadcast by numpy's rules.
        Results between functions have single precision.

    Returns
    -------
    Tensor
        Of the type of the operands; bool if the outermost function is a comparison.

    Raises
    ------
    BadGraph
        If the expression computes nothing, needs other operands, or types or shapes are
        incompatible.
    """
    views = _checked(expression, operands)
    try:
        shape = np.broadcast_shapes(*(x.shape for x in views))
    except ValueError:
        shapes = [x.shape for x in views]
        raise BadGraph(f"map_expression: shapes {shapes} do not broadcast to one") from None
    dtype = BOOL if expression.function in TO_BOOL else views[0].dtype
    build = _inside(builder, "map", expression, views, int(np.prod(shape)))
    out = similar(build, "out", views, shape, dtype)
    walks = joint_walks(views, out)
    if walks is None:
        views = [row_major_copy(build, x, f"rearrange{i}") for i, x in enumerate(views)]
        out = similar(build, "out", [], shape, dtype)
        walks = joint_walks(views, out)
        assert walks is not None, "row-major operands have compatible strides"
    codelets = fused_codelets(expression)
    scalars = _scalars(expression)
    compute_set = build.compute_set("map")
    for walk in walks:
        for is_block, tiles, regions in walk.batches():
            codelet = codelets[is_block]
            fields = {f.name: r for f, r in zip(codelet.fields, regions, strict=True)}
            build.vertices(compute_set, codelet, tiles, fields, scalars)
    return out


@checked
def map_in_place(builder: Builder, expression: Expression, operands: Sequence[View]) -> None:
    """Compute an expression for every element and replace the first operand by the result.

    Parameters
    ----------
    builder
        Target of the program.
    expression, operands
        As for `map_expression`; the first operand has no aliased elements, and the others
        broadcast to its shape.

    Raises
    ------
    BadGraph
        If the expression computes nothing, returns bools, or needs other operands, or types or
        shapes are incompatible.
    """
    views = _checked(expression, operands)
    if expression.function in TO_BOOL:
        raise BadGraph(
            f"map_in_place: {expression.function} returns bools, which do not fit in place of"
            f" {views[0].name!r}: use map_expression"
        )
    build = _inside(builder, "mapInPlace", expression, views, views[0].n_elements)
    codelets = fused_codelets(expression, is_in_place=True)
    apply_in_place(build, "map", codelets, views, _scalars(expression))


def _inside(
    builder: Builder, name: str, expression: Expression, views: Sequence[View], n_elements: int
) -> Builder:
    shapes = [list(x.shape) for x in views]
    detail = {
        "expression": expression.text(),
        "numbers": list(expression.numbers),
        "shapes": shapes,
    }
    flops = expression_flops(expression) * n_elements
    return builder.inside(name, f"popops.{name}", detail, flops=flops)


def _scalars(expression: Expression) -> dict[str, float]:
    return {f"k{i + 1}": value for i, value in enumerate(expression.numbers)}


def _checked(expression: Expression, operands: Sequence[View]) -> list[View]:
    """Return the operands of an expression.

    Raises
    ------
    BadGraph
        If the expression computes nothing, or the operands do not fit it.
    """
    a_kind("map_expression: 'expression'", expression, Expression, "an expression; see call")
    if not expression.function:
        raise BadGraph(
            "map_expression: the expression computes nothing: expected a function; use copy_to to"
            " copy a tensor"
        )
    values = a_list("map_expression: 'operands'", operands, "a list of tensors")
    views = [a_kind("One of the operands of map_expression", x, View, "a tensor") for x in values]
    if len(views) != expression.n_operands:
        raise BadGraph(
            f"map_expression: {expression.text()} takes {expression.n_operands} tensors, got"
            f" {len(views)}"
        )
    if not views:
        raise BadGraph("map_expression: the expression has no operands: use fill")
    for x in views:
        if x.dtype.name not in ("float16", "float32"):
            raise BadGraph(
                f"map_expression: {x.name!r} is {x.dtype}: expected float16 or float32; cast it"
                " first"
            )
        if x.dtype != views[0].dtype:
            raise BadGraph(
                f"map_expression: {views[0].name!r} is {views[0].dtype} and {x.name!r} is"
                f" {x.dtype}: cast one of them first"
            )
    return views
