"""Resize and Upsample: a sum of taken elements along each axis.

Every mode of ONNX is separable: an output along an axis is a weighted sum of a few inputs, at
positions known at compile time. Source of the form: graphcore/popart sdk-release-3.4,
willow/src/popx/op/resizex.cpp, which mixes elements taken at rounded positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Operator, Value
from tilescope.engine.operators.elementwise.choice import chosen
from tilescope.engine.operators.elementwise.elementwise import binary, scalar
from tilescope.engine.operators.movement.slicing import along
from tilescope.engine.operators.movement.take import taken

__all__ = ["RECORDS", "resized"]

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]


@dataclass(frozen=True)
class _Method:
    """How a Resize reads between elements; names and meanings as in ONNX."""

    mode: str
    coordinates: str
    nearest: str
    cubic_coefficient: float
    excludes_outside: bool
    is_antialiased: bool
    extrapolation: float


@dataclass(frozen=True)
class _Axis:
    """An axis to resize: its number, sizes before and after, scale and region of interest."""

    axis: int
    size: int
    out: int
    scale: float
    region: tuple[float, float]


def _source(method: _Method, axis: _Axis) -> Floats:
    """Return the position in the input of every output.

    Raises
    ------
    BadModel
        When ONNX has no such transformation.
    """
    y = np.arange(axis.out, dtype=np.float64)
    n, wide, (start, stop) = axis.size, axis.scale * axis.size, axis.region
    match method.coordinates:
        case "asymmetric":
            return y / axis.scale
        case "half_pixel":
            return (y + 0.5) / axis.scale - 0.5
        case "pytorch_half_pixel":
            return (y + 0.5) / axis.scale - 0.5 if wide > 1 else y * 0 - 0.5
        case "half_pixel_symmetric":
            return n / 2 * (1 - axis.out / wide) + (y + 0.5) / axis.scale - 0.5
        case "align_corners":
            return y * (n - 1) / (wide - 1) if wide != 1 else y * 0
        case "tf_crop_and_resize":
            inside = (stop - start) * (n - 1)
            return start * (n - 1) + (y * inside / (wide - 1) if wide != 1 else y * 0 + inside / 2)
        case "tf_half_pixel_for_nn":
            return (y + 0.5) / axis.scale
    raise BadModel(f"coordinate_transformation_mode {method.coordinates!r} does not exist in ONNX")


def _cubic(distance: Floats, a: float) -> Floats:
    """Return the weight at a distance: Keys' convolution."""
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def _taps(method: _Method, axis: _Axis) -> tuple[Positions, Floats]:
    """Return positions and weights of what every output sums: shape (n_taps, out) each."""
    x = _source(method, axis)
    if method.mode == "nearest":
        rounded = {
            "floor": np.floor(x),
            "ceil": np.ceil(x),
            "round_prefer_floor": np.ceil(x - 0.5),
            "round_prefer_ceil": np.floor(x + 0.5),
        }[method.nearest]
        positions = rounded[None].astype(np.int64)
        return positions.clip(0, axis.size - 1), np.ones_like(x)[None]
    base = np.ceil(x) - 1
    reach, shrink = (1 if method.mode == "linear" else 2), 1.0
    if method.is_antialiased:
        shrink = min(axis.scale, 1.0)
    first = int(np.floor(-reach / shrink)) + 1
    positions = base[None].astype(np.int64) + np.arange(first, 2 - first)[:, None]
    distance = (positions - x[None]) * shrink
    if method.mode == "linear":
        weights = np.clip(1 - np.abs(distance), 0, 1)
    else:
        weights = _cubic(distance, method.cubic_coefficient)
    if method.excludes_outside:
        weights = np.where((positions < 0) | (positions >= axis.size), 0, weights)
    if method.excludes_outside or method.is_antialiased:
        weights = weights / weights.sum(axis=0)
    is_used = weights.any(axis=1)
    return positions[is_used].clip(0, axis.size - 1), weights[is_used]


def _mixed(expansion: Expansion, terms: Sequence[Value], weights: Sequence[Floats]) -> Value:
    """Emit a weighted sum; between two terms, one weight is enough."""

    def weighted(term: Value, weight: Floats) -> Value:
        if (weight == 1).all():
            return term
        factor = expansion.constant(weight.astype(term.dtype), "weights")
        return binary(expansion, "multiply", term, factor)

    first, *others = terms
    if len(terms) == 2 and np.allclose(weights[0] + weights[1], 1, rtol=0, atol=1e-9):
        step = weighted(binary(expansion, "subtract", terms[1], first), weights[1])
        return binary(expansion, "add", step, first)
    total = weighted(first, weights[0])
    for term, weight in zip(others, weights[1:], strict=True):
        total = binary(expansion, "add", total, weighted(term, weight))
    return total


def _resized(expansion: Expansion, x: Value, method: _Method, axis: _Axis) -> Value:
    """Emit one axis."""
    if not axis.out:
        return along(expansion, x, axis.axis, 0, 0)
    locations, weights = _taps(method, axis)
    shape = (-1, *(1,) * (len(x.shape) - axis.axis - 1))
    elements = taken(expansion, x, axis.axis, *(positions.tolist() for positions in locations))
    total = _mixed(expansion, elements, [weight.reshape(shape) for weight in weights])
    if method.coordinates == "tf_crop_and_resize":
        source = _source(method, axis)
        is_outside = (source < 0) | (source > axis.size - 1)
        if is_outside.any():
            mask = expansion.constant(is_outside.reshape(shape), "outside")
            total = chosen(expansion, mask, scalar(expansion, method.extrapolation, x), total)
    return total


