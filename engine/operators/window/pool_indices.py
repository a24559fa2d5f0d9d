"""Where the largest element of each window of a pool is: MaxPool's second result."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import prod
from typing import Any

import numpy as np

from tilescope.engine.ir import Expansion, Value
from tilescope.engine.operators.elementwise.choice import chosen
from tilescope.engine.operators.elementwise.elementwise import binary
from tilescope.engine.operators.movement.slicing import padded, part
from tilescope.engine.operators.window.window import window_shape

__all__ = ["largest_places"]

_INDEX = "int64"


def largest_places(
    expansion: Expansion, x: Value, window: Mapping[str, Any], *, is_column_major: bool
) -> Value:
    """Emit the flat position in ``x`` of each window's first largest element.

    Parameters
    ----------
    x
        Images: shape (images, channels, rows, columns).
    window
        Sizes in two dimensions.
    is_column_major
        Whether positions in an image count along columns first.
    """
    out, images = window_shape(x.shape[2:], window), x.shape[:2]
    surrounded = _surrounded(expansion, x, window)
    best: Value | None = None
    best_element: Value | None = None
    for offsets in product(*map(range, window["kernel"])):
        starts = [k * d for k, d in zip(offsets, window["dilation"], strict=True)]
        stops = [
            start + (n - 1) * stride + 1
            for start, n, stride in zip(starts, out, window["stride"], strict=True)
        ]
        steps = [1, 1, *window["stride"]]
        candidate = part(expansion, surrounded, [0, 0, *starts], [*images, *stops], steps)
        rows, columns = (
            np.arange(n) * stride + start - before
            for n, stride, start, before in zip(
                out, window["stride"], starts, window["padding_before"], strict=True
            )
        )
        height, width = x.shape[2:]
        if is_column_major:
            offset = rows[:, None] + columns[None, :] * height
        else:
            offset = rows[:, None] * width + columns[None, :]
        index = expansion.constant(
            np.broadcast_to(offset, (*images, *out)).astype(_INDEX), "places"
        )
        if best is None or best_element is None:
            best, best_element = candidate, index
            continue
        is_larger = binary(expansion, "greater", candidate, best)
        best = chosen(expansion, is_larger, candidate, best)
        best_element = chosen(expansion, is_larger, index, best_element)
    assert best_element is not None
    first = np.arange(prod(images)).reshape(*images, 1, 1) * prod(x.shape[2:])
    return binary(
        expansion, "add", best_element, expansion.constant(first.astype(_INDEX), "images")
    )


def _surrounded(expansion: Expansion, x: Value, window: Mapping[str, Any]) -> Value:
    """Emit images with the lowest number around them."""
    is_float = np.dtype(x.dtype).kind == "f"
    lowest = -np.inf if is_float else np.iinfo(x.dtype).min
    for d in range(2):
        axis = 2 + d
        before, after = window["padding_before"][d], window["padding_after"][d]
        x = padded(expansion, x, axis, before, after, lowest)
    return x
