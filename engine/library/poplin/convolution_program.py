"""The program of a planned convolution: arranged operands, serial parts, vertices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import DType, Stage, Tensor, dtype_of
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.channels import (
    arranged_images,
    arranged_weights,
    image_values,
    weight_values,
)
from tilescope.engine.library.poplin.convolution_vertices import convolve
from tilescope.engine.library.poplin.placement import Placement, map_weights
from tilescope.engine.library.poplin.serial import inputs_in_series, outputs_in_series
from tilescope.engine.library.popops.elementwise.operations import copy_together, row_major_copy
from tilescope.engine.planner.plan import Plan
from tilescope.engine.tiling import ConvolutionShape, Grouping
from tilescope.engine.tiling.channel_layout import input_layout

__all__ = ["build_convolution"]

#: A tensor, or constants that are laid out before the program runs.
Operand = Tensor | NDArray[Any]


def build_convolution(
    build: Builder,
    x: Operand,
    weights: Operand,
    constant_dtype: DType,
    shape: ConvolutionShape,
    plan: Plan,
) -> Tensor:
    """Arrange the operands and convolve by a plan.

    Parameters
    ----------
    build
        Target of the program.
    x
        Shape (images, channels, rows, columns).
    weights
        Shape (groups, out channels, in channels, kernel rows, kernel columns).
    constant_dtype
        Type of constant operands.
    shape, plan
        The operation and its plan.

    Returns
    -------
    Tensor
        Shape (images, channels, rows, columns).
    """
    serial, grouping = plan.serial, Grouping(**plan.grouping)
    part = serial.part_of(shape)
    assert part is not None, "the shape supports the plan's serial parts"
    steps = _Steps(part, grouping, Placement(plan, part, grouping, build), constant_dtype)
    if serial.n_parts == 1:
        return steps.convolved(build, steps.source(build, x), weights)
    if serial.outputs > 1:
        source = steps.source(build, x)
        kernels = _cut(build, weights, 1, serial.outputs)
        return outputs_in_series(
            build,
            shape,
            grouping,
            serial.outputs,
            lambda inside, i: steps.convolved(inside, source, kernels[i]),
        )
    n_images, _, *field = (int(size) for size in x.shape)
    by_group = x.reshape(n_images, shape.groups, shape.in_channels, *field)
    images = [
        part_images.reshape(n_images, part.groups * part.in_channels, *field)
        for part_images in _cut(build, by_group, 2, serial.inputs)
    ]
    kernels = _cut(build, weights, 2, serial.inputs)
    return inputs_in_series(
        build,
        serial.inputs,
        dtype_of(shape.result_dtype),
        lambda inside, i: steps.convolved(inside, steps.source(inside, images[i]), kernels[i]),
    )


def _cut(build: Builder, operand: Operand, d: int, n_parts: int) -> list[Operand]:
    """Return equal parts along a dimension of an operand, copied first if it cannot be sliced."""
    if not isinstance(operand, Tensor):
        return [*np.split(operand, n_parts, axis=d)]
    size = operand.shape[d] // n_parts
    ranges = [(i * size, (i + 1) * size) for i in range(n_parts)]
    try:
        return [operand.slice(d, *extent) for extent in ranges]
    except BadGraph:  # The strides of the dimension are incompatible with the slice.
        row_major = row_major_copy(build, operand, "rowMajor")
        return [row_major.slice(d, *extent) for extent in ranges]


@dataclass(frozen=True)
class _Steps:
    """The steps of a convolution, or of one of its serial parts.

    Parameters
    ----------
    shape, grouping
        The convolution or the part, and its groups of channels.
    placement
        The tiles of its parts.
    constant_dtype
        Type of constant operands.
    """

    shape: ConvolutionShape
    grouping: Grouping
    placement: Placement
    constant_dtype: DType

    def source(self, builder: Builder, x: Operand) -> Tensor:
        """Return the images as the vertices read them."""
        layout = input_layout(self.shape, self.grouping)
        if isinstance(x, Tensor):
            return arranged_images(builder, x, layout, self.placement.all_tiles().tolist())
        # The vertices map it to the tiles that read it.
        return self._constant(builder, x, image_values(x, layout))

    def convolved(self, builder: Builder, source: Tensor, weights: Operand) -> Tensor:
        """Lay out the weights and add the vertices; return (images, channels, rows, columns)."""
        if isinstance(weights, Tensor):
            kernel, pairs = arranged_weights(builder, weights, self.shape, self.grouping)
            if pairs:
                map_weights(builder, kernel, self.placement, self.grouping)
                copy_together(builder, pairs, "preArrangeWeights", Stage.PRE_ARRANGE_WEIGHTS)
        else:
            values = weight_values(weights, self.shape, self.grouping)
            kernel = self._constant(builder, weights, values)
            map_weights(builder, kernel, self.placement, self.grouping)
        return convolve(builder, source, kernel, self.shape, self.grouping, self.placement)

    def _constant(self, builder: Builder, stated: NDArray[Any], values: NDArray[Any]) -> Tensor:
        """Add constants as they are laid out; copied if they are a view of those stated."""
        is_view = np.may_share_memory(stated, values)
        return builder.graph.add_constant(
            values, "weights", dtype=self.constant_dtype, debug=builder.debug, copy=is_view
        )