def _numbers(node: Node, index: int, subject: str) -> list[float] | None:
    """Return an optional operand as numbers; None where it is left out or empty."""
    if node.optional(index) is None:
        return None
    numbers: list[float] = node.known(index, subject).reshape(-1).tolist()
    return numbers or None


def _axes(node: Node) -> list[_Axis]:
    """Return the axes that are scaled or cropped.

    Raises
    ------
    BadModel
        When neither or both of scales and sizes are given, or their number is wrong.
    """
    x = node.operand(0)
    named = [node.axis(a, len(x.shape)) for a in node.attributes.get("axes", range(len(x.shape)))]
    is_old = node.operator.name == "Upsample" or node.version < 11
    scales = node.attributes.get("scales")
    if "height_scale" in node.attributes:  # the first version, of images
        scales = (1.0, 1.0, node.attributes["height_scale"], node.attributes["width_scale"])
    sizes = region = None
    if scales is None:
        scales = _numbers(node, 1 if is_old else 2, "the scales")
    if not is_old:
        sizes, region = _numbers(node, 3, "the sizes"), _numbers(node, 1, "the region")
    targets = scales if sizes is None else sizes
    if targets is None or (scales is not None and sizes is not None) or len(targets) != len(named):
        raise BadModel(f"{node} needs scales or sizes, one number for each of {len(named)} axes")
    if min(targets) <= 0:
        raise BadModel(f"{node}: scales and sizes are above 0, got {list(targets)}")
    axis_sizes = [x.shape[axis] for axis in named]
    scales = list(scales or [])
    if sizes is not None:
        scales = [size / n for size, n in zip(sizes, axis_sizes, strict=True)]
        policy = node.attributes.get("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            common_scale = min(scales) if policy == "not_larger" else max(scales)
            scales = [common_scale] * len(named)
            sizes = [float(np.floor(common_scale * n + 0.5)) for n in axis_sizes]
    outs = sizes or [
        float(np.floor(n * scale + _ROUNDING)) for n, scale in zip(axis_sizes, scales, strict=True)
    ]
    regions: Sequence[tuple[float, float]] = [(0.0, 1.0)] * len(named)
    if region is not None and node.attributes.get(_COORDINATES) == "tf_crop_and_resize":
        regions = list(zip(region[: len(named)], region[len(named) :], strict=True))
    # A scale that keeps the size changes values all the same, since opset 11.
    is_by_size = is_old or node.attributes.get("nearest_mode") == _PYTORCH
    return [
        _Axis(axis, n, int(out), float(scale), where)
        for axis, n, out, scale, where in zip(named, axis_sizes, outs, scales, regions, strict=True)
        if int(out) != n or where != (0.0, 1.0) or (scale != 1 and not is_by_size)
    ]


#: PopART's own mode of rounding, which reads as before opset 11.
_PYTORCH = "pytorch"
_COORDINATES = "coordinate_transformation_mode"
#: Scales are floats of 32 bits: 10 · float32(0.6) is meant to be 6.
_ROUNDING = 1e-6
_NEAREST = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")


def _method(node: Node) -> _Method:
    """Return how a node reads between elements.

    Before opset 11, it does from the front and rounds down, as by PopART's own mode ``pytorch``.

    Raises
    ------
    BadModel
        When a mode does not exist.
    """
    attributes: dict[str, Any] = dict(node.attributes)
    is_old = node.operator.name == "Upsample" or node.version < 11
    if is_old or attributes.get("nearest_mode") == _PYTORCH:
        attributes |= {_COORDINATES: "asymmetric", "nearest_mode": "floor"}
    mode = attributes.get("mode", "nearest")
    nearest = attributes.get("nearest_mode", "round_prefer_floor")
    if mode not in ("nearest", "linear", "bilinear", "cubic") or nearest not in _NEAREST:
        raise BadModel(
            f"{node}: mode {mode!r} with nearest_mode {nearest!r}: expected nearest, linear or"
            f" cubic, and one of {', '.join(_NEAREST)}"
        )
    return _Method(
        mode="linear" if mode == "bilinear" else mode,
        coordinates=attributes.get(_COORDINATES, "half_pixel"),
        nearest=nearest,
        cubic_coefficient=attributes.get("cubic_coeff_a", -0.75),
        excludes_outside=bool(attributes.get("exclude_outside", 0)),
        is_antialiased=bool(attributes.get("antialias", 0)),
        extrapolation=attributes.get("extrapolation_value", 0.0),
    )


def resized(node: Node, expansion: Expansion) -> Value:
    """Emit a Resize or Upsample, of the node's version.

    Raises
    ------
    BadModel
        When scales, sizes or a mode do not fit.
    """
    out, method = node.operand(0), _method(node)
    # Axes that shrink come first: what is not kept is not computed.
    for axis in sorted(_axes(node), key=lambda axis: axis.out / axis.size):
        out = _resized(expansion, out, method, axis)
    return out


RECORDS = (
    Operator(name="Resize", decompose=resized, known_operands=(1, 2, 3)),
    Operator(name="Upsample", decompose=resized, known_operands=(1,)),
)
