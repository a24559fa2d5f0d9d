"""Convolutions and products of matrices: plan, lay out, convolve, reduce.

All operands are converted to one form: an input [block of groups, image, channel group, row,
column, channel], weights [block, out group, in group, ky, kx, in, out] and an output [block,
image, out group, row, column, out channel].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, overload

from numpy.typing import NDArray

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Tensor, View
from tilescope.engine.library.argument_check import check_rank, checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.channels import channel_runs
from tilescope.engine.library.convolution_program import build_convolution
from tilescope.engine.library.elementwise import in_one
from tilescope.engine.library.product_types import ProductTypes, product_types
from tilescope.engine.library.window import Window, output_size
from tilescope.engine.planner import Plan, plan_convolution
from tilescope.engine.tiling import ConvolutionShape

__all__ = ["convolution", "matmul"]


@checked
def convolution(  # noqa: PLR0913 - the last three are what Poplar passes as options
    builder: Builder,
    x: View,
    weights: View | NDArray[Any],
    window: Window,
    groups: int = 1,
    name: str = "convolution",
    *,
    weights_dtype: Any = None,
    available_memory_proportion: float | None = None,
    partials_type: str | None = None,
    family: str = "",
    split: Mapping[str, int] | None = None,
) -> Tensor:
    """Convolve images with weights.

    Parameters
    ----------
    x
        Shape (images, channels, rows, columns).
    weights
        Shape (out channels, channels / groups, kernel rows, kernel columns): a tensor, or an
        ndarray of constants, which are laid out for the plan before the program runs.
    window
        Geometry.
    groups
        Convolution groups.
    weights_dtype
        Type of constants; by default, the type of the other operand.
    available_memory_proportion
        Largest share of a tile for temporary memory; by default, the builder's.
    partials_type
        Type of partial sums of halves, ``float`` or ``half``; by default, the builder's.
    family
        The only family of vertices to consider; all if empty.
    split
        Part counts that the plan must have, by dimension as in `Plan.split`; others are free.

    Returns
    -------
    Tensor
        Shape (images, out channels, rows, columns), channels innermost in groups; of the input's
        type, or half for float8.

    Raises
    ------
    BadGraph
        If the shapes or types are incompatible, or no plan meets the request.
    BadOption
        If the share of memory or the type of partial sums is invalid.
    """
    check_rank(f"{name}: its input", x, "images, channels, rows, columns")
    check_rank(f"{name}: its weights", weights, "out channels, channels, rows, columns")
    n_images, n_channels, height, width = x.shape
    n_out, per_group, *kernel = (int(size) for size in weights.shape)
    if per_group * groups != n_channels or n_out % groups or tuple(kernel) != window.kernel:
        raise BadGraph(
            f"{name}: weights {tuple(weights.shape)} do not fit an input of {n_channels} channels,"
            f" {groups} groups and a kernel of {window.kernel}"
        )
    detail = {
        "input": list(x.shape),
        "weights": list(weights.shape),
        "groups": groups,
        "stride": list(window.stride),
        "dilation": list(window.dilation),
        "padding": [list(window.padding_before), list(window.padding_after)],
    }
    usual = builder.partials.with_own(partials_type).convolution
    types = product_types(name, x, weights, weights_dtype, usual, partials_type)
    rows, columns = output_size(height, 0, window), output_size(width, 1, window)
    build = builder.inside(
        name,
        "poplin.convolution",
        {**detail, **_said(types)},
        weights=weights,
        flops=2 * n_images * rows * columns * prod(int(size) for size in weights.shape),
    ).planned()
    x, weights = in_one(build, x), _in_one(build, weights)
    shape = ConvolutionShape(
        groups=groups,
        images=n_images,
        height=rows,
        width=columns,
        in_channels=per_group,
        out_channels=n_out // groups,
        kernel=window.kernel,
        stride=window.stride,
        dilation=window.dilation,
        padding_before=window.padding_before,
        in_height=height,
        in_width=width,
        dtype=x.dtype.name,
        partial_dtype=types.partials.name,
    )
    flat = (n_images, n_channels, 1, height * width)
    if shape.is_flat and x.can_reshape(*flat) and len(x.reshape(*flat).dims[3]) == 1:
        # For a kernel of one element, treat the field as one row, which splits more evenly.
        x = x.reshape(*flat)
        shape = replace(shape, height=1, width=rows * columns, in_height=1, in_width=flat[3])
    shape = replace(shape, runs=channel_runs(x, groups), weights=_lie_of(weights, 0))
    sizes = (groups, n_out // groups, per_group, *kernel)
    share = builder.available_memory.with_own(available_memory_proportion).convolution
    plan = _plan(build, shape, share, family, split)
    out = build_convolution(build, x, weights.reshape(*sizes), types.weights, shape, plan)
    return out.reshape(n_images, n_out, rows, columns)


@checked
def matmul(
    builder: Builder,
    a: View,
    b: View | NDArray[Any],
    name: str = "matmul",
    *,
    b_dtype: Any = None,
    available_memory_proportion: float | None = None,
    partials_type: str | None = None,
    split: Mapping[str, int] | None = None,
) -> Tensor:
    """Multiply matrices or batches of matrices.

    Parameters
    ----------
    a
        Shape (batch, rows, inner).
    b
        Shape (batch, inner, columns): a tensor, or an ndarray of constants.
    b_dtype
        Type of constants; by default, the type of the other operand.
    available_memory_proportion
        Largest share of a tile for temporary memory; by default, the builder's.
    partials_type
        Type of partial sums of halves, ``float`` or ``half``; by default, the builder's.
    split
        Part counts that the plan must have, by dimension as in `Plan.split`; others are free. The
        rows of the product are the columns of the field.

    Returns
    -------
    Tensor
        Shape (batch, rows, columns); of the operands' type, or half for float8.

    Raises
    ------
    BadGraph
        If the shapes or types are incompatible, or no plan meets the request.
    BadOption
        If the share of memory or the type of partial sums is invalid.
    """
    check_rank(f"{name}: its left operand", a, "batch, rows, inner")
    check_rank(f"{name}: its right operand", b, "batch, inner, columns")
    if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        raise BadGraph(
            f"{name}: cannot multiply shapes {a.shape} and {tuple(b.shape)}: expected"
            " (batch, rows, inner) and (batch, inner, columns)"
        )
    batch, rows, inner = a.shape
    columns = int(b.shape[2])
    usual = builder.partials.with_own(partials_type).matmul
    types = product_types(name, a, b, b_dtype, usual, partials_type)
    detail = {"a": list(a.shape), "b": list(b.shape), **_said(types)}
    flops = 2 * batch * rows * inner * columns
    build = builder.inside(name, "poplin.matMul", detail, weights=b, flops=flops).planned()
    a, b = in_one(build, a), _in_one(build, b)
    shape = ConvolutionShape(
        groups=batch,
        images=1,
        height=1,
        width=rows,
        in_channels=inner,
        out_channels=columns,
        in_height=1,
        in_width=rows,
        dtype=a.dtype.name,
        partial_dtype=types.partials.name,
        is_matmul=True,
    )
    share = builder.available_memory.with_own(available_memory_proportion).matmul
    straight = _product(a, b, shape)
    swapped = _product(_transposed(b), _transposed(a), shape)
    plan = _plan(build, replace(straight.shape, swapped=swapped.shape), share, split=split)
    way = swapped if plan.swaps_operands else straight
    out = build_convolution(build, way.x, way.weights, types.weights, way.shape, plan)
    out = out.reshape(batch, way.shape.out_channels, way.shape.width)
    return out if plan.swaps_operands else _transposed(out)


def _in_one(build: Builder, weights: View | NDArray[Any]) -> Tensor | NDArray[Any]:
    """Return weights on one variable; constants are unchanged."""
    return in_one(build, weights) if isinstance(weights, View) else weights


@dataclass(frozen=True)
class _Product:
    """A product seen as a convolution: the rows are the field, the columns output channels."""

    shape: ConvolutionShape
    x: Tensor | NDArray[Any]
    weights: Tensor | NDArray[Any]


def _product(
    left: Tensor | NDArray[Any], right: Tensor | NDArray[Any], shape: ConvolutionShape
) -> _Product:
    """Return the product of two batches of matrices as a convolution of the shape's types."""
    batch, rows, inner = (int(size) for size in left.shape)
    columns = int(right.shape[2])
    x = _transposed(left).reshape(1, batch * inner, 1, rows)
    seen = replace(
        shape,
        width=rows,
        in_width=rows,
        out_channels=columns,
        runs=channel_runs(x, batch) if isinstance(x, Tensor) else (),
        is_input_constant=not isinstance(x, Tensor),
        weights=_lie_of(right, 2),
    )
    return _Product(seen, x, _transposed(right).reshape(batch, columns, inner, 1, 1))


