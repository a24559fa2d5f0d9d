"""Convolutions and products of matrices: plan, lay out, convolve, reduce.

All operands are converted to one form: an input [block of groups, image, channel group, row,
column, channel], weights [block, out group, in group, ky, kx, in, out] and an output [block,
image, out group, row, column, out channel].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

from numpy.typing import NDArray

from tilescope.engine.graph import Tensor, View
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.convolution_program import build_convolution
from tilescope.engine.library.poplin.convolution_request import (
    as_product,
    both_ways,
    check_convolution,
    check_matmul,
    plan_of,
)
from tilescope.engine.library.poplin.free_operand import as_allocated
from tilescope.engine.library.poplin.patches import as_view, channel_patches
from tilescope.engine.library.poplin.product_types import ProductTypes, product_types
from tilescope.engine.library.poplin.subsampling import Subsampling
from tilescope.engine.library.popops.elementwise.operations import in_one, row_major_copy
from tilescope.engine.library.window import Window, output_size
from tilescope.engine.planner.plan import Plan

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
    check_convolution(name, x, weights, window, groups)
    n_images, _, height, width = x.shape
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
    contiguous = in_one(build, x)
    if not contiguous.can_reshape(n_images, groups, contiguous.shape[1] // groups, height, width):
        # What made it grouped its channels otherwise.
        contiguous = row_major_copy(build, contiguous, "groupChannels")
    kernel = _in_one(build, weights)
    is_free = not (family or split)
    subsampling = Subsampling.of(window, is_free=is_free)
    if subsampling:
        contiguous = subsampling.read(build, contiguous)
        window = subsampling.window(window)
    images = contiguous
    patches = channel_patches(
        build, contiguous.dtype, contiguous.shape, window, groups, is_free=is_free
    )
    if patches:
        contiguous = as_view(build, contiguous, "groupChannels", patches.folded)
        kernel = (
            as_view(build, kernel, "groupTaps", patches.folded_weights)
            if isinstance(kernel, Tensor)
            else patches.folded_weights(kernel)
        )
        window = patches.window(window)
    product = as_product(contiguous, kernel, window, groups, types)
    share = builder.available_memory.with_own(available_memory_proportion).convolution
    shape = as_allocated(product.shape, product.x, product.weights)
    plan = plan_of(build, build.debug.name, shape, share, family, split)
    if subsampling:
        plan = subsampling.with_copy(build, images, shape, plan)
    plan = _recorded(build, plan)
    shape = replace(shape, partial_dtype=plan.partial_dtype)
    out = build_convolution(build, product.x, product.weights, types.weights, shape, plan)
    return out.reshape(n_images, weights.shape[0], rows, columns)


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
    check_matmul(name, a, b)
    batch, rows, inner = a.shape
    columns = int(b.shape[2])
    usual = builder.partials.with_own(partials_type).matmul
    types = product_types(name, a, b, b_dtype, usual, partials_type)
    detail = {"a": list(a.shape), "b": list(b.shape), **_said(types)}
    flops = 2 * batch * rows * inner * columns
    build = builder.inside(name, "poplin.matMul", detail, weights=b, flops=flops).planned()
    left, right = in_one(build, a), _in_one(build, b)
    straight, swapped = both_ways(left, right, types)
    share = builder.available_memory.with_own(available_memory_proportion).matmul
    shape = as_allocated(replace(straight.shape, swapped=swapped.shape), left, right)
    plan = _recorded(build, plan_of(build, build.debug.name, shape, share, split=split))
    orientation = straight
    if plan.swaps_operands:
        assert shape.swapped is not None
        orientation, shape = swapped, shape.swapped
    shape = replace(shape, swapped=None, partial_dtype=plan.partial_dtype)
    out = build_convolution(build, orientation.x, orientation.weights, types.weights, shape, plan)
    out = out.reshape(batch, shape.out_channels, shape.width)
    return out if plan.swaps_operands else out.dim_shuffle(0, 2, 1)


def _in_one(build: Builder, weights: View | NDArray[Any]) -> Tensor | NDArray[Any]:
    """Return weights on one variable; constants are unchanged."""
    return in_one(build, weights, "joinWeights") if isinstance(weights, View) else weights


def _said(types: ProductTypes) -> dict[str, str]:
    """Return the types for the report."""
    return {"types": f"{types.x} x {types.weights}", "partialsType": types.partials.name}


def _recorded(build: Builder, plan: Plan) -> Plan:
    """Return a plan as that of the call, which the report has."""
    plan = replace(plan, plan_id=build.plan_id, call=build.debug)
    build.plans.append(plan)
    return plan
