"""RoiAlign and AffineGrid: positions from boxes and from affine maps.

The gradient of averages of boxes is a call of the library. As in torchvision, boxes have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadModel
from tilescope.engine.graph import Tensor
from tilescope.engine.ir import ENGINE_DOMAIN, Expansion, Node, Operation, Operator, Value
from tilescope.engine.library.popnn.roi_align import roi_align_input_gradient
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.elementwise.cast import CAST
from tilescope.engine.operators.elementwise.elementwise import binary, scalar, unary
from tilescope.engine.operators.indexing.indexing import GATHER_ND
from tilescope.engine.operators.movement.layout import TRANSPOSE, full, reshape
from tilescope.engine.operators.movement.slicing import along, joined
from tilescope.engine.operators.product.product import MATMUL
from tilescope.engine.operators.reduction import reduced

__all__ = ["RECORDS"]


class _Side(NamedTuple):
    """Samples along a side of boxes, (boxes, samples): pixels around them, and their weights."""

    low: Value
    high: Value
    low_weight: Value
    high_weight: Value


def _side(expansion: Expansion, x: Value, size: int) -> _Side:
    """Emit the neighbours of positions; those past the image by more than a pixel weigh nothing."""
    below = binary(expansion, "greater_equal", x, scalar(expansion, -1, x))
    above = binary(expansion, "less_equal", x, scalar(expansion, size, x))
    counts = expansion.emit(CAST, binary(expansion, "logical_and", below, above), dtype=x.dtype)
    at_least_0 = binary(expansion, "maximum", x, scalar(expansion, 0, x))
    position = binary(expansion, "minimum", at_least_0, scalar(expansion, size - 1, x))
    low = unary(expansion, "floor", position)
    high = binary(
        expansion,
        "minimum",
        binary(expansion, "add", low, scalar(expansion, 1, x)),
        scalar(expansion, size - 1, x),
    )
    rest = binary(expansion, "subtract", position, low)
    back = binary(expansion, "subtract", scalar(expansion, 1, x), rest)
    return _Side(
        low,
        high,
        binary(expansion, "multiply", back, counts),
        binary(expansion, "multiply", rest, counts),
    )


def _samples(
    node: Node, expansion: Expansion, boxes: Value, d: int, n_bins: int, n_per_bin: int
) -> Value:
    """Emit positions along a side of boxes (x1, y1, x2, y2): shape (boxes, bins · samples)."""
    is_half = _is_half_pixel(node)
    scale = scalar(expansion, node.attributes["spatial_scale"], boxes)
    shift = scalar(expansion, 0.5 if is_half else 0.0, boxes)
    start, end = (
        binary(
            expansion,
            "subtract",
            binary(expansion, "multiply", along(expansion, boxes, 1, i, i + 1), scale),
            shift,
        )
        for i in (1 - d, 3 - d)
    )
    width = binary(expansion, "subtract", end, start)
    if not is_half:
        width = binary(expansion, "maximum", width, scalar(expansion, 1, width))
    steps = (np.arange(n_bins * n_per_bin) + 0.5) / (n_bins * n_per_bin)
    share = expansion.constant(steps.astype(boxes.dtype)[None], "steps")
    return binary(expansion, "add", start, binary(expansion, "multiply", width, share))


def _is_half_pixel(node: Node) -> bool:
    """Return whether half a pixel is taken from coordinates."""
    mode = node.attributes.get("coordinate_transformation_mode", "half_pixel")
    return bool(mode == "half_pixel" and node.version >= 16)


def _roi_align(node: Node, expansion: Expansion) -> Value:
    x, boxes, batch = (node.operand(i) for i in range(3))
    attributes = node.attributes
    n_samples, mode = attributes["sampling_ratio"], attributes["mode"]
    if mode not in ("avg", "max") or len(x.shape) != 4:
        raise BadModel(f"{node}: mode {mode!r} of images of shape {x.shape} is not supported")
    if n_samples > 0:
        return _aligned(node, expansion, boxes, batch, (n_samples, n_samples))
    # As many samples as pixels: boxes decide, so each is on its own.
    known = node.known(1, "the boxes, as sampling_ratio is 0,").astype(np.float64)
    sizes = (attributes["output_height"], attributes["output_width"])
    is_half = _is_half_pixel(node)
    pooled = []
    for i, box in enumerate(known):
        lengths = (box[[3, 2]] - box[[1, 0]]) * attributes["spatial_scale"]
        if not is_half:
            lengths = np.maximum(lengths, 1)
        counts = tuple(
            max(1, int(np.ceil(n / size))) for n, size in zip(lengths, sizes, strict=True)
        )
        item, image = along(expansion, boxes, 0, i, i + 1), along(expansion, batch, 0, i, i + 1)
        pooled.append(_aligned(node, expansion, item, image, counts))
    return joined(expansion, pooled, 0)


def _aligned(
    node: Node, expansion: Expansion, boxes: Value, batch: Value, counts: tuple[int, ...]
) -> Value:
    """Emit the bins of boxes, each from some samples along both sides."""
    x = node.operand(0)
    n, channels, height, width = x.shape
    bins = (node.attributes["output_height"], node.attributes["output_width"])
    rows, columns = (
        _side(expansion, _samples(node, expansion, boxes, d, bins[d], counts[d]), size)
        for d, size in enumerate((height, width))
    )
    n_boxes, grid = boxes.shape[0], (bins[0] * counts[0], bins[1] * counts[1])
    moved = expansion.emit(TRANSPOSE, x, order=(0, 2, 3, 1))
    table = reshape(expansion, moved, (n * height * width, channels))
    first = binary(
        expansion,
        "multiply",
        reshape(expansion, batch, (n_boxes, 1, 1)),
        scalar(expansion, height, batch),
    )

    def whole(value: Value, shape: tuple[int, ...]) -> Value:
        return reshape(expansion, expansion.emit(CAST, value, dtype=batch.dtype), shape)

    terms = []
    for y, y_weight in ((rows.low, rows.low_weight), (rows.high, rows.high_weight)):
        row = binary(expansion, "add", first, whole(y, (n_boxes, grid[0], 1)))
        row = binary(expansion, "multiply", row, scalar(expansion, width, batch))
        for c, c_weight in ((columns.low, columns.low_weight), (columns.high, columns.high_weight)):
            index = binary(expansion, "add", row, whole(c, (n_boxes, 1, grid[1])))
            sampled = expansion.emit(
                GATHER_ND, table, reshape(expansion, index, (n_boxes, *grid, 1)), batch_dims=0
            )
            weight = binary(
                expansion,
                "multiply",
                reshape(expansion, y_weight, (n_boxes, grid[0], 1, 1)),
                reshape(expansion, c_weight, (n_boxes, 1, grid[1], 1)),
            )
            terms.append(binary(expansion, "multiply", sampled, weight))
    is_max = node.attributes["mode"] == "max"
    total = terms[0]
    for term in terms[1:]:
        total = binary(expansion, "maximum" if is_max else "add", total, term)
    apart = reshape(expansion, total, (n_boxes, bins[0], counts[0], bins[1], counts[1], channels))
    scale = 1.0 if is_max else 1 / (counts[0] * counts[1])
    out = reduced(expansion, "maximum" if is_max else "sum", apart, [2, 4], scale)
    binned = reshape(expansion, out, (n_boxes, *bins, channels))
    return expansion.emit(TRANSPOSE, binned, order=(0, 3, 1, 2))


def _roi_align_for_training(node: Node, expansion: Expansion) -> Value:
    """Emit the averages of boxes with a gradient of their own; other forms as they are."""
    out, n_samples = _roi_align(node, expansion), node.attributes["sampling_ratio"]
    if node.attributes["mode"] != "avg" or n_samples <= 0:
        return out
    return expansion.emit(
        AVERAGED_REGIONS,
        *(out, *(node.operand(i) for i in range(3))),
        n_samples=n_samples,
        spatial_scale=float(node.attributes["spatial_scale"]),
        is_aligned=_is_half_pixel(node),
    )


def _averaged_gradient(
    op: Operation, expansion: Expansion, gradients: Sequence[Value | None]
) -> Sequence[Value | None]:
    _, x, boxes, images = op.operands
    gradient = full(expansion, gradients[0], op.output.shape)
    if boxes.dtype != gradient.dtype:
        boxes = expansion.emit(CAST, boxes, dtype=gradient.dtype)
    images = expansion.emit(CAST, images, dtype="int32")
    of_x = expansion.emit(REGION_GRADIENT, boxes, images, gradient, shape=x.shape, **op.attributes)
    return [None, of_x, None, None]


#: The first operand, with the gradient of the averages of regions: of images, boxes, and the number
#: of the image of every box.
AVERAGED_REGIONS = Operator(
    name="averaged_regions",
    domain=ENGINE_DOMAIN,
    infer=lambda node: [(node.operand(0).shape, node.operand(0).dtype)],
    evaluate=lambda _, arrays: [arrays[0]],
    lower=lambda lowering, op: lowering.tensor(op.operand(0)),
    gradient=_averaged_gradient,
)


def _shares(node: Node, first: float, last: float, n_bins: int, size: int) -> NDArray[Any]:
    """Return the share of every pixel of a line in every bin of an interval."""
    n_samples, is_aligned = (node.attributes[name] for name in ("n_samples", "is_aligned"))
    length = last - first if is_aligned else max(last - first, 1)
    steps = (np.arange(n_bins * n_samples) + 0.5) / (n_bins * n_samples)
    positions = first - 0.5 * is_aligned + length * steps
    near = np.clip(positions, 0, size - 1)[:, None]
    shares = np.maximum(0, 1 - np.abs(near - np.arange(size)))
    shares *= ((positions >= -1) & (positions <= size))[:, None]
    return np.asarray(shares.reshape(n_bins, n_samples, size).mean(1))


def _region_gradient(node: Node, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Return the gradient of the images in numpy."""
    boxes, images, gradient = arrays
    out = np.zeros(node.attributes["shape"])
    scaled = boxes.astype(np.float64) * node.attributes["spatial_scale"]
    for box, image, of_region in zip(scaled, images, gradient, strict=True):
        rows, columns = (
            _shares(node, box[1 - d], box[3 - d], gradient.shape[2 + d], out.shape[2 + d])
            for d in (0, 1)
        )
        out[image] += rows.T @ of_region @ columns
    return [out.astype(gradient.dtype)]


