"""Products of 8-bit integers: matrices and convolutions.

An IPU multiplies floats only, and single precision adds integers up to 2^24 exactly. A product is
made in parts along the summed dimension, so short that no partial sum passes that in any order; the
parts are added as int32. With constant weights, the weights decide how long a part is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Operator, Value
from tilescope.engine.operators.elementwise.elementwise import binary
from tilescope.engine.operators.movement.layout import reshape
from tilescope.engine.operators.movement.slicing import along
from tilescope.engine.operators.product.product import multiplied
from tilescope.engine.operators.quantisation import as_type, centred, quantised
from tilescope.engine.operators.window.convolution import convolved

__all__ = ["RECORDS", "of_matrices", "qlinear_conv", "requantised"]

#: Integers up to this are exact in single precision, and their sums.
_LARGEST_EXACT = 1 << 24
_TYPES = ("int8", "uint8")


def _check_type(node: Node, *values: Value) -> None:
    """Refuse operands that are not integers of 8 bits.

    Raises
    ------
    BadModel
        Names the node and the operand.
    """
    for value in values:
        if value.dtype not in _TYPES:
            raise BadModel(
                f"{node}: {value.name!r} is {value.dtype}; expected int8 or uint8, whose products"
                " are supported"
            )


def _largest(x: Value, zero: Value | None) -> int:
    """Return the largest magnitude that an operand can have without its zero point."""
    if x.known is not None:
        low, high = int(x.known.min(initial=0)), int(x.known.max(initial=0))
    else:
        low, high = np.iinfo(x.dtype).min, np.iinfo(x.dtype).max
    if zero is None:
        return max(high, -low)
    if zero.known is not None:
        least, most = int(zero.known.min()), int(zero.known.max())
    else:
        least, most = np.iinfo(zero.dtype).min, np.iinfo(zero.dtype).max
    return max(high - least, most - low)


def _parts(
    node: Node, weights: NDArray[np.int64], largest: int, kernel: Sequence[int] = ()
) -> list[tuple[int, int]]:
    """Return ranges of the summed dimension in which sums are exact.

    Parameters
    ----------
    node
        For messages.
    weights : ndarray of int64, shape (summed, results)
        Magnitudes of what the other operand is multiplied by.
    largest
        Largest magnitude of the other operand.
    kernel
        Sizes of a convolution's kernel.

    Raises
    ------
    BadModel
        When the sum over the kernel is too large for one channel.
    """
    sums = np.concatenate([np.zeros((1, weights.shape[1]), np.int64), weights.cumsum(0)]) * largest
    parts, start, n = [], 0, weights.shape[0]
    while start < n:
        reach = (sums - sums[start]).max(axis=1, initial=0)
        stop = int(np.searchsorted(reach[start:], _LARGEST_EXACT, side="right")) + start - 1
        if stop == start:
            n_pixels = prod(kernel)
            raise BadModel(
                f"{node}: a kernel of {n_pixels} pixels sums up to {reach[start + 1]:,} in one"
                f" channel; floats are exact up to {_LARGEST_EXACT:,}: use a smaller kernel"
            )
        parts.append((start, stop))
        start = stop
    return parts


def _added(into: Expansion, terms: Sequence[Value]) -> Value:
    """Emit the sum of exact parts: one part stays as floats, several are added as int32."""
    if len(terms) == 1:
        return terms[0]
    total = as_type(into, terms[0], "int32")
    for term in terms[1:]:
        total = binary(into, "add", total, as_type(into, term, "int32"))
    return total


def of_matrices(
    node: Node, into: Expansion, a: Value, b: Value, zeros: tuple[Value | None, Value | None]
) -> Value:
    """Emit the product of matrices without their zero points."""
    _check_type(node, a, b)
    left, right = centred(into, a, zeros[0]), centred(into, b, zeros[1])
    depth = b.shape[-2] if len(b.shape) > 1 else b.shape[0]
    if a.shape[-1] != depth:
        return multiplied(node, into, left, right)  # which says what is wrong
    if right.known is not None:
        matrices = np.asarray(right.known, np.int64).reshape(-1, depth, prod(b.shape[-1:]))
        if len(b.shape) == 1:
            matrices = matrices.reshape(1, depth, -1)
        weights = np.abs(np.moveaxis(matrices, 1, 0).reshape(depth, -1))
    else:
        weights = np.full((depth, 1), _largest(b, zeros[1]))
    summed = max(0, len(b.shape) - 2)
    terms = [
        multiplied(
            node,
            into,
            along(into, left, len(a.shape) - 1, start, stop),
            along(into, right, summed, start, stop),
        )
        for start, stop in _parts(node, weights, _largest(a, zeros[0]))
    ]
    return _added(into, terms)


def _of_images(
    node: Node, into: Expansion, x: Value, w: Value, zeros: tuple[Value | None, Value | None]
) -> Value:
    """Emit a convolution without zero points; the padding of the input is its zero point."""
    _check_type(node, x, w)
    images, weights = centred(into, x, zeros[0]), centred(into, w, zeros[1])
    groups, (n_out, channels, *kernel) = node.attributes["group"], w.shape
    if x.shape[1] != channels * groups:
        return convolved(node, into, images, weights)  # which says what is wrong
    if weights.known is not None:
        sums = np.abs(np.asarray(weights.known, np.int64)).reshape(n_out, channels, -1).sum(2).T
    else:
        sums = np.full((channels, 1), _largest(w, zeros[1]) * prod(kernel))
    apart = reshape(into, images, (x.shape[0], groups, channels, *x.shape[2:]))
    terms = []
    for start, stop in _parts(node, sums, _largest(x, zeros[0]), kernel):
        piece = along(into, apart, 2, start, stop)
        piece = reshape(into, piece, (x.shape[0], groups * (stop - start), *x.shape[2:]))
        terms.append(convolved(node, into, piece, along(into, weights, 1, start, stop)))
    return _added(into, terms)


def _by_row(into: Expansion, value: Value | None, x: Value) -> Value | None:
    """Emit a number per row of a matrix as a column."""
    if value is None or value.shape in ((), (1,)) or len(value.shape) == len(x.shape):
        return _one(into, value)
    return reshape(into, value, (*value.shape, 1))


def _by_channel(into: Expansion, value: Value | None, rank: int) -> Value | None:
    """Emit a number per output channel, shaped as weights or results of a rank need it."""
    if value is None or value.shape in ((), (1,)):
        return _one(into, value)
    return reshape(into, value, (value.shape[0], *(1,) * (rank - 1)))


def _one(into: Expansion, value: Value | None) -> Value | None:
    return reshape(into, value, ()) if value is not None and value.shape == (1,) else value


def _matmul_integer(node: Node, into: Expansion) -> Value:
    a, b = node.operand(0), node.operand(1)
    zeros = _by_row(into, node.optional(2), a), _one(into, node.optional(3))
    return as_type(into, of_matrices(node, into, a, b, zeros), "int32")


def _conv_integer(node: Node, into: Expansion) -> Value:
    x, w = node.operand(0), node.operand(1)
    zeros = _one(into, node.optional(2)), _by_channel(into, node.optional(3), len(w.shape))
    return as_type(into, _of_images(node, into, x, w, zeros), "int32")


def requantised(
    node: Node, into: Expansion, total: Value, scales: Sequence[Value], zero: Value
) -> Value:
    """Emit a sum in the scale of the result: scales are those of both operands and of it."""
    a, b, y = (as_type(into, scale, "float32") for scale in scales)
    # Source: onnxruntime, core/providers/cpu/quantization/qlinearconv.cc, ComputeOutputScale.
    factor = binary(into, "divide", binary(into, "multiply", a, b), y)
    shares = binary(into, "multiply", as_type(into, total, "float32"), factor)
    _check_type(node, zero)
    return quantised(into, shares, _one(into, zero), zero.dtype)


def _scales(
    node: Node, into: Expansion, shaped: Callable[[Value], Value | None], first: Value | None
) -> list[Value]:
    """Return the scales of both operands and of the result: inputs 1, 4 and 6."""
    scales = [first, shaped(node.operand(4)), _one(into, node.operand(6))]
    return [scale for scale in scales if scale is not None]


def _qlinear_matmul(node: Node, into: Expansion) -> Value:
    a, b = node.operand(0), node.operand(3)
    zeros = _by_row(into, node.operand(2), a), _one(into, node.operand(5))
    total = of_matrices(node, into, a, b, zeros)
    first = _by_row(into, node.operand(1), a)
    scales = _scales(node, into, lambda scale: _one(into, scale), first)
    return requantised(node, into, total, scales, node.operand(7))


def qlinear_conv(node: Node, into: Expansion) -> Value:
    """Emit a convolution of quantised values."""
    x, w = node.operand(0), node.operand(3)
    rank = len(w.shape)
    zeros = _one(into, node.operand(2)), _by_channel(into, node.operand(5), rank)
    total = _of_images(node, into, x, w, zeros)
    bias = node.optional(8)
    if bias is not None:
        whole = as_type(into, total, "int32")
        by_channel = reshape(into, bias, (bias.shape[0], *(1,) * (rank - 2)))
        total = binary(into, "add", whole, by_channel)
    # A result has one dimension less than weights after its channels' one.
    scales = _scales(
        node, into, lambda v: _by_channel(into, v, rank - 1), _one(into, node.operand(1))
    )
    return requantised(node, into, total, scales, node.operand(7))


def _operator(name: str, decompose: Callable[[Node, Expansion], Any]) -> Operator:
    return Operator(name=name, decompose=decompose)


RECORDS = (
    _operator("ConvInteger", _conv_integer),
    _operator("MatMulInteger", _matmul_integer),
    _operator("QLinearConv", qlinear_conv),
    _operator("QLinearMatMul", _qlinear_matmul),
)
