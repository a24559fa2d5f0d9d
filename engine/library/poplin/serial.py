"""Serial parts: of the outputs, copied into the result, or of the inputs, summed.

The parts have one layout, so every element of the result is on the tile that computes it. Copies
and additions need no exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from tilescope.engine.codelets.popops.elementwise.add_in_place import (
    ADD_IN_PLACE,
    ADD_IN_PLACE_BLOCK,
)
from tilescope.engine.codelets.popops.elementwise.copy import CAST, CAST_BLOCK
from tilescope.engine.graph import DType, Stage, Tensor
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.operations import copy_together
from tilescope.engine.library.walk import joint_walk
from tilescope.engine.program import WriteUndef
from tilescope.engine.tiling import ConvolutionShape, Grouping
from tilescope.engine.tiling.channel_layout import output_layout

__all__ = ["inputs_in_series", "outputs_in_series"]

#: Builds a part, given its index and builder.
MakePart = Callable[[Builder, int], Tensor]


def _called(builder: Builder, i: int, n_parts: int) -> Builder:
    """Return the builder of a serial part."""
    return builder.serial(i, n_parts, "poplin.convolution")


def outputs_in_series(
    builder: Builder,
    shape: ConvolutionShape,
    grouping: Grouping,
    n_parts: int,
    convolve_part: MakePart,
) -> Tensor:
    """Convolve equal parts of the output channels in sequence.

    Parameters
    ----------
    builder
        Takes the parts, one call per part: ``serial0`` and so on.
    shape
        The whole convolution, with one group and whole output channel groups.
    grouping
        Groups of channels.
    n_parts
        Number of parts.
    convolve_part
        Returns a part, shape (images, channels / n_parts, rows, columns), that fills a variable.

    Returns
    -------
    Tensor
        Shape (images, channels, rows, columns).
    """
    graph = builder.graph
    layout = output_layout(shape, grouping)
    size = layout.variable_shape(shape.images, shape.height, shape.width)
    n_channels = shape.out_channels // n_parts
    output: Tensor | None = None
    for i in range(n_parts):
        build = _called(builder, i, n_parts)
        part = convolve_part(build, i)
        if output is None:
            tensor = graph.add_variable(part.dtype, size, "out", builder.debug)
            _map_as_parts(builder, tensor, part, shape.images, n_parts)
            # No part writes all of it: without this, its last contents would stay live.
            build.sequence.add(WriteUndef(tensor, debug=build.debug))
            output = layout.as_images(tensor)
        target = output.slice(1, i * n_channels, (i + 1) * n_channels)
        copy_together(build, [(part, target)], "update", Stage.UPDATE)
    assert output is not None
    return output


def _map_as_parts(
    builder: Builder, output: Tensor, part: Tensor, n_images: int, n_parts: int
) -> None:
    """Map every element to its tile in its part; all parts have the same mapping."""
    held = part.variable
    image = held.n_elements // n_images  # contiguous in both
    edges = np.union1d(held.map_start, np.arange(n_images) * image)
    part_slices = (
        np.arange(n_parts)[:, None] * image + edges // image * (image * n_parts) + edges % image
    )
    tiles = np.broadcast_to(held.tile_of(edges), part_slices.shape)
    order = np.argsort(part_slices, axis=None)
    builder.graph.set_tile_mapping(output, part_slices.reshape(-1)[order], tiles.reshape(-1)[order])


def inputs_in_series(
    builder: Builder, n_parts: int, result: DType, convolve_part: MakePart
) -> Tensor:
    """Convolve equal parts of the input channels in sequence, and sum the results.

    Parameters
    ----------
    builder
        Takes the parts, one call per part: ``serial0`` and so on.
    n_parts
        Number of parts.
    result
        Type of the result; the parts have the type of the partial sums.
    convolve_part
        Returns a part, shape (images, channels, rows, columns), on its own variable.

    Returns
    -------
    Tensor
        Shape (images, channels, rows, columns).
    """
    total = convolve_part(_called(builder, 0, n_parts), 0)
    for i in range(1, n_parts):
        build = _called(builder, i, n_parts)
        part = convolve_part(build, i)
        _over_all(build, Stage.ADD, (ADD_IN_PLACE, ADD_IN_PLACE_BLOCK), {"b": part, "a": total})
    if total.dtype == result:
        return total
    held = total.variable
    tensor = builder.graph.add_variable(result, held.shape, "out", builder.debug)
    builder.graph.set_tile_mapping(tensor, held.map_start, held.map_tile)
    _over_all(builder, Stage.CAST, (CAST, CAST_BLOCK), {"x": total, "out": tensor})
    return replace(total, variable=tensor.variable)


def _over_all(
    builder: Builder, stage: Stage, codelets: tuple[Codelet, Codelet], fields: Mapping[str, Tensor]
) -> None:
    """Add vertices over whole variables of one layout; the last determines the tiles."""
    source, target = (
        Tensor(of.variable, 0, (((of.variable.n_elements, 1),),)) for of in fields.values()
    )
    walk = joint_walk([source], target)
    assert walk is not None, "whole variables have compatible strides"
    compute_set = builder.compute_set(str(stage), stage)
    for is_block, tiles, regions in walk.batches():
        named = dict(zip(fields, regions, strict=True))
        builder.vertices(compute_set, codelets[is_block], tiles, named)
