"""Variables for the operands of products, laid out and mapped as the plan reads them.

Source: graphcore/poplibs sdk-release-3.4, include/poplin: Convolution.hpp, createInput,
createWeights and createBiases; MatMul.hpp, createMatMulInputLHS and createMatMulInputRHS.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph import Tensor, View, dtype_of
from tilescope.engine.library.argument_check import check_rank, checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.free_operand import (
    Operand,
    Request,
    allocated_images,
    allocated_matrices,
    allocated_weights,
    channel_groups,
    planned_convolution,
    planned_matmul,
    row_major_variable,
)
from tilescope.engine.library.popops.elementwise.operations import vector_elements
from tilescope.engine.library.window import Window

__all__ = [
    "create_convolution_biases",
    "create_convolution_input",
    "create_convolution_weights",
    "create_matmul_input_lhs",
    "create_matmul_input_rhs",
]


@checked
def create_convolution_input(  # noqa: PLR0913 - those of the convolution
    builder: Builder,
    shape: Sequence[int],
    weights: Sequence[int] | View | NDArray[Any],
    window: Window,
    groups: int = 1,
    name: str = "input",
    *,
    dtype: Any = "float32",
    available_memory_proportion: float | None = None,
    partials_type: str | None = None,
    family: str = "",
    split: Mapping[str, int] | None = None,
) -> Tensor:
    """Add a variable for the images of a `convolution`, which then reads them in place.

    Where the plan pads channels, the convolution copies images anyway: the variable is row-major
    and spread evenly.

    Parameters
    ----------
    builder
        Its graph, tiles and options.
    shape
        Shape (images, channels, rows, columns).
    weights
        The weights of the convolution; or their shape, if `create_convolution_weights` makes them.
    name
        Name of the variable.
    dtype
        Element type.
    window, groups, available_memory_proportion, partials_type, family, split
        As for `convolution`, which plans alike if they are the same.

    Returns
    -------
    Tensor
        A view of that shape.

    Raises
    ------
    BadGraph
        If the shapes or types are incompatible, or no plan meets the request.
    BadOption
        If the share of memory or the type of partial sums is invalid.
    """
    kind = dtype_of(dtype)
    request = Request(builder, name, available_memory_proportion, partials_type, split, family)
    x = Operand.of(shape, kind, name)
    weights_operand = Operand.of(weights, kind, "the weights")
    planned = planned_convolution(request, x, weights_operand, window, groups)
    patches = request.patches(x, window, groups)
    if request.subsampling(window):
        images = None if patches else channel_groups(request, x, planned)
        return row_major_variable(builder, x, name) if images is None else images
    input_tensor = allocated_images(request, kind, planned) if patches.can_lie else None
    if input_tensor is None:
        return row_major_variable(builder, x, name)
    if patches:
        n_images, n_channels, *size = shape
        folded = n_channels * patches.taps[0] * patches.taps[1]
        images = input_tensor.reshape(n_images, folded, *patches.size(size))
        return patches.unfolded(images, n_channels // groups)
    return input_tensor.reshape(*shape)


@checked
def create_convolution_weights(  # noqa: PLR0913 - those of the convolution
    builder: Builder,
    shape: Sequence[int],
    x: Sequence[int] | View,
    window: Window,
    groups: int = 1,
    name: str = "weights",
    *,
    dtype: Any = "float32",
    available_memory_proportion: float | None = None,
    partials_type: str | None = None,
    family: str = "",
    split: Mapping[str, int] | None = None,
) -> Tensor:
    """Add a variable for the weights of a `convolution`, which then reads them in place.

    Where the plan pads channels or combines groups, the convolution copies weights anyway: the
    variable is row-major and spread evenly.

    Parameters
    ----------
    builder
        Its graph, tiles and options.
    shape
        Shape (out channels, channels / groups, kernel rows, kernel columns).
    x
        The images; or their shape, if `create_convolution_input` makes them.
    name
        Name of the variable.
    dtype
        Element type.
    window, groups, available_memory_proportion, partials_type, family, split
        As for `convolution`, which plans alike if they are the same.

    Returns
    -------
    Tensor
        A view of that shape.

    Raises
    ------
    BadGraph
        If the shapes or types are incompatible, or no plan meets the request.
    BadOption
        If the share of memory or the type of partial sums is invalid.
    """
    kind = dtype_of(dtype)
    request = Request(builder, name, available_memory_proportion, partials_type, split, family)
    weights = Operand.of(shape, kind, name)
    input_operand = Operand.of(x, kind, "the input")
    planned = planned_convolution(request, input_operand, weights, window, groups)
    patches = request.patches(input_operand, window, groups)
    weights_tensor = allocated_weights(request, kind, planned) if patches.can_lie else None
    if weights_tensor is None:
        return row_major_variable(builder, weights, name)
    if patches:
        n_out, per_group, *kernel = shape
        folded = per_group * patches.taps[0] * patches.taps[1]
        return patches.unfolded_weights(
            weights_tensor.reshape(n_out, folded, *patches.size(kernel))
        )
    return weights_tensor.reshape(*shape)


@checked
def create_convolution_biases(builder: Builder, out: View, name: str = "biases") -> Tensor:
    """Add a variable for one bias per output channel, on tiles that hold outputs of it.

    Vectors of biases of channels on the same tiles are spread over these tiles.

    Parameters
    ----------
    builder
        Its graph.
    out
        Result of a convolution, of shape (images, channels, rows, columns).
    name
        Name of the variable.

    Returns
    -------
    Tensor
        Shape (channels,), of the type of `out`.

    Raises
    ------
    BadGraph
        If the result has another number of dimensions.
    """
    check_rank(f"{name}: its outputs", out, "images, channels, rows, columns")
    n_channels = out.shape[1]
    tensor = builder.graph.add_variable(out.dtype, (n_channels,), name, builder.debug)
    mapping = builder.graph.tile_mapping(out.dim_shuffle(1, 0, 2, 3))
    size = (out.n_elements // n_channels) * vector_elements(builder.tiles.machine, out.dtype)
    first, last = mapping.start // size, (mapping.end - 1) // size
    tiles = []
    for vector in range(-(-out.n_elements // size)):
        holders = np.unique(mapping.tile[(first <= vector) & (vector <= last)])
        tiles.append(int(holders[vector % holders.size]))
    starts = np.arange(len(tiles)) * vector_elements(builder.tiles.machine, out.dtype)
    builder.graph.set_tile_mapping(tensor, starts, tiles)
    return tensor


@checked
def create_matmul_input_lhs(
    builder: Builder,
    shape: Sequence[int],
    b: Sequence[int] | View | NDArray[Any],
    name: str = "lhs",
    *,
    dtype: Any = "float32",
    available_memory_proportion: float | None = None,
    partials_type: str | None = None,
    split: Mapping[str, int] | None = None,
) -> Tensor:
    """Add a variable for the left operand of a `matmul`, which then reads it in place.

    Where the plan pads channels, the product copies it anyway: the variable is row-major and spread
    evenly.

    Parameters
    ----------
    builder
        Its graph, tiles and options.
    shape
        Shape (batch, rows, inner).
    b
        The right operand; or its shape, if `create_matmul_input_rhs` makes it.
    name
        Name of the variable.
    dtype
        Element type.
    available_memory_proportion, partials_type, split
        As for `matmul`, which plans alike if they are the same.

    Returns
    -------
    Tensor
        A view of that shape.

    Raises
    ------
    BadGraph
        If the shapes or types are incompatible, or no plan meets the request.
    BadOption
        If the share of memory or the type of partial sums is invalid.
    """
    kind = dtype_of(dtype)
    request = Request(builder, name, available_memory_proportion, partials_type, split)
    a = Operand.of(shape, kind, name)
    planned = planned_matmul(request, a, Operand.of(b, kind, "the right operand"))
    return allocated_matrices(request, a, planned, is_left=True)


@checked
def create_matmul_input_rhs(
    builder: Builder,
    shape: Sequence[int],
    a: Sequence[int] | View,
    name: str = "rhs",
    *,
    dtype: Any = "float32",
    available_memory_proportion: float | None = None,
    partials_type: str | None = None,
    split: Mapping[str, int] | None = None,
) -> Tensor:
    """Add a variable for the right operand of a `matmul`, which then reads it in place.

    Where the plan pads channels, the product copies it anyway: the variable is row-major and spread
    evenly.

    Parameters
    ----------
    builder
        Its graph, tiles and options.
    shape
        Shape (batch, inner, columns).
    a
        The left operand; or its shape, if `create_matmul_input_lhs` makes it.
    name
        Name of the variable.
    dtype
        Element type.
    available_memory_proportion, partials_type, split
        As for `matmul`, which plans alike if they are the same.

    Returns
    -------
    Tensor
        A view of that shape.

    Raises
    ------
    BadGraph
        If the shapes or types are incompatible, or no plan meets the request.
    BadOption
        If the share of memory or the type of partial sums is invalid.
    """
    kind = dtype_of(dtype)
    request = Request(builder, name, available_memory_proportion, partials_type, split)
    b = Operand.of(shape, kind, name)
    planned = planned_matmul(request, Operand.of(a, kind, "the left operand"), b)
    return allocated_matrices(request, b, planned, is_left=False)
