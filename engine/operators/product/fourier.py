"""Discrete Fourier transforms: products with matrices of sines and cosines."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Operator, Value
from tilescope.engine.operators.elementwise.elementwise import binary
from tilescope.engine.operators.movement.layout import TRANSPOSE, reshape
from tilescope.engine.operators.movement.slicing import along, joined
from tilescope.engine.operators.product.product import MATMUL

__all__ = ["RECORDS"]

#: The signal's axis is an operand from this version on, and an attribute before.
_AXIS_AS_OPERAND = 20


@cache
def _matrix(
    n: int, length: int, n_parts: int, *, inverse: bool, onesided: bool
) -> NDArray[np.float64]:
    """Return a transform of ``n`` elements of real and imaginary parts as a matrix.

    Every row is the transform of one part of one element: shape (n · n_parts, outputs · parts).
    """
    units = [np.eye(n), 1j * np.eye(n)][:n_parts]
    rows = np.stack(units, axis=1).reshape(n * n_parts, n)
    if inverse and onesided:
        return np.fft.irfft(rows, length, axis=1)
    matrix = np.fft.ifft(rows, length, axis=1) if inverse else np.fft.fft(rows, length, axis=1)
    if onesided:
        matrix = matrix[:, : length // 2 + 1]
    return np.stack([matrix.real, matrix.imag], axis=2).reshape(len(rows), -1)


def _transformed(
    expansion: Expansion, x: Value, length: int, *, inverse: bool, onesided: bool
) -> Value:
    """Emit the transform of the last but one axis; the last holds real and imaginary parts."""
    *outer, n, n_parts = x.shape
    if n_parts not in (1, 2):
        raise BadModel(
            f"{expansion.node}: {x.name!r} of shape {x.shape} has no parts as its last axis"
        )
    used = along(expansion, x, len(outer), 0, min(n, length))
    n = used.shape[-2]
    matrix = _matrix(n, length, n_parts, inverse=inverse, onesided=onesided)
    factor = expansion.constant(matrix.astype(x.dtype), "transform")
    rows = reshape(expansion, used, (int(np.prod(outer)), n * n_parts))
    out = expansion.emit(MATMUL, rows, factor, **expansion.node.hints.stated())
    out_parts = 1 if inverse and onesided else 2
    return reshape(expansion, out, (*outer, matrix.shape[1] // out_parts, out_parts))


def _dft(node: Node, expansion: Expansion) -> Value:
    x = node.operand(0)
    rank = len(x.shape)
    inverse, onesided = (bool(node.attributes.get(key, 0)) for key in ("inverse", "onesided"))
    axis = node.attributes.get("axis", 1)
    if node.version >= _AXIS_AS_OPERAND:
        length_value = node.optional(2)
        axis = -2 if length_value is None else int(node.known(2, "the axis").item())
    axis = node.axis(axis, rank)
    length = 2 * (x.shape[axis] - 1) if inverse and onesided else x.shape[axis]
    if node.optional(1) is not None:
        length = int(node.known(1, "the length").item())
    if axis == rank - 1 or length < 1:
        raise BadModel(f"{node}: axis {axis} holds the parts, or the length {length} is below 1")
    order = [d for d in range(rank) if d not in (axis, rank - 1)] + [axis, rank - 1]
    moved = expansion.emit(TRANSPOSE, x, order=tuple(order))
    out = _transformed(expansion, moved, length, inverse=inverse, onesided=onesided)
    back = tuple(order.index(d) for d in range(rank))
    return expansion.emit(TRANSPOSE, out, order=back)


def _short_time(node: Node, expansion: Expansion) -> Value:
    x, step = node.operand(0), int(node.known(1, "the step").item())
    if len(x.shape) == 2:
        x = reshape(expansion, x, (*x.shape, 1))
    window = node.optional(2)
    length = window.shape[0] if window is not None else x.shape[1]
    if node.optional(3) is not None:
        length = int(node.known(3, "the length of a frame").item())
    n_frames = 1 + (x.shape[1] - length) // step if step > 0 else 0
    if n_frames < 1:
        raise BadModel(f"{node}: no frame of {length} at steps of {step} fits {x.shape[1]} samples")
    every = joined(expansion, [_frame(expansion, x, i * step, length) for i in range(n_frames)], 1)
    if window is not None:
        every = binary(expansion, "multiply", every, reshape(expansion, window, (length, 1)))
    onesided = bool(node.attributes.get("onesided", 1))
    return _transformed(expansion, every, length, inverse=False, onesided=onesided)


def _frame(expansion: Expansion, x: Value, start: int, length: int) -> Value:
    """Emit samples of a signal as a frame: (batch, 1, samples, parts)."""
    window_values = along(expansion, x, 1, start, start + length)
    return reshape(expansion, window_values, (x.shape[0], 1, length, x.shape[2]))


RECORDS = (
    Operator(name="DFT", decompose=_dft, known_operands=(1, 2)),
    Operator(name="STFT", decompose=_short_time, known_operands=(1, 3)),
)
