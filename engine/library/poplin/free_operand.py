"""Plans with operands that are not allocated yet, and the variables that suit them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.arguments import a_count
from tilescope.engine.graph import ROOT, DType, Joined, Tensor, View
from tilescope.engine.graph.tensor.tensor import row_major
from tilescope.engine.graph.variable import Variable
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.channels import map_images
from tilescope.engine.library.poplin.convolution_request import (
    as_product,
    both_ways,
    check_convolution,
    check_matmul,
    plan_of,
)
from tilescope.engine.library.poplin.operand_layout import as_images, as_weights, free_runs
from tilescope.engine.library.poplin.placement import Placement, map_weights
from tilescope.engine.library.poplin.product_types import product_types
from tilescope.engine.library.popops.elementwise.operations import vector_elements
from tilescope.engine.library.window import Window
from tilescope.engine.planner import Plan
from tilescope.engine.planner.convolution.arrange import are_weights_arranged, is_arranged
from tilescope.engine.tiling import ConvolutionShape, Grouping
from tilescope.engine.tiling.channel_layout import input_layout

__all__ = [
    "Operand",
    "Request",
    "allocated_images",
    "allocated_matrices",
    "allocated_weights",
    "planned_convolution",
    "planned_matmul",
    "row_major_variable",
    "unallocated",
]


@dataclass(frozen=True)
class Request:
    """What an operation is asked for besides its operands; see `convolution`."""

    builder: Builder
    name: str
    available_memory_proportion: float | None
    partials_type: str | None
    split: Mapping[str, int] | None
    family: str = ""


@dataclass(frozen=True)
class Operand:
    """An operand to plan with, and whether it will be allocated for the plan."""

    value: Tensor | NDArray[Any]
    is_free: bool

    @classmethod
    def of(cls, operand: Sequence[int] | View | NDArray[Any], dtype: DType, name: str) -> Operand:
        """Return an operand, given as such or by its shape."""
        if isinstance(operand, Tensor | np.ndarray):
            return cls(operand, is_free=False)
        if isinstance(operand, Joined):  # it will be copied to one variable
            return cls(unallocated(operand.dtype, operand.shape, operand.name), is_free=False)
        sizes = [a_count(f"A size of {name}", size, 1) for size in operand]
        return cls(unallocated(dtype, sizes, name), is_free=True)


def unallocated(dtype: DType, shape: Sequence[int], name: str) -> Tensor:
    """Return a row-major tensor of no graph, to plan with."""
    return Tensor(Variable(-1, name, dtype, tuple(shape), ROOT), 0, row_major(shape))


def row_major_variable(builder: Builder, operand: Operand, name: str) -> Tensor:
    """Add a row-major variable of an operand's shape, spread evenly in whole vectors."""
    assert isinstance(operand.value, Tensor)
    dtype = operand.value.dtype
    tensor = builder.graph.add_variable(dtype, operand.value.shape, name, builder.debug)
    builder.spread(tensor, grain=vector_elements(builder.tiles.machine, dtype))
    return tensor


def _freed(shape: ConvolutionShape, x: Operand, weights: Operand) -> ConvolutionShape:
    """Return an operation whose operands to allocate may have any layout."""
    n_channels = shape.groups * shape.in_channels
    runs = free_runs(n_channels, shape.groups) if x.is_free else shape.runs
    return replace(shape, runs=runs, has_free_weights=weights.is_free)


def planned_convolution(
    request: Request, x: Operand, weights: Operand, window: Window, groups: int
) -> tuple[ConvolutionShape, Plan]:
    """Plan a convolution with operands to allocate."""
    check_convolution(request.name, x.value, weights.value, window, groups)
    assert isinstance(x.value, Tensor)
    builder, partials_type = request.builder, request.partials_type
    usual = builder.partials.with_own(partials_type).convolution
    types = product_types(request.name, x.value, weights.value, None, usual, partials_type)
    product = as_product(x.value, weights.value, window, groups, types)
    share = builder.available_memory.with_own(request.available_memory_proportion).convolution
    shape = _freed(product.shape, x, weights)
    plan = plan_of(builder, request.name, shape, share, request.family, request.split)
    return shape, plan


