"""Parts of the outputs made one after the other, each copied to its place as soon as it is there.

The parts are alike, so that every element of the result lies on the tile that computes it and the
copies need no exchange.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from engine.graph import Tensor
from engine.library.builder import Builder
from engine.library.channels import ChannelLayout
from engine.library.elementwise import copy_together
from engine.planner import ConvolutionShape
from engine.planner.families import Grouping
from engine.planner.plan import serial_name

__all__ = ["in_series"]


def in_series(
    builder: Builder,
    shape: ConvolutionShape,
    grouping: Grouping,
    n_parts: int,
    convolve_part: Callable[[Builder, int], Tensor],
) -> Tensor:
    """Convolve equal parts of the output channels one after the other.

    Parameters
    ----------
    builder
        Where they go, each inside a call of its own: ``serial0`` and so on.
    shape
        The whole convolution, of one group and in whole groups of output channels.
    grouping
        How channels lie together.
    n_parts
        How many parts.
    convolve_part
        Returns a part, shape (images, channels / n_parts, rows, columns), that fills a variable.

    Returns
    -------
    Tensor
        Shape (images, channels, rows, columns).
    """
    graph = builder.graph
    layout = ChannelLayout(shape.groups, shape.out_channels, grouping.inside, grouping.own_outputs)
    size = layout.variable_shape(shape.images, shape.height, shape.width)
    n_channels = shape.out_channels // n_parts
    whole: Tensor | None = None
    for i in range(n_parts):
        detail = {"part": i, "parts": n_parts}
        build = builder.inside(serial_name(i), "poplin.convolution", detail)
        part = convolve_part(build, i)
        if whole is None:
            made = graph.add_variable(part.dtype, size, "out", builder.debug)
            _map_as_parts(builder, made, part, shape.images, n_parts)
            whole = layout.as_images(made)
        target = whole.slice(1, i * n_channels, (i + 1) * n_channels)
        copy_together(build, [(part, target)], "update")
    assert whole is not None
    return whole


def _map_as_parts(
    builder: Builder, whole: Tensor, part: Tensor, n_images: int, n_parts: int
) -> None:
    """Map every element to the tile that has it in its part; all parts are mapped as the one."""
    held = part.variable
    image = held.n_elements // n_images  # what lies together in both
    edges = np.union1d(held.map_start, np.arange(n_images) * image)
    places = (
        np.arange(n_parts)[:, None] * image + edges // image * (image * n_parts) + edges % image
    )
    tiles = np.broadcast_to(held.tile_of(edges), places.shape)
    order = np.argsort(places, axis=None)
    builder.graph.set_tile_mapping(whole, places.reshape(-1)[order], tiles.reshape(-1)[order])
