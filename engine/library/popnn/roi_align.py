"""The gradient of regions of interest that were aligned with a grid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilescope.engine.arguments import a_count, a_number, a_switch
from tilescope.engine.codelets.popnn.roi_align import ROI_ALIGN_BACKWARD
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import FLOAT16, FLOAT32, INT32, Tensor, View
from tilescope.engine.graph import unchecked_blocks as blocks
from tilescope.engine.library.argument_check import check_rank, checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.operations import cast, copy_together
from tilescope.engine.library.popops.reduction.reduce import reduce
from tilescope.engine.planner.regions import RegionPlan, plan_regions

__all__ = ["roi_align_input_gradient"]

_NAME = "roi_align_input_gradient"


@checked
def roi_align_input_gradient(
    builder: Builder,
    shape: Sequence[int],
    boxes: View,
    images: View,
    gradient: View,
    *,
    n_samples: int,
    spatial_scale: float = 1.0,
    is_aligned: bool = True,
) -> Tensor:
    """Return the gradient of images of which regions were averaged.

    Parameters
    ----------
    builder
        Target of the program.
    shape
        Shape of the images: batch, channels, height, width.
    boxes
        Regions, shape (regions, 4), of the type of the gradient: x and y of the first corner, then
        of the last one.
    images
        int32, shape (regions,): number of the image of every region.
    gradient
        Of the averages, float16 or float32, shape (regions, channels, rows of bins, columns).
    n_samples
        Samples along both sides of a bin.
    spatial_scale
        What coordinates are multiplied by, above 0.
    is_aligned
        Whether half a pixel is taken from coordinates (``half_pixel`` of ONNX); otherwise, regions
        are at least a pixel long.

    Returns
    -------
    Tensor
        Of the shape of the images and the type of the gradient; sums are float32.

    Raises
    ------
    BadGraph
        If shapes, types or numbers do not fit, or the images do not fit on the tiles.

    Notes
    -----
    Source: graphcore/poplibs sdk-release-3.4, include/popnn/experimental/ROIAlign.hpp,
    roiAlignInputGradient. There, all samples of a bin have sums of their own, and regions that
    exceed the workers take turns.
    """
    sizes = _check(shape, boxes, images, gradient)
    n_samples = a_count(f"n_samples of {_NAME}", n_samples, 1)
    is_aligned = a_switch(f"is_aligned of {_NAME}", is_aligned)
    scale = a_number(f"spatial_scale of {_NAME}", spatial_scale)
    if scale <= 0:
        raise BadGraph(f"spatial_scale of {_NAME} is {scale:g}: expected a number above 0")
    n_regions = boxes.shape[0]
    share = builder.available_memory.matmul
    plan = plan_regions(sizes, n_regions, builder.tiles.machine, share)
    if plan is None:
        raise BadGraph(
            f"{_NAME}: no split of images of shape {sizes} fits the tiles: use smaller images, or"
            " a larger availableMemoryProportion"
        )
    detail = {"shape": list(sizes), "regions": n_regions, "samples": n_samples}
    detail |= {"groups": plan.groups, "bands": plan.bands}
    build = builder.inside("roiAlignInputGradient", f"popnn.{_NAME}", detail)
    sums = _sums(build, plan, sizes, (boxes, images, gradient), (n_samples, is_aligned, scale))
    total = sums if plan.groups == 1 else reduce(build, "sum", sums, [0])
    total = total.reshape(*sums.shape[1:])
    if total.dtype != gradient.dtype:
        total = cast(build, total, gradient.dtype)
    return total.dim_shuffle(1, 0, 2, 3)


def _check(
    shape: Sequence[int], boxes: View, images: View, gradient: View
) -> tuple[int, int, int, int]:
    """Return the shape of the images.

    Raises
    ------
    BadGraph
        Says what is expected.
    """
    sizes = tuple(a_count(f"A size in the shape of {_NAME}", n, 1) for n in shape)
    if len(sizes) != 4:
        raise BadGraph(f"{_NAME}: the shape is {sizes}: expected (batch, channels, height, width)")
    check_rank(f"{_NAME}: its gradient", gradient, "regions, channels, rows, columns")
    if gradient.dtype not in (FLOAT16, FLOAT32):
        raise BadGraph(
            f"{_NAME}: {gradient.name!r} is {gradient.dtype}: expected float16 or float32"
        )
    n_regions, channels = gradient.shape[:2]
    expected = {
        "boxes": (boxes, gradient.dtype, (n_regions, 4)),
        "images": (images, INT32, (n_regions,)),
    }
    for name, (view, kind, wanted) in expected.items():
        if view.dtype != kind or tuple(view.shape) != wanted:
            raise BadGraph(
                f"{_NAME}: its {name} {view.name!r} are {view.dtype} {tuple(view.shape)}: expected"
                f" {kind} {wanted}"
            )
    if channels != sizes[1]:
        raise BadGraph(
            f"{_NAME}: {gradient.name!r} has {channels} channels, and the images {sizes[1]}"
        )
    return sizes[0], sizes[1], sizes[2], sizes[3]


def _sums(
    builder: Builder,
    plan: RegionPlan,
    sizes: tuple[int, int, int, int],
    operands: tuple[View, View, View],
    settings: tuple[int, bool, float],
) -> Tensor:
    """Return the sums of every group, float32, shape (groups, channels, batch, height, width)."""
    graph, debug = builder.graph, builder.debug
    batch, channels, height, width = sizes
    boxes, images, gradient = operands
    n_samples, is_aligned, scale = settings
    n_regions, _, n_rows, n_columns = gradient.shape
    n_bins = n_rows * n_columns
    group, channel, band = (
        x.reshape(-1) for x in np.indices((plan.groups, channels, plan.bands), np.int64)
    )
    per_tile = -(-plan.n_vertices // builder.tiles.n_tiles)
    tile = builder.tiles.ids[np.arange(plan.n_vertices) // per_tile]
    sums = graph.add_variable(
        "float32", (plan.groups, channels, batch, height, width), "sums", debug
    )
    row, rows = plan.row_edges[band], np.diff(plan.row_edges)[band]
    image = np.arange(batch)[:, None]
    order = np.arange(plan.n_vertices).reshape(-1, plan.bands)
    first = (group * channels + channel) * batch * height * width + row * width
    starts = np.stack([(first[order] + n * height * width) for n in image[:, 0]], axis=1)
    tiles = np.repeat(tile[order][:, None], batch, axis=1)
    _map(builder, sums, starts, tiles)
    local = graph.add_variable(gradient.dtype, (channels, n_regions, n_bins), "gradient", debug)
    edges = plan.region_edges
    of_group = tile.reshape(plan.groups, channels, plan.bands)[:, :, 0].T
    starts = (np.arange(channels)[:, None] * n_regions + edges[:-1]) * n_bins
    _map(builder, local, starts, of_group)
    corners = graph.add_variable(gradient.dtype, (n_regions, 4), "boxes", debug)
    numbers_ = graph.add_variable("int32", (n_regions,), "images", debug)
    for tensor in (corners, numbers_):
        graph.map_linearly(tensor)
    flat = gradient.reshape(n_regions, channels, n_bins).dim_shuffle(1, 0, 2)
    copy_together(builder, [(flat, local), (boxes, corners), (images, numbers_)], "operands")
    start, n = edges[group], np.diff(edges)[group]
    fields = {
        "gradient": blocks(
            local.variable, (channel * n_regions + start) * n_bins, [n * n_bins], [1], tile.size
        ),
        "boxes": blocks(corners.variable, 4 * start, [4 * n], [1], tile.size),
        "images": blocks(numbers_.variable, start, [n], [1], tile.size),
        "out": blocks(sums.variable, first, [batch, rows * width], [height * width, 1], tile.size),
    }
    scalars = {
        "first_row": row,
        "height": height,
        "width": width,
        "n_rows": n_rows,
        "n_columns": n_columns,
        "n_samples": n_samples,
        "is_aligned": int(is_aligned),
        "scale": scale,
    }
    builder.vertices(builder.compute_set("backward"), ROI_ALIGN_BACKWARD, tile, fields, scalars)
    return sums


def _map(builder: Builder, tensor: Tensor, start: np.ndarray, tile: np.ndarray) -> None:
    """Map a variable from the starts of its parts, in ascending order, and their tiles."""
    starts, tiles = start.reshape(-1), tile.reshape(-1)
    is_new = np.append(True, tiles[1:] != tiles[:-1])
    builder.graph.set_tile_mapping(tensor, starts[is_new], tiles[is_new])
