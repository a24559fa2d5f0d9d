"""Resized and sampled images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilescope.engine.frontend.torch.emission import Emission, Rule, Rules
from tilescope.engine.ir import Value

__all__ = ["RULES"]


def _resized(
    emit: Emission,
    x: Value,
    sizes: Sequence[int] | None,
    factors: Sequence[float | None],
    **attributes: Any,
) -> Value:
    """Return a resized image; factors say how far apart samples are, where they are given."""
    if factors and all(factor is not None for factor in factors):
        scales = emit.constant([1.0, 1.0, *(float(f) for f in factors if f)], "float32")
        return emit("Resize", x, None, scales, None, **attributes)
    whole = emit.integers([*x.shape[:2], *(sizes or ())])
    return emit("Resize", x, None, None, whole, **attributes)


def _stated(sizes: Any, given: Sequence[Any]) -> list[Any]:
    """Return factors from the arguments of either overload: one list, or a number an axis."""
    if len(given) == 1 and isinstance(given[0], list | tuple):
        return list(given[0])
    return [item for item in given if item is not None] if all(given) else []


def _nearest(*, is_exact: bool) -> Rule:
    attributes = (
        {"coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_ceil"}
        if is_exact
        else {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    )

    def rule(emit: Emission, x: Value, sizes: Any, *given: Any) -> Value:
        return _resized(emit, x, sizes, _stated(sizes, given), mode="nearest", **attributes)

    return rule


def _smooth(mode: str, **options: Any) -> Rule:
    def rule(emit: Emission, x: Value, sizes: Any, align_corners: bool, *given: Any) -> Value:
        where = "align_corners" if align_corners else "half_pixel"
        # Bilinear samples before the first pixel are of that pixel; as ONNX's, which clamps.
        factors = [] if align_corners else _stated(sizes, given)
        target = list(emit.shape[2:]) if align_corners else sizes
        return _resized(
            emit, x, target, factors, mode=mode, coordinate_transformation_mode=where, **options
        )

    return rule


_MODES = ("linear", "nearest", "cubic")
_PADDINGS = ("zeros", "border", "reflection")


def _grid_sampler(
    emit: Emission, x: Value, grid: Value, mode: int, padding: int, align_corners: bool
) -> Value:
    return emit(
        "GridSample",
        x,
        grid,
        mode=_MODES[mode],
        padding_mode=_PADDINGS[padding],
        align_corners=int(align_corners),
    )


def _affine_grid(emit: Emission, theta: Value, size: Sequence[int], align_corners: bool) -> Value:
    return emit("AffineGrid", theta, emit.integers(list(size)), align_corners=int(align_corners))


_CUBIC = {"cubic_coeff_a": -0.75}

RULES: Rules = {
    "aten._upsample_bicubic2d_aa": _smooth("cubic", cubic_coeff_a=-0.5, antialias=1),
    "aten._upsample_bilinear2d_aa": _smooth("linear", antialias=1),
    "aten._upsample_nearest_exact1d": _nearest(is_exact=True),
    "aten._upsample_nearest_exact2d": _nearest(is_exact=True),
    "aten._upsample_nearest_exact3d": _nearest(is_exact=True),
    "aten.affine_grid_generator": _affine_grid,
    "aten.grid_sampler": _grid_sampler,
    "aten.grid_sampler_2d": _grid_sampler,
    "aten.grid_sampler_3d": _grid_sampler,
    "aten.upsample_bicubic2d": _smooth("cubic", **_CUBIC),
    "aten.upsample_bilinear2d": _smooth("linear"),
    "aten.upsample_linear1d": _smooth("linear"),
    "aten.upsample_nearest1d": _nearest(is_exact=False),
    "aten.upsample_nearest2d": _nearest(is_exact=False),
    "aten.upsample_nearest3d": _nearest(is_exact=False),
    "aten.upsample_trilinear3d": _smooth("linear"),
}