def planned_matmul(request: Request, a: Operand, b: Operand) -> tuple[ConvolutionShape, Plan]:
    """Plan a product with operands to allocate; return the operation in the plan's order."""
    check_matmul(request.name, a.value, b.value)
    assert isinstance(a.value, Tensor)
    builder, partials_type = request.builder, request.partials_type
    usual = builder.partials.with_own(partials_type).matmul
    types = product_types(request.name, a.value, b.value, None, usual, partials_type)
    straight, swapped = both_ways(a.value, b.value, types)
    orientations = _freed(straight.shape, a, b), _freed(swapped.shape, b, a)
    share = builder.available_memory.with_own(request.available_memory_proportion).matmul
    shape = replace(orientations[0], swapped=orientations[1])
    plan = plan_of(builder, request.name, shape, share, split=request.split)
    return orientations[plan.swaps_operands], plan


def allocated_matrices(
    request: Request,
    operand: Operand,
    planned: tuple[ConvolutionShape, Plan],
    *,
    is_left: bool,
) -> Tensor:
    """Add an operand of a product as the vertices read it, row-major if the plan copies it.

    Returns
    -------
    Tensor
        Shape of the operand.
    """
    assert isinstance(operand.value, Tensor)
    dtype = operand.value.dtype
    swaps = planned[1].swaps_operands
    allocate = allocated_weights if is_left == swaps else allocated_images
    matrices = allocate(request, dtype, *planned)
    if matrices is None:
        return row_major_variable(request.builder, operand, request.name)
    batch, rows, columns = operand.value.shape
    if swaps:
        return matrices.reshape(batch, rows, columns)
    return matrices.reshape(batch, columns, rows).dim_shuffle(0, 2, 1)


def allocated_images(
    request: Request, dtype: DType, shape: ConvolutionShape, plan: Plan
) -> Tensor | None:
    """Add images as the vertices read them; None if the plan copies them.

    Every serial part of the inputs is spread over all tiles of the plan.

    Returns
    -------
    Tensor or None
        Shape (images, channels, rows, columns).
    """
    builder, grouping = request.builder, Grouping(**plan.grouping)
    part = plan.serial.part_of(shape)
    assert part is not None, "the shape supports the plan's serial parts"
    if is_arranged(part, grouping):
        return None
    layout = input_layout(shape, grouping)
    blocks, channels = layout.blocks
    inner = layout.inside * layout.size
    sizes = (blocks, shape.images, channels, shape.in_height, shape.in_width, inner)
    tensor = builder.graph.add_variable(dtype, sizes, request.name, builder.debug)
    tiles = Placement(plan, part, grouping, builder).all_tiles().tolist()
    for tensor_part in _parts(tensor, 2, plan.serial.inputs):
        map_images(builder, tensor_part, tiles)
    return as_images(tensor, layout)


def allocated_weights(
    request: Request, dtype: DType, shape: ConvolutionShape, plan: Plan
) -> Tensor | None:
    """Add weights as the vertices read them; None if the plan copies them.

    Returns
    -------
    Tensor or None
        Shape (groups, out channels, in channels, kernel rows, kernel columns).
    """
    builder, grouping = request.builder, Grouping(**plan.grouping)
    part = plan.serial.part_of(shape)
    assert part is not None, "the shape supports the plan's serial parts"
    if are_weights_arranged(part, grouping):
        return None
    blocks, in_groups, out_groups = grouping.count(shape)
    inner = grouping.groups * grouping.outputs
    sizes = (blocks, out_groups, in_groups, *shape.kernel, grouping.inputs, inner)
    tensor = builder.graph.add_variable(dtype, sizes, request.name, builder.debug)
    placement = Placement(plan, part, grouping, builder)
    for of_outputs in _parts(tensor, 1, plan.serial.outputs):
        for tensor_part in _parts(of_outputs, 2, plan.serial.inputs):
            map_weights(builder, tensor_part, placement, grouping)
    return as_weights(tensor, grouping)


def _parts(tensor: Tensor, d: int, n_parts: int) -> list[Tensor]:
    """Return equal parts along a dimension."""
    size = tensor.shape[d] // n_parts
    return [tensor.slice(d, i * size, (i + 1) * size) for i in range(n_parts)]
