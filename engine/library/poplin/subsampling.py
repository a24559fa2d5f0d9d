"""Strided convolutions of one tap: their images without the rows and columns that no tap reads.

What is left is contiguous, so that an exchange has few fragments, and the convolution is one of
stride 1. The copy stays on the tiles of the images.
Source: graphcore/poplibs sdk-release-3.3, lib/poplin/ConvTransforms.cpp, expandSpatialDim, which
samples images by the stride.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tilescope.engine.graph import Stage, Tensor
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.operand_layout import channel_runs
from tilescope.engine.library.popops.elementwise.operations import copy_to, row_major_copy
from tilescope.engine.library.window import Window
from tilescope.engine.planner.convolution.arrange import block_copy_cycles
from tilescope.engine.planner.plan import Plan, PlannedStage
from tilescope.engine.tiling import ConvolutionShape

__all__ = ["Subsampling"]


@dataclass(frozen=True)
class Subsampling:
    """What a convolution reads of its images.

    Parameters
    ----------
    steps
        Of the rows and columns that are read: 1 where all are.
    """

    steps: tuple[int, int]

    @classmethod
    def of(cls, window: Window, *, is_free: bool) -> Subsampling:
        """Return that of a window: dimensions of one tap without padding.

        Parameters
        ----------
        window
            Geometry.
        is_free
            Whether no family or split is requested: these are of the convolution as it is.
        """
        rows, columns = (
            stride
            if is_free
            and window.kernel[d] == 1
            and not (window.padding_before[d] or window.padding_after[d])
            else 1
            for d, stride in enumerate(window.stride)
        )
        return cls((rows, columns))

    def __bool__(self) -> bool:
        return self.steps != (1, 1)

    def window(self, window: Window) -> Window:
        """Return the geometry that is left."""
        rows, columns = (
            1 if step > 1 else stride
            for step, stride in zip(self.steps, window.stride, strict=True)
        )
        return replace(window, stride=(rows, columns))

    def shape(self, shape: Sequence[int]) -> tuple[int, int, int, int]:
        """Return the shape of what is read of images (images, channels, rows, columns)."""
        n_images, n_channels, height, width = shape
        return (n_images, n_channels, -(-height // self.steps[0]), -(-width // self.steps[1]))

    def has_view(self, x: Tensor) -> bool:
        """Return whether rows and columns have one stride each, so that `view` does."""
        return all(len(dim) == 1 for dim in x.dims[2:])

    def view(self, x: Tensor) -> Tensor:
        """Return what is read of images whose rows and columns have one stride each."""
        return x.sub_sample(2, self.steps[0]).sub_sample(3, self.steps[1])

    def read(self, builder: Builder, x: Tensor) -> Tensor:
        """Return a copy of what is read of images, on their tiles.

        Parameters
        ----------
        builder
            Target of the program.
        x
            Shape (images, channels, rows, columns).
        """
        view = self.view(x if self.has_view(x) else row_major_copy(builder, x, "groupChannels"))
        copy = builder.graph.clone(view, "subsampled", debug=builder.debug)
        copy_to(builder, view, copy, "subsample")
        return copy

    def with_copy(
        self, builder: Builder, copy: Tensor, shape: ConvolutionShape, plan: Plan
    ) -> Plan:
        """Return the plan of a convolution with the cycles of the copy that it reads."""
        mapping = builder.graph.tile_mapping(copy)
        busiest = np.bincount(mapping.tile, mapping.end - mapping.start).max(keepdims=True)
        run = max(channel_runs(copy, shape.groups), default=1)
        cycles = block_copy_cycles(busiest.astype(np.int64), shape, builder.tiles.machine, run)
        stage = PlannedStage(Stage.REARRANGE, compute_cycles=int(cycles[0]))
        return replace(plan, stages=(stage, *plan.stages))