def _lower_region_gradient(lowering: Lowering, op: Operation) -> Tensor:
    operands = [lowering.tensor(value) for value in op.operands]
    settings = {name: op.attributes[name] for name in ("n_samples", "spatial_scale", "is_aligned")}
    return roi_align_input_gradient(lowering.builder, op.attributes["shape"], *operands, **settings)


#: The gradient of images from boxes, the number of the image of each, and the gradient of the
#: averages.
REGION_GRADIENT = Operator(
    name="region_gradient",
    domain=ENGINE_DOMAIN,
    infer=lambda node: [(tuple(node.attributes["shape"]), node.operand(2).dtype)],
    evaluate=_region_gradient,
    lower=_lower_region_gradient,
)


def _affine_grid(node: Node, expansion: Expansion) -> Value:
    theta, size = node.operand(0), node.known(1, "the size").reshape(-1).tolist()
    sizes = size[2:]
    rank, aligns = len(sizes), bool(node.attributes.get("align_corners", 0))
    axes = [np.linspace(-1, 1, n) if aligns else (np.arange(n) * 2 + 1) / n - 1 for n in sizes]
    grid = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(sizes)], axis=-1)
    points = expansion.constant(grid.reshape(1, -1, rank + 1).astype(theta.dtype), "points")
    turned = expansion.emit(TRANSPOSE, theta, order=(0, 2, 1))
    wide = np.broadcast_to(np.asarray(points.known), (theta.shape[0], *points.shape[1:]))
    out = expansion.emit(MATMUL, expansion.constant(wide, "points"), turned)
    return reshape(expansion, out, (theta.shape[0], *sizes, rank))


RECORDS = (
    Operator(name="AffineGrid", decompose=_affine_grid, known_operands=(1,)),
    AVERAGED_REGIONS,
    REGION_GRADIENT,
    Operator(name="RoiAlign", decompose=_roi_align, decompose_for_training=_roi_align_for_training),
)
