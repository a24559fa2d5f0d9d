"""Windows of convolutions and pools; those over one dimension become ones over rows of height 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Value
from tilescope.engine.library.window import Window
from tilescope.engine.operators.movement.layout import reshape

__all__ = ["as_images", "geometry", "library_window", "restored", "window_shape", "windows"]


def _same_padding(size: int, kernel: int, stride: int, dilation: int, *, is_lower: bool) -> Any:
    extent = (kernel - 1) * dilation + 1
    total = max((-(-size // stride) - 1) * stride + extent - size, 0)
    small = total // 2
    return (total - small, small) if is_lower else (small, total - small)


#: Of a kernel, stride, dilation or padding: more than any tensor of a machine has.
_LARGEST = 1 << 24


def _sizes(
    node: Node, key: str, default: tuple[int, ...], n_sizes: int, *, at_least: int = 1
) -> tuple[int, ...]:
    """Return an attribute that has one size for every spatial dimension, or for every side.

    Raises
    ------
    BadModel
        When their number or one of their values is invalid.
    """
    sizes = tuple(node.attributes.get(key, default))
    if len(sizes) != n_sizes or min(sizes) < at_least:
        raise BadModel(
            f"{node}: expected {n_sizes} numbers of at least {at_least} for {key}, got"
            f" {list(sizes)}"
        )
    if max(sizes) > _LARGEST:
        raise BadModel(f"{node}: {key} is {list(sizes)}; at most {_LARGEST:,} is possible")
    return sizes


def geometry(node: Node, sizes: tuple[int, ...], kernel: tuple[int, ...]) -> dict[str, Any]:
    """Return kernel, stride, dilation and padding of two dimensions, or of three.

    Raises
    ------
    BadModel
        When there are more than three spatial dimensions, or a size is invalid.
    """
    rank = len(sizes)
    if rank not in (1, 2, 3):
        raise BadModel(f"{node} has {rank} spatial dimensions; 1 to 3 are supported")
    stride = _sizes(node, "strides", (1,) * rank, rank)
    dilation = _sizes(node, "dilations", (1,) * rank, rank)
    kernel = _sizes(node, "kernel_shape", kernel, rank)
    mode = node.attributes.get("auto_pad", "NOTSET")
    if mode not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise BadModel(
            f"{node}: auto_pad must be NOTSET, VALID, SAME_UPPER or SAME_LOWER, got {mode!r}"
        )
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        pads = [
            _same_padding(*column, is_lower=mode == "SAME_LOWER")
            for column in zip(sizes, kernel, stride, dilation, strict=True)
        ]
        before, after = (tuple(side) for side in zip(*pads, strict=True))
    else:
        value = (0,) * (2 * rank)
        if mode == "NOTSET":
            value = _sizes(node, "pads", value, 2 * rank, at_least=0)
        before, after = tuple(value[:rank]), tuple(value[rank : 2 * rank])
    if node.attributes.get("ceil_mode", 0):
        after = tuple(
            _ceil_padding(*column)
            for column in zip(sizes, kernel, stride, dilation, before, after, strict=True)
        )
    return {
        "kernel": (1,) * (2 - rank) + tuple(kernel),
        "stride": (1,) * (2 - rank) + stride,
        "dilation": (1,) * (2 - rank) + dilation,
        "padding_before": (0,) * (2 - rank) + before,
        "padding_after": (0,) * (2 - rank) + after,
    }


def _ceil_padding(
    size: int, kernel: int, stride: int, dilation: int, before: int, after: int
) -> int:
    """Return the padding after, grown so that the last partial window counts."""
    extent = (kernel - 1) * dilation + 1
    span = size + before + after - extent
    n_windows = -(-span // stride) + 1
    if (n_windows - 1) * stride >= size + before:
        n_windows -= 1
    return max(after, (n_windows - 1) * stride + extent - size - before)


def as_images(expansion: Expansion, x: Value) -> Value:
    """Return a signal as images of height 1."""
    if len(x.shape) == 3:
        return reshape(expansion, x, (x.shape[0], x.shape[1], 1, x.shape[2]))
    return x


def restored(expansion: Expansion, out: Value, rank: int) -> Value:
    """Return images of height 1 as the signal that they stand for."""
    return reshape(expansion, out, (*out.shape[:2], out.shape[3])) if rank == 3 else out


def window_shape(shape: Sequence[int], attributes: Mapping[str, Any]) -> tuple[int, ...]:
    """Return how many windows fit into every spatial dimension.

    Raises
    ------
    BadModel
        When none fits.
    """
    sizes = []
    for d, size in enumerate(shape):
        extent = (attributes["kernel"][d] - 1) * attributes["dilation"][d] + 1
        before, after = attributes["padding_before"][d], attributes["padding_after"][d]
        out = (size + before + after - extent) // attributes["stride"][d] + 1
        if out < 1:
            raise BadModel(
                f"A window of {extent} does not fit a dimension of {size} with padding"
                f" {before} and {after}"
            )
        sizes.append(out)
    return tuple(sizes)


def windows(x: NDArray[Any], attributes: Mapping[str, Any], fill: float) -> NDArray[Any]:
    """Return all windows: shape (images, channels, rows, columns, kernel rows, kernel columns)."""
    pads = list(zip(attributes["padding_before"], attributes["padding_after"], strict=True))
    padded = np.pad(x, [(0, 0), (0, 0), *pads], constant_values=fill)
    kernel, dilation, stride = (attributes[k] for k in ("kernel", "dilation", "stride"))
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    view = np.lib.stride_tricks.sliding_window_view(padded, extents, axis=(2, 3))
    return view[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]


def library_window(attributes: Mapping[str, Any]) -> Window:
    """Return the attributes of a window as the library takes them."""
    keys = ("kernel", "stride", "dilation", "padding_before", "padding_after")
    return Window(*(tuple(attributes[key]) for key in keys))
