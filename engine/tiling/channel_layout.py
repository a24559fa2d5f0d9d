"""Memory layout of the channels of images: grouped, padded to whole groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph import Tensor
from tilescope.engine.tiling.dimension import PerDimension
from tilescope.engine.tiling.grouping import Grouping
from tilescope.engine.tiling.shape import ConvolutionShape

__all__ = ["ChannelLayout", "input_layout", "output_layout"]

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class ChannelLayout:
    """Images whose channels are grouped: the channels of one group are contiguous in a pixel.

    If channels are padded, all channels of a pixel are contiguous, and the images are a view.

    Parameters
    ----------
    n_groups, n_channels
        Convolution groups, and channels per group.
    inside, size
        Convolution groups processed as one, and channels per channel group. Several convolution
        groups processed as one have a single channel group.
    """

    n_groups: int
    n_channels: int
    inside: int
    size: int

    @property
    def blocks(self) -> tuple[int, int]:
        """Blocks of convolution groups and of channels, padding included."""
        return -(-self.n_groups // self.inside), -(-self.n_channels // self.size)

    @property
    def pads_groups(self) -> bool:
        """Whether memory holds more convolution groups than the operation has."""
        return self.n_groups % self.inside > 0

    @property
    def pads_channels(self) -> bool:
        """Whether memory holds more channels per group than the operation has."""
        return self.n_channels % self.size > 0

    @property
    def is_padded(self) -> bool:
        """Whether memory holds padding."""
        return self.pads_groups or self.pads_channels

    @property
    def is_by_pixel(self) -> bool:
        """Whether all channels of a pixel are contiguous, not only those of one group."""
        return self.is_padded or self.inside > 1

    def variable_shape(self, images: int, rows: int, columns: int) -> tuple[int, ...]:
        """Return the shape of a variable that holds the images."""
        blocks, channels = self.blocks
        if self.pads_groups:
            return images, rows, columns, blocks * self.inside, channels * self.size
        if self.is_by_pixel:
            return blocks, images, rows, columns, self.inside, channels * self.size
        return blocks, images, channels, rows, columns, self.size

    def as_read(self, tensor: Tensor) -> Tensor:
        """Return a variable as [block, image, channel block, row, column, channel]."""
        blocks, channels = self.blocks
        inner = self.inside * self.size
        if self.pads_groups:
            images, rows, columns = tensor.shape[:3]
            view = tensor.reshape(images, rows, columns, blocks, channels, inner)
            return view.dim_shuffle(3, 0, 4, 1, 2, 5)
        if self.is_by_pixel:
            _, images, rows, columns = tensor.shape[:4]
            view = tensor.reshape(blocks, images, rows, columns, channels, inner)
            return view.dim_shuffle(0, 1, 4, 2, 3, 5)
        return tensor

    def as_images(self, tensor: Tensor) -> Tensor:
        """Return a variable of that shape as (images, channels, rows, columns), without padding."""
        view = self._by_channel(tensor)
        view = view.slice(1, 0, self.n_groups).slice(2, 0, self.n_channels)
        images, _, _, rows, columns = view.shape
        return view.reshape(images, self.n_groups * self.n_channels, rows, columns)

    def _by_channel(self, tensor: Tensor) -> Tensor:
        """Return a variable as [image, group, channel, row, column], with the padding."""
        blocks, channels = self.blocks
        if self.pads_groups:
            return tensor.dim_shuffle(0, 3, 4, 1, 2)
        if self.is_by_pixel:
            _, images, rows, columns = tensor.shape[:4]
            view = tensor.dim_shuffle(1, 0, 4, 5, 2, 3)
            return view.reshape(images, blocks * self.inside, channels * self.size, rows, columns)
        _, images, _, rows, columns, _ = tensor.shape
        view = tensor.dim_shuffle(1, 0, 2, 5, 3, 4)
        return view.reshape(images, blocks, channels * self.size, rows, columns)

    def run_of(self, counts: PerDimension[Counts], largest: PerDimension[Counts]) -> Counts:
        """Return the contiguous channel groups of a part: ndarray of int64.

        The field's rows are contiguous, and channel groups follow each other; by pixel, the
        channels are innermost.

        Parameters
        ----------
        counts
            Part counts.
        largest
            Units of the largest part.
        """
        has_columns = counts.columns == 1
        if self.is_by_pixel:
            has_outputs = counts.outputs == 1
            run = largest.outputs * np.where(has_outputs, largest.columns, 1)
            return np.asarray(run * np.where(has_outputs & has_columns, largest.rows, 1))
        run = largest.columns * np.where(has_columns, largest.rows, 1)
        return np.asarray(run * np.where(has_columns & (counts.rows == 1), largest.outputs, 1))


def input_layout(shape: ConvolutionShape, grouping: Grouping) -> ChannelLayout:
    """Return the layout in which vertices read the images."""
    return ChannelLayout(shape.groups, shape.in_channels, grouping.inside, grouping.own_inputs)


def output_layout(shape: ConvolutionShape, grouping: Grouping) -> ChannelLayout:
    """Return the layout in which vertices write the results."""
    return ChannelLayout(shape.groups, shape.out_channels, grouping.inside, grouping.own_outputs)
