"""Convolutions and products of matrices as the planner sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, overload

from numpy.typing import NDArray

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Tensor
from tilescope.engine.library.argument_check import check_rank
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.operand_layout import channel_runs, weight_groupings
from tilescope.engine.library.poplin.product_types import ProductTypes
from tilescope.engine.library.window import Window, output_size
from tilescope.engine.planner.convolution.convolution import plan_convolution
from tilescope.engine.planner.plan import Plan
from tilescope.engine.tiling import ConvolutionShape

__all__ = [
    "Product",
    "as_product",
    "both_ways",
    "check_convolution",
    "check_matmul",
    "plan_of",
]

#: A tensor, or constants that are laid out before the program runs.
Operand = Tensor | NDArray[Any]


@dataclass(frozen=True)
class Product:
    """An operation in the form that is planned and built.

    Parameters
    ----------
    shape
        The operation.
    x
        Shape (images, channels, rows, columns).
    weights
        Shape (groups, out channels, in channels, kernel rows, kernel columns).
    """

    shape: ConvolutionShape
    x: Operand
    weights: Operand


def check_convolution(name: str, x: Any, weights: Any, window: Window, groups: int) -> None:
    """Raise BadGraph unless images, weights and window fit.

    Raises
    ------
    BadGraph
        If a shape has the wrong number of dimensions, or they are incompatible.
    """
    check_rank(f"{name}: its input", x, "images, channels, rows, columns")
    check_rank(f"{name}: its weights", weights, "out channels, channels, rows, columns")
    n_channels = x.shape[1]
    n_out, per_group, *kernel = (int(size) for size in weights.shape)
    if per_group * groups != n_channels or n_out % groups or tuple(kernel) != window.kernel:
        raise BadGraph(
            f"{name}: weights {tuple(weights.shape)} do not fit an input of {n_channels} channels,"
            f" {groups} groups and a kernel of {window.kernel}"
        )


def check_matmul(name: str, a: Any, b: Any) -> None:
    """Raise BadGraph unless the operands of a product fit.

    Raises
    ------
    BadGraph
        If a shape has the wrong number of dimensions, or they are incompatible.
    """
    check_rank(f"{name}: its left operand", a, "batch, rows, inner")
    check_rank(f"{name}: its right operand", b, "batch, inner, columns")
    if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        raise BadGraph(
            f"{name}: cannot multiply shapes {a.shape} and {tuple(b.shape)}: expected"
            " (batch, rows, inner) and (batch, inner, columns)"
        )


def as_product(
    x: Tensor, weights: Operand, window: Window, groups: int, types: ProductTypes
) -> Product:
    """Return a convolution of checked operands, (images, channels, rows, columns) and weights."""
    n_images, n_channels, height, width = x.shape
    n_out, per_group, *kernel = (int(size) for size in weights.shape)
    rows, columns = output_size(height, 0, window), output_size(width, 1, window)
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
    lie = _lie_of(weights, 0)
    by_group = weights.reshape(groups, n_out // groups, per_group, *kernel)
    return _in_layout(replace(shape, weights=lie), x, by_group, groups)


def _in_layout(shape: ConvolutionShape, x: Operand, weights: Operand, groups: int) -> Product:
    """Return an operation with the layouts in which its operands can be read in place."""
    runs = channel_runs(x, groups) if isinstance(x, Tensor) else ()
    groupings = weight_groupings(weights) if isinstance(weights, Tensor) else ()
    if isinstance(x, Tensor) and isinstance(weights, Tensor) and x.variable is weights.variable:
        groupings = ()  # the vertices may need the two in different memory elements
    constant = not isinstance(x, Tensor)
    shape = replace(
        shape,
        runs=runs,
        is_input_constant=constant,
        is_input_local=constant,
        weight_groupings=groupings,
    )
    return Product(shape, x, weights)


def both_ways(a: Tensor, b: Operand, types: ProductTypes) -> tuple[Product, Product]:
    """Return a product of (batch, rows, inner) and (batch, inner, columns) and its transpose."""
    batch, rows, inner = a.shape
    shape = ConvolutionShape(
        groups=batch,
        images=1,
        height=1,
        width=rows,
        in_channels=inner,
        out_channels=int(b.shape[2]),
        in_height=1,
        in_width=rows,
        dtype=a.dtype.name,
        partial_dtype=types.partials.name,
        is_matmul=True,
    )
    return _of_matrices(a, b, shape), _of_matrices(_transposed(b), _transposed(a), shape)


def _of_matrices(left: Operand, right: Operand, shape: ConvolutionShape) -> Product:
    """Return the product of two batches of matrices: rows are the field, columns the outputs."""
    batch, rows, inner = (int(size) for size in left.shape)
    columns = int(right.shape[2])
    x = _transposed(left).reshape(1, batch * inner, 1, rows)
    lie = _lie_of(right, 2)
    as_convolution = replace(shape, width=rows, in_width=rows, out_channels=columns, weights=lie)
    weights = _transposed(right).reshape(batch, columns, inner, 1, 1)
    return _in_layout(as_convolution, x, weights, batch)


def _lie_of(weights: Operand, d: int) -> str:
    """Return the weight layout for the planner; `d` is the dimension of the outputs."""
    if not isinstance(weights, Tensor):
        return "constant"
    return "rows" if weights.dims[d][-1][1] == 1 else "strided"


@overload
def _transposed(matrices: Tensor) -> Tensor: ...


@overload
def _transposed(matrices: NDArray[Any]) -> NDArray[Any]: ...


def _transposed(matrices: Operand) -> Operand:
    """Return a batch of transposed matrices."""
    if isinstance(matrices, Tensor):
        return matrices.dim_shuffle(0, 2, 1)
    return matrices.transpose(0, 2, 1)


def plan_of(
    builder: Builder,
    name: str,
    shape: ConvolutionShape,
    available_memory_proportion: float,
    family: str = "",
    split: Mapping[str, int] | None = None,
) -> Plan:
    """Return the plan of an operation under a name; equal operations are planned once."""
    key = family, tuple(sorted((split or {}).items()))
    machine = builder.tiles.machine
    return builder.plan_memo.plan(
        plan_convolution, name, shape, machine, available_memory_proportion, *key
    )
