"""Reference of regions that are aligned with a grid: the share of every pixel in every bin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["bin_shares", "regions_backward"]


def _hats(positions: np.ndarray, size: int) -> np.ndarray:
    """Return the share of every pixel in every position: shape (positions, size)."""
    inside = np.clip(positions, 0, size - 1)
    shares = np.maximum(0, 1 - np.abs(inside[:, None] - np.arange(size)))
    return np.asarray(shares * ((positions >= -1) & (positions <= size))[:, None])


def bin_shares(
    first: float, last: float, n_bins: int, n_samples: int, size: int, *, is_aligned: bool
) -> np.ndarray:
    """Return the share of every pixel of a line in every bin of an interval."""
    shift = 0.5 if is_aligned else 0
    start, length = first - shift, last - first
    if not is_aligned:
        length = max(length, 1)
    steps = (np.arange(n_bins * n_samples) + 0.5) / (n_bins * n_samples)
    shares = _hats(start + length * steps, size)
    return np.asarray(shares.reshape(n_bins, n_samples, size).mean(1))


def regions_backward(
    fields: Mapping[str, np.ndarray], scalars: Mapping[str, Any], shape: tuple[int, ...]
) -> np.ndarray:
    height, width = scalars["height"], scalars["width"]
    bins = (scalars["n_rows"], scalars["n_columns"])
    out = np.zeros((shape[0], height, width))
    gradients = fields["gradient"].reshape(-1, *bins)
    boxes = fields["boxes"].reshape(-1, 4) * scalars["scale"]
    rest = {"is_aligned": bool(scalars["is_aligned"])}
    for gradient, box, image in zip(gradients, boxes, fields["images"], strict=True):
        x0, y0, x1, y1 = box.tolist()
        n = scalars["n_samples"]
        rows = bin_shares(y0, y1, bins[0], n, height, **rest)
        columns = bin_shares(x0, x1, bins[1], n, width, **rest)
        out[int(image)] += rows.T @ gradient @ columns
    first = scalars["first_row"]
    return out[:, first : first + shape[1] // width]
