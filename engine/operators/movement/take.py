"""Elements along an axis at positions known at compile time: copies that need no indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph import Tensor, View, concat
from tilescope.engine.ir import ENGINE_DOMAIN, Expansion, Node, Operation, Operator, Parts, Value
from tilescope.engine.library.popops.elementwise.operations import (
    blocked_copies,
    blocked_copy,
    row_major_copy,
)
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.movement.layout import full
from tilescope.engine.operators.movement.slicing import UNSLICE, along
from tilescope.engine.operators.parts import along_others

__all__ = ["RECORDS", "TAKE", "put_back", "taken"]

#: Sequences of positions that may alternate; a resized axis has as many as its factor's numerator.
_MOST_SEQUENCES = 64


def _type(node: Node) -> list[tuple[tuple[int, ...], str]]:
    x, axis = node.operand(0), node.attributes["axis"]
    counts = [len(positions) for positions in node.attributes["positions"]]
    return [((*x.shape[:axis], n, *x.shape[axis + 1 :]), x.dtype) for n in counts]


def _array(node: Node, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    axis = node.attributes["axis"]
    return [np.take(arrays[0], positions, axis) for positions in node.attributes["positions"]]


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


def _n_runs(positions: NDArray[np.int64], n_sequences: int) -> int:
    """Return how many runs a number of interleaved sequences of positions have at most."""
    rows = positions.reshape(-1, n_sequences)
    return n_sequences + int(np.count_nonzero(np.diff(rows, n=2, axis=0)))


def _interleaved(positions: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return sequences of positions that alternate, with few runs in all.

    A resized axis reads positions 0 0 1 1 2 2 or 0 1 1 2 2 3: two sequences of one run.
    """
    n = positions.size
    counts = [k for k in range(1, min(n // 3, _MOST_SEQUENCES) + 1) if n % k == 0] or [1]
    n_runs = [_n_runs(positions, k) for k in counts]
    best = int(np.argmin(n_runs))
    k = counts[best] if 2 * n_runs[best] <= n_runs[0] else 1
    return [positions[first::k] for first in range(k)]


def _along(x: Tensor, axis: int, positions: NDArray[np.int64]) -> View:
    """Return the elements at some positions along an axis as a view."""
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
    return concat(parts, axis)


def _at(lowering: Lowering, x: Tensor, axis: int, where: Sequence[int]) -> tuple[View, bool]:
    """Return the elements at some positions, and whether they have to be copied.

    The view has a dimension more after the axis where positions repeat or alternate.
    """
    repeats, positions = _blocks(np.asarray(where, np.int64))
    sequences = _interleaved(positions)
    apart = x.reshape(*x.shape[: axis + 1], 1, *x.shape[axis + 1 :])
    if len(sequences) > 1:
        once = concat([_along(apart, axis, sequence) for sequence in sequences], axis + 1)
    else:
        once = _along(x, axis, positions)
    if repeats == 1:
        return once, not isinstance(once, Tensor)
    if not isinstance(once, Tensor):
        once = blocked_copy(lowering.builder, once, "take")
    shape = (*x.shape[:axis], positions.size, 1, *x.shape[axis + 1 :])
    wide = (*shape[: axis + 1], repeats, *shape[axis + 2 :])
    return once.reshape(*shape).broadcast_to(wide), True


def _lower(lowering: Lowering, op: Operation) -> tuple[View, ...]:
    axis = op.attributes["axis"]
    x = lowering.tensor(op.operand(0))
    if any(len(dim) > 1 for dim in x.dims[axis : axis + 1]):
        x = row_major_copy(lowering.builder, x, "take")
    views = [_at(lowering, x, axis, where) for where in op.attributes["positions"]]
    moved = [view for view, is_moved in views if is_moved]
    copies = iter(blocked_copies(lowering.builder, moved, "take"))
    results = zip(op.results, views, strict=True)
    return tuple(
        (next(copies) if is_moved else view).reshape(*value.shape)
        for value, (view, is_moved) in results
    )


def _gradient(
    op: Operation, expansion: Expansion, gradients: Sequence[Value | None]
) -> Sequence[Value | None]:
    x, axis = op.operand(0), op.attributes["axis"]
    given = [
        (full(expansion, gradient, value.shape), where)
        for where, value, gradient in zip(
            op.attributes["positions"], op.outputs, gradients, strict=True
        )
        if value is not None and gradient is not None
    ]
    return [put_back(expansion, given, x.shape[axis], axis)]


def put_back(
    expansion: Expansion, given: Sequence[tuple[Value, Sequence[int]]], size: int, axis: int
) -> Value:
    """Emit zeros of a size along an axis, and add to them elements by their positions.

    Runs of positions are slices.
    """
    parts, slices = [], []
    first_given = given[0][0].shape
    shape = (*first_given[:axis], size, *first_given[axis + 1 :])
    everything = [slice(0, n, 1) for n in shape]
    for x, positions in given:
        first = 0
        for start, step, n in _runs(np.asarray(positions, np.int64)):
            # A position that is repeated is one slice a time.
            for k in range(n if step == 0 else 1):
                n_here = 1 if step == 0 else n
                begin = first + k
                parts.append(along(expansion, x, axis, begin, begin + n_here))
                stop = start + (step or 1) * n_here
                places = slice(start, stop if stop >= 0 else None, step or 1)
                slices.append((*everything[:axis], places, *everything[axis + 1 :]))
            first += n
    return expansion.emit(UNSLICE, *parts, shape=shape, slices=tuple(slices))


def _take_parts(node: Node, axes: Mapping[int, int], n_parts: int) -> Parts | None:
    n_results = len(node.attributes["positions"])
    return along_others(lambda taken: [taken.attributes["axis"]], n_results)(node, axes, n_parts)


TAKE = Operator(
    name="take",
    domain=ENGINE_DOMAIN,
    infer=_type,
    evaluate=_array,
    lower=_lower,
    gradient=_gradient,
    parts=_take_parts,
)


def taken(expansion: Expansion, x: Value, axis: int, *several: Sequence[int]) -> tuple[Value, ...]:
    """Emit the elements at some positions along an axis, unless they are all in order.

    Those of several sequences of positions are copied together, so that what they share moves once.
    """
    every = list(range(x.shape[axis]))
    moved = tuple(tuple(map(int, positions)) for positions in several if list(positions) != every)
    values = iter(
        expansion.emit_all(TAKE, len(moved), x, axis=axis, positions=moved) if moved else ()
    )
    return tuple(x if list(positions) == every else next(values) for positions in several)


RECORDS = (TAKE,)
