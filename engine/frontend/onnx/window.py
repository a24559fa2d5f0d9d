"""Convolutions and pools; those over one dimension become ones over rows of height 1."""

from __future__ import annotations

from typing import Any

from tilescope.engine.errors import BadModel
from tilescope.engine.frontend.onnx.node import Node, converter
from tilescope.engine.ir import Value


def _same_padding(size: int, kernel: int, stride: int, dilation: int, *, is_lower: bool) -> Any:
    extent = (kernel - 1) * dilation + 1
    total = max((-(-size // stride) - 1) * stride + extent - size, 0)
    small = total // 2
    return (total - small, small) if is_lower else (small, total - small)


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
            f"Node {node.name!r} ({node.op_type}): expected {n_sizes} numbers of at least"
            f" {at_least} for {key}, got {list(sizes)}"
        )
    return sizes


def _geometry(node: Node, sizes: tuple[int, ...], kernel: tuple[int, ...]) -> dict[str, Any]:
    """Return kernel, stride, dilation and padding as two-dimensional attributes.

    Raises
    ------
    BadModel
        When there are more than two spatial dimensions, or a size is invalid.
    """
    rank = len(sizes)
    if rank not in (1, 2):
        raise BadModel(
            f"Node {node.name!r} ({node.op_type}) has {rank} spatial dimensions;"
            " 1 or 2 are supported"
        )
    stride = _sizes(node, "strides", (1,) * rank, rank)
    dilation = _sizes(node, "dilations", (1,) * rank, rank)
    kernel = _sizes(node, "kernel_shape", kernel, rank)
    mode = node.attributes.get("auto_pad", "NOTSET")
    if mode not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise BadModel(
            f"Node {node.name!r} ({node.op_type}): auto_pad must be NOTSET, VALID, SAME_UPPER"
            f" or SAME_LOWER, got {mode!r}"
        )
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        pads = [
            _same_padding(*column, is_lower=mode == "SAME_LOWER")
            for column in zip(sizes, kernel, stride, dilation, strict=True)
        ]
        before, after = (tuple(side) for side in zip(*pads, strict=True))
    else:
        given = (0,) * (2 * rank)
        if mode == "NOTSET":
            given = _sizes(node, "pads", given, 2 * rank, at_least=0)
        before, after = tuple(given[:rank]), tuple(given[rank : 2 * rank])
    if node.attributes.get("ceil_mode", 0):
        after = tuple(
            _ceil_padding(*column)
            for column in zip(sizes, kernel, stride, dilation, before, after, strict=True)
        )
    found = {
        "kernel": (1,) * (2 - rank) + tuple(kernel),
        "stride": (1,) * (2 - rank) + stride,
        "dilation": (1,) * (2 - rank) + dilation,
        "padding_before": (0,) * (2 - rank) + before,
        "padding_after": (0,) * (2 - rank) + after,
    }
    return found


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


def _as_images(node: Node, x: Value) -> Value:
    """Return a signal as images of height 1."""
    if len(x.shape) == 3:
        return node.reshape(x, (x.shape[0], x.shape[1], 1, x.shape[2]))
    return x


def _restored(node: Node, out: Value, rank: int) -> Value:
    return node.reshape(out, (*out.shape[:2], out.shape[3])) if rank == 3 else out


@converter("Conv")
def _convolution(node: Node) -> Value:
    x, w = node.operand(0), node.operand(1)
    rank = len(x.shape)
    node.known(1, "the weights")
    kernel = tuple(node.attributes.get("kernel_shape", w.shape[2:]))
    attributes = _geometry(node, x.shape[2:], kernel)
    weights = node.reshape(w, (*w.shape[:2], *attributes["kernel"]))
    out = node.emit(
        "convolution",
        _as_images(node, x),
        weights,
        groups=node.attributes.get("group", 1),
        **node.memory,
        **node.partials,
        **attributes,
    )
    bias = node.optional(2)
    if bias is not None:
        out = node.binary("add", out, node.reshape(bias, (bias.shape[0], 1, 1)))
    return _restored(node, out, rank)


@converter("MaxPool", "AveragePool")
def _pool(node: Node) -> Value:
    x = node.operand(0)
    rank = len(x.shape)
    attributes = _geometry(node, x.shape[2:], tuple(node.attributes["kernel_shape"]))
    images = _as_images(node, x)
    if node.op_type == "MaxPool":
        return _restored(node, node.emit("max_pool", images, **attributes), rank)
    counts = bool(node.attributes.get("count_include_pad", 0))
    if counts and node.attributes.get("ceil_mode", 0):
        raise BadModel(
            f"Node {node.name!r} (AveragePool) with both ceil_mode and count_include_pad is not"
            " supported yet"
        )
    out = node.emit("average_pool", images, counts_padding=counts, **attributes)
    return _restored(node, out, rank)
