"""Elements along an axis at positions known at compile time: copies that need no indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph import Tensor, View, concat
from tilescope.engine.ir import ENGINE_DOMAIN, Expansion, Node, Operation, Operator, Value
from tilescope.engine.library.popops.elementwise.operations import in_one, row_major_copy
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.movement.layout import full
from tilescope.engine.operators.movement.slicing import UNSLICE, along

__all__ = ["RECORDS", "TAKE", "put_back", "taken"]


def _type(node: Node) -> list[tuple[tuple[int, ...], str]]:
    x, axis = node.operand(0), node.attributes["axis"]
    n = len(node.attributes["positions"])
    return [((*x.shape[:axis], n, *x.shape[axis + 1 :]), x.dtype)]


def _array(node: Node, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    return [np.take(arrays[0], node.attributes["positions"], axis=node.attributes["axis"])]


def _runs(positions: NDArray[np.int64]) -> list[tuple[int, int, int]]:
    """Return runs of equal steps: first position, step, count."""
    runs = []
    start = 0
    while start < positions.size:
        stop = start + 1
        if stop < positions.size:
            step = positions[stop] - positions[start]
            while stop < positions.size and positions[stop] - positions[stop - 1] == step:
                stop += 1
        else:
            step = np.int64(1)
        runs.append((int(positions[start]), int(step), stop - start))
        start = stop
    return runs


def _blocks(positions: NDArray[np.int64]) -> tuple[int, NDArray[np.int64]]:
    """Return how often every position is repeated in a row, and the positions once."""
    change = np.flatnonzero(np.diff(positions)) + 1
    edges = np.concatenate([[0], change, [positions.size]])
    repeats = int(np.gcd.reduce(np.diff(edges)))
    return repeats, positions[::repeats]


def _lower(lowering: Lowering, op: Operation) -> Tensor:
    axis = op.attributes["axis"]
    x = lowering.tensor(op.operand(0))
    repeats, positions = _blocks(np.asarray(op.attributes["positions"], np.int64))
    if any(len(dim) > 1 for dim in x.dims[axis : axis + 1]):
        x = row_major_copy(lowering.builder, x, "take")
    parts: list[View] = []
    for first, step, n in _runs(positions):
        last = first + step * (n - 1)
        run = x.slice(axis, min(first, last), max(first, last) + 1)
        if step < 0:
            run = run.reverse(axis)
        if abs(step) > 1:
            run = run.sub_sample(axis, abs(step))
        if step == 0:
            run = run.broadcast_to((*x.shape[:axis], n, *x.shape[axis + 1 :]))
        parts.append(run)
    once = in_one(lowering.builder, concat(parts, axis), "take") if len(parts) > 1 else parts[0]
    assert isinstance(once, Tensor)
    if repeats == 1:
        return once
    shape = once.shape
    apart = once.reshape(*shape[: axis + 1], 1, *shape[axis + 1 :])
    wide = apart.broadcast_to((*shape[: axis + 1], repeats, *shape[axis + 1 :]))
    return row_major_copy(lowering.builder, wide, "take").reshape(*op.output.shape)


def _gradient(
    op: Operation, expansion: Expansion, gradients: Sequence[Value | None]
) -> Sequence[Value | None]:
    x, axis = op.operand(0), op.attributes["axis"]
    gradient = full(expansion, gradients[0], op.output.shape)
    return [put_back(expansion, gradient, x.shape[axis], axis, op.attributes["positions"])]


def put_back(
    expansion: Expansion, x: Value, size: int, axis: int, positions: Sequence[int]
) -> Value:
    """Emit zeros of a size along an axis, and add to them the elements by their positions.

    Runs of positions are slices.
    """
    parts, slices, first = [], [], 0
    shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
    everything = [slice(0, size, 1) for size in shape]
    for start, step, n in _runs(np.asarray(positions, np.int64)):
        # A position that is repeated is one slice a time.
        for k in range(n if step == 0 else 1):
            n_here = 1 if step == 0 else n
            begin = first + k
            parts.append(along(expansion, x, axis, begin, begin + n_here))
            stop = start + (step or 1) * n_here
            places = slice(start, stop if stop >= 0 else None, step or 1)
            slices.append(tuple([*everything[:axis], places, *everything[axis + 1 :]]))
        first += n
    return expansion.emit(UNSLICE, *parts, shape=shape, slices=tuple(slices))


TAKE = Operator(
    name="take",
    domain=ENGINE_DOMAIN,
    infer=_type,
    evaluate=_array,
    lower=_lower,
    gradient=_gradient,
)


def taken(expansion: Expansion, x: Value, axis: int, positions: Sequence[int]) -> Value:
    """Emit the elements at some positions along an axis, unless they are all in order."""
    if list(positions) == list(range(x.shape[axis])):
        return x
    return expansion.emit(TAKE, x, axis=axis, positions=tuple(int(p) for p in positions))


RECORDS = (TAKE,)