def _said(types: ProductTypes) -> dict[str, str]:
    """Return the types for the report."""
    return {"types": f"{types.x} x {types.weights}", "partialsType": types.partials.name}


def _lie_of(weights: Tensor | NDArray[Any], d: int) -> str:
    """Return the weight layout for the planner; `d` is the dimension of the outputs."""
    if not isinstance(weights, Tensor):
        return "constant"
    return "rows" if weights.dims[d][-1][1] == 1 else "strided"


@overload
def _transposed(matrices: Tensor) -> Tensor: ...


@overload
def _transposed(matrices: NDArray[Any]) -> NDArray[Any]: ...


def _transposed(matrices: Tensor | NDArray[Any]) -> Tensor | NDArray[Any]:
    """Return a batch of transposed matrices."""
    if isinstance(matrices, Tensor):
        return matrices.dim_shuffle(0, 2, 1)
    return matrices.transpose(0, 2, 1)


def _plan(
    build: Builder,
    shape: ConvolutionShape,
    available_memory_proportion: float,
    family: str = "",
    split: Mapping[str, int] | None = None,
) -> Plan:
    """Return the plan, and record it for the report."""
    machine = build.tiles.machine
    asked = family, tuple(sorted((split or {}).items()))
    plan = build.plan_memo.plan(
        plan_convolution, build.debug.name, shape, machine, available_memory_proportion, *asked
    )
    plan = replace(plan, plan_id=build.plan_id, call=build.debug)
    build.plans.append(plan)
    return plan
