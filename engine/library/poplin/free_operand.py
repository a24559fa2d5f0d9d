"""Plans with operands that are not allocated yet, and the variables that suit them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.arguments import a_count
from tilescope.engine.graph import ROOT, DType, Joined, Tensor, View
from tilescope.engine.graph.mapping.clone import clone_layout
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
from tilescope.engine.library.poplin.convolution_vertices import input_shares
from tilescope.engine.library.poplin.operand_layout import as_images, as_weights, free_runs
from tilescope.engine.library.poplin.patches import Patches, channel_patches
from tilescope.engine.library.poplin.placement import Placement, map_weights
from tilescope.engine.library.poplin.product_types import product_types
from tilescope.engine.library.poplin.subsampling import Subsampling
from tilescope.engine.library.popops.elementwise.operations import vector_elements
from tilescope.engine.library.window import Window
from tilescope.engine.planner.convolution.arrange import are_weights_arranged, is_arranged
from tilescope.engine.planner.plan import Plan
from tilescope.engine.tiling import ConvolutionShape, Grouping
from tilescope.engine.tiling.channel_layout import input_layout

__all__ = [
    "Operand",
    "Planned",
    "Request",
    "allocated_images",
    "allocated_matrices",
    "allocated_weights",
    "as_allocated",
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

    @property
    def is_free(self) -> bool:
        """Whether no family or split is requested: these are of the convolution as it is."""
        return not (self.family or self.split)

    def subsampling(self, window: Window) -> Subsampling:
        """Return what a convolution reads of its images."""
        return Subsampling.of(window, is_free=self.is_free)

    def patches(self, x: Operand, window: Window, groups: int) -> Patches:
        """Return the taps that become channels of a convolution of images `x`."""
        assert isinstance(x.value, Tensor)
        subsampling = self.subsampling(window)
        shape, left = subsampling.shape(x.value.shape), subsampling.window(window)
        return channel_patches(
            self.builder, x.value.dtype, shape, left, groups, is_free=self.is_free
        )


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


@dataclass(frozen=True)
class Planned:
    """An operation that was planned with operands to allocate.

    Parameters
    ----------
    asked
        What the planner was asked.
    shape
        The operation in the order of the plan, which may swap the operands of a product.
    plan
        Its plan.
    """

    asked: ConvolutionShape
    shape: ConvolutionShape
    plan: Plan


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
    """Return an operation whose operands to allocate may have any layout.

    An input whose parts have no elements in common is divided among the tiles that read it.
    """
    if x.is_free:
        runs = free_runs(shape.groups * shape.in_channels, shape.groups)
        shape = replace(shape, runs=runs, is_input_local=shape.is_flat)
    return replace(shape, has_free_weights=weights.is_free)


def as_allocated(shape: ConvolutionShape, x: Any, weights: Any) -> ConvolutionShape:
    """Return an operation as it was planned when its operands were allocated.

    Parameters
    ----------
    shape
        The operation with the layouts of its operands.
    x, weights
        The operands: tensors, or arrays of constants. Those of `shape.swapped` are the same in
        reverse order.

    Returns
    -------
    ConvolutionShape
        The allocators' operation if both operands are as it expects them, else `shape`: equal
        operations have one plan.
    """
    for operand in (x, weights):
        if isinstance(operand, Tensor) and operand.variable.allocated_for is not None:
            planned = operand.variable.allocated_for[0]
            if not isinstance(planned, ConvolutionShape):
                continue
            is_free = [_is_allocated_for(planned, each) for each in (x, weights)]
            if _in_layout_of(planned, shape, *is_free) == planned:
                return planned
    return shape


def _is_allocated_for(planned: ConvolutionShape, operand: Any) -> bool:
    """Return whether an operand is the very view that an allocator returned for an operation."""
    if not isinstance(operand, Tensor):
        return False
    return operand.offset == 0 and operand.variable.allocated_for == (planned, operand.dims)


def _in_layout_of(
    planned: ConvolutionShape, shape: ConvolutionShape, x_is_free: bool, weights_are_free: bool
) -> ConvolutionShape:
    """Return an operation with what a planned one says of the layout of allocated operands."""
    if x_is_free:
        shape = replace(shape, runs=planned.runs, is_input_local=planned.is_input_local)
    if weights_are_free:
        shape = replace(
            shape,
            weights=planned.weights,
            weight_groupings=planned.weight_groupings,
            has_free_weights=planned.has_free_weights,
        )
    if shape.swapped is not None and planned.swapped is not None:
        swapped = _in_layout_of(planned.swapped, shape.swapped, weights_are_free, x_is_free)
        shape = replace(shape, swapped=swapped)
    return shape


def planned_convolution(
    request: Request, x: Operand, weights: Operand, window: Window, groups: int
) -> Planned:
    """Plan a convolution with operands to allocate."""
    check_convolution(request.name, x.value, weights.value, window, groups)
    assert isinstance(x.value, Tensor)
    builder, partials_type = request.builder, request.partials_type
    subsampling = request.subsampling(window)
    if subsampling:
        x = replace(x, value=_subsampled(x.value, subsampling, is_free=x.is_free))
        window = subsampling.window(window)
    assert isinstance(x.value, Tensor)
    patches = request.patches(x, window, groups)
    images = x.value
    if patches:
        images = patches.folded(images)
        weights = replace(weights, value=patches.folded_weights(weights.value))
        window = patches.window(window)
    usual = builder.partials.with_own(partials_type).convolution
    types = product_types(request.name, images, weights.value, None, usual, partials_type)
    product = as_product(images, weights.value, window, groups, types)
    share = builder.available_memory.with_own(request.available_memory_proportion).convolution
    shape = _freed(product.shape, x, weights)
    plan = plan_of(builder, request.name, shape, share, request.family, request.split)
    return Planned(shape, shape, plan)


def _subsampled(x: Tensor, subsampling: Subsampling, *, is_free: bool) -> Tensor:
    """Return what a convolution reads of images, to plan with: their copy lies as they do."""
    if is_free or not x.variable.is_mapped or not subsampling.has_view(x):
        return unallocated(x.dtype, subsampling.shape(x.shape), x.name)
    layout = clone_layout(subsampling.view(x))
    return layout.as_view(unallocated(x.dtype, layout.shape, x.name))


def channel_groups(request: Request, x: Operand, planned: Planned) -> Tensor | None:
    """Add images in the plan's groups of channels, spread evenly; None if the plan copies them.

    Returns
    -------
    Tensor or None
        Shape (images, channels, rows, columns).
    """
    assert isinstance(x.value, Tensor)
    grouping, part = Grouping(**planned.plan.grouping), planned.plan.serial.part_of(planned.shape)
    assert part is not None, "the shape supports the plan's serial parts"
    if is_arranged(part, grouping):
        return None
    layout = input_layout(planned.shape, grouping)
    run = layout.inside * layout.size
    n_images, n_channels, height, width = x.value.shape
    sizes = (n_images, n_channels // run, height, width, run)
    tensor = request.builder.graph.add_variable(
        x.value.dtype, sizes, request.name, request.builder.debug
    )
    request.builder.spread(tensor, grain=run)
    return tensor.dim_shuffle(0, 1, 4, 2, 3).reshape(n_images, n_channels, height, width)


def planned_matmul(request: Request, a: Operand, b: Operand) -> Planned:
    """Plan a product with operands to allocate."""
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
    return Planned(shape, orientations[plan.swaps_operands], plan)


def allocated_matrices(
    request: Request,
    operand: Operand,
    planned: Planned,
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
    swaps = planned.plan.swaps_operands
    allocate = allocated_weights if is_left == swaps else allocated_images
    matrices = allocate(request, dtype, planned)
    if matrices is None:
        return row_major_variable(request.builder, operand, request.name)
    batch, rows, columns = operand.value.shape
    if swaps:
        matrices = matrices.reshape(batch, rows, columns)
    else:
        matrices = matrices.reshape(batch, columns, rows).dim_shuffle(0, 2, 1)
    matrices.variable.allocated_for = planned.asked, matrices.dims
    return matrices


def allocated_images(request: Request, dtype: DType, planned: Planned) -> Tensor | None:
    """Add images as the vertices read them; None if the plan copies them.

    Every serial part of the inputs is spread over all tiles of the plan.

    Returns
    -------
    Tensor or None
        Shape (images, channels, rows, columns).
    """
    builder, shape, plan = request.builder, planned.shape, planned.plan
    grouping = Grouping(**plan.grouping)
    part = plan.serial.part_of(shape)
    assert part is not None, "the shape supports the plan's serial parts"
    if is_arranged(part, grouping):
        return None
    layout = input_layout(shape, grouping)
    blocks, channels = layout.blocks
    inner = layout.inside * layout.size
    sizes = (blocks, shape.images, channels, shape.in_height, shape.in_width, inner)
    tensor = builder.graph.add_variable(dtype, sizes, request.name, builder.debug)
    placement = Placement(plan, part, grouping, builder)
    parts = _parts(tensor, 2, plan.serial.inputs)
    if shape.is_input_local:
        shares = [input_shares(each, part, grouping, placement) for each in parts]
        start = np.concatenate([share.map_start for share in shares])
        tile = np.concatenate([share.map_tile for share in shares])
        order = np.argsort(start, kind="stable")
        builder.graph.set_tile_mapping(tensor, start[order], tile[order])
    else:
        for each in parts:
            map_images(builder, each, placement.all_tiles().tolist())
    images = as_images(tensor, layout)
    tensor.variable.allocated_for = planned.asked, images.dims
    return images


def allocated_weights(request: Request, dtype: DType, planned: Planned) -> Tensor | None:
    """Add weights as the vertices read them; None if the plan copies them.

    Returns
    -------
    Tensor or None
        Shape (groups, out channels, in channels, kernel rows, kernel columns).
    """
    builder, shape, plan = request.builder, planned.shape, planned.plan
    grouping = Grouping(**plan.grouping)
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
    weights = as_weights(tensor, grouping)
    tensor.variable.allocated_for = planned.asked, weights.dims
    return weights


def _parts(tensor: Tensor, d: int, n_parts: int) -> list[Tensor]:
    """Return equal parts along a dimension."""
    size = tensor.shape[d] // n_parts
    return [tensor.slice(d, i * size, (i + 1) * size) for i in range(n_parts)]
