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
        lowest, highest = int(zero.known.min()), int(zero.known.max())
    else:
        lowest, highest = np.iinfo(zero.dtype).min, np.iinfo(zero.dtype).max
    return max(high - lowest, highest - low)


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


def _added(expansion: Expansion, terms: Sequence[Value]) -> Value:
    """Emit the sum of exact parts: one part stays as floats, several are added as int32."""
    if len(terms) == 1:
        return terms[0]
    total = as_type(expansion, terms[0], "int32")
    for term in terms[1:]:
        total = binary(expansion, "add", total, as_type(expansion, term, "int32"))
    return total


def of_matrices(
    node: Node, expansion: Expansion, a: Value, b: Value, zeros: tuple[Value | None, Value | None]
) -> Value:
    """Emit the product of matrices without their zero points."""
    _check_type(node, a, b)
    left, right = centred(expansion, a, zeros[0]), centred(expansion, b, zeros[1])
    depth = b.shape[-2] if len(b.shape) > 1 else b.shape[0]
    if a.shape[-1] != depth:
        return multiplied(node, expansion, left, right)  # which says what is wrong
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
            expansion,
            along(expansion, left, len(a.shape) - 1, start, stop),
            along(expansion, right, summed, start, stop),
        )
        for start, stop in _parts(node, weights, _largest(a, zeros[0]))
    ]
    return _added(expansion, terms)


def _of_images(
    node: Node, expansion: Expansion, x: Value, w: Value, zeros: tuple[Value | None, Value | None]
) -> Value:
    """Emit a convolution without zero points; the padding of the input is its zero point."""
    _check_type(node, x, w)
    images, weights = centred(expansion, x, zeros[0]), centred(expansion, w, zeros[1])
    groups, (n_out, channels, *kernel) = node.attributes["group"], w.shape
    if x.shape[1] != channels * groups:
        return convolved(node, expansion, images, weights)  # which says what is wrong
    if weights.known is not None:
        sums = np.abs(np.asarray(weights.known, np.int64)).reshape(n_out, channels, -1).sum(2).T
    else:
        sums = np.full((channels, 1), _largest(w, zeros[1]) * prod(kernel))
    apart = reshape(expansion, images, (x.shape[0], groups, channels, *x.shape[2:]))
    terms = []
    for start, stop in _parts(node, sums, _largest(x, zeros[0]), kernel):
        part = along(expansion, apart, 2, start, stop)
        part = reshape(expansion, part, (x.shape[0], groups * (stop - start), *x.shape[2:]))
        terms.append(convolved(node, expansion, part, along(expansion, weights, 1, start, stop)))
    return _added(expansion, terms)


def _by_row(expansion: Expansion, value: Value | None, x: Value) -> Value | None:
    """Emit a number per row of a matrix as a column."""
    if value is None or value.shape in ((), (1,)) or len(value.shape) == len(x.shape):
        return _one(expansion, value)
    return reshape(expansion, value, (*value.shape, 1))


def _by_channel(expansion: Expansion, value: Value | None, rank: int) -> Value | None:
    """Emit a number per output channel, shaped as weights or results of a rank need it."""
    if value is None or value.shape in ((), (1,)):
        return _one(expansion, value)
    return reshape(expansion, value, (value.shape[0], *(1,) * (rank - 1)))


def _one(expansion: Expansion, value: Value | None) -> Value | None:
    return reshape(expansion, value, ()) if value is not None and value.shape == (1,) else value


def _matmul_integer(node: Node, expansion: Expansion) -> Value:
    a, b = node.operand(0), node.operand(1)
    zeros = _by_row(expansion, node.optional(2), a), _one(expansion, node.optional(3))
    return as_type(expansion, of_matrices(node, expansion, a, b, zeros), "int32")


def _conv_integer(node: Node, expansion: Expansion) -> Value:
    x, w = node.operand(0), node.operand(1)
    zeros = (
        _one(expansion, node.optional(2)),
        _by_channel(expansion, node.optional(3), len(w.shape)),
    )
    return as_type(expansion, _of_images(node, expansion, x, w, zeros), "int32")


def requantised(
    node: Node, expansion: Expansion, total: Value, scales: Sequence[Value], zero: Value
) -> Value:
    """Emit a sum in the scale of the result: scales are those of both operands and of it."""
    a, b, y = (as_type(expansion, scale, "float32") for scale in scales)
    # Source: onnxruntime, core/providers/cpu/quantization/qlinearconv.cc, ComputeOutputScale.
    factor = binary(expansion, "divide", binary(expansion, "multiply", a, b), y)
    shares = binary(expansion, "multiply", as_type(expansion, total, "float32"), factor)
    _check_type(node, zero)
    return quantised(expansion, shares, _one(expansion, zero), zero.dtype)


def _scales(
    node: Node, expansion: Expansion, shaped: Callable[[Value], Value | None], first: Value | None
) -> list[Value]:
    """Return the scales of both operands and of the result: inputs 1, 4 and 6."""
    scales = [first, shaped(node.operand(4)), _one(expansion, node.operand(6))]
    return [scale for scale in scales if scale is not None]


def _qlinear_matmul(node: Node, expansion: Expansion) -> Value:
    a, b = node.operand(0), node.operand(3)
    zeros = _by_row(expansion, node.operand(2), a), _one(expansion, node.operand(5))
    total = of_matrices(node, expansion, a, b, zeros)
    first = _by_row(expansion, node.operand(1), a)
    scales = _scales(node, expansion, lambda scale: _one(expansion, scale), first)
    return requantised(node, expansion, total, scales, node.operand(7))


def qlinear_conv(node: Node, expansion: Expansion) -> Value:
    """Emit a convolution of quantised values."""
    x, w = node.operand(0), node.operand(3)
    rank = len(w.shape)
    zeros = _one(expansion, node.operand(2)), _by_channel(expansion, node.operand(5), rank)
    total = _of_images(node, expansion, x, w, zeros)
    bias = node.optional(8)
    if bias is not None:
        integer_total = as_type(expansion, total, "int32")
        by_channel = reshape(expansion, bias, (bias.shape[0], *(1,) * (rank - 2)))
        total = binary(expansion, "add", integer_total, by_channel)
    # A result has one dimension less than weights after its channels' one.
    scales = _scales(
        node,
        expansion,
        lambda v: _by_channel(expansion, v, rank - 1),
        _one(expansion, node.operand(1)),
    )
    return requantised(node, expansion, total, scales, node.operand(7))


def _operator(name: str, decompose: Callable[[Node, Expansion], Any]) -> Operator:
    return Operator(name=name, decompose=decompose)


RECORDS = (
    _operator("ConvInteger", _conv_integer),
    _operator("MatMulInteger", _matmul_integer),
    _operator("QLinearConv", qlinear_conv),
    _operator("QLinearMatMul", _qlinear_matmul),
)
