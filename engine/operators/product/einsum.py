"""Einsum: sums, products of matrices and transposes."""

from __future__ import annotations

import string
from collections.abc import Sequence
from math import prod

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Operator, Value
from tilescope.engine.operators.elementwise.elementwise import binary
from tilescope.engine.operators.movement.layout import TRANSPOSE, reshape
from tilescope.engine.operators.movement.take import taken
from tilescope.engine.operators.product.product import MATMUL
from tilescope.engine.operators.reduction import reduced

__all__ = ["RECORDS"]

#: A value and the label of each of its dimensions.
Labelled = tuple[Value, str]


def _labels(node: Node) -> tuple[list[str], str]:
    """Return the labels of the operands and of the result; dimensions of an ellipsis get letters.

    Raises
    ------
    BadModel
        When the equation does not fit the operands.
    """
    equation = str(node.attributes["equation"]).replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    wrong = BadModel(
        f"{node}: equation {equation!r} does not fit its {len(node.operands)} operands"
    )
    if len(terms) != len(node.operands):
        raise wrong
    free = [letter for letter in string.ascii_letters if letter not in equation]
    n_spread = max(
        (
            len(v.shape) - len(t.replace("...", ""))
            for t, v in zip(terms, node.operands, strict=True)
        ),
        default=0,
    )
    if n_spread < 0 or n_spread > len(free):
        raise wrong
    spread = "".join(free[:n_spread])
    found = []
    for term, value in zip(terms, node.operands, strict=True):
        n = len(value.shape) - len(term.replace("...", ""))
        if n < 0 or (n and "..." not in term):
            raise wrong
        found.append(term.replace("...", spread[n_spread - n :]))
    if not arrow:
        every = "".join(found)
        once = sorted(c for c in set(every) if every.count(c) == 1 and c not in spread)
        return found, spread + "".join(once)
    return found, right.replace("...", spread)


def _diagonal(node: Node, into: Expansion, operand: Labelled) -> Labelled:
    """Emit an operand whose repeated labels are one dimension: that of the diagonal.

    Raises
    ------
    BadModel
        When dimensions of one label differ.
    """
    value, labels = operand
    for label in sorted({c for c in labels if labels.count(c) > 1}):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            n = value.shape[first]
            if value.shape[second] != n:
                raise BadModel(f"{node}: dimensions {label!r} of {value.name!r} differ")
            others = [d for d in range(len(labels)) if d not in (first, second)]
            turned = into.emit(TRANSPOSE, value, order=(*others, first, second))
            shape = tuple(value.shape[d] for d in others)
            rows = reshape(into, turned, (*shape, n * n))
            labels = "".join(labels[d] for d in others) + label
            value = taken(into, rows, len(shape), range(0, n * n, n + 1))
    return value, labels


def _ordered(into: Expansion, operand: Labelled, wanted: str) -> Value:
    """Emit an operand with its dimensions in another order."""
    value, labels = operand
    if labels == wanted:
        return value
    return into.emit(TRANSPOSE, value, order=tuple(labels.index(c) for c in wanted))


def _summed(into: Expansion, operand: Labelled, kept: str) -> Labelled:
    """Emit the sum over dimensions that nothing else has."""
    value, labels = operand
    axes = [d for d, label in enumerate(labels) if label not in kept]
    if not axes:
        return operand
    total = reduced(into, "sum", value, axes)
    shape = tuple(size for d, size in enumerate(value.shape) if d not in axes)
    return reshape(into, total, shape), "".join(c for c in labels if c in kept)


def _joined(into: Expansion, a: Labelled, b: Labelled, kept: str) -> Labelled:
    """Emit the product of two operands, summed over what only they have."""
    shared = [c for c in a[1] if c in b[1]]
    batch = "".join(c for c in shared if c in kept)
    inner = "".join(c for c in shared if c not in kept)
    rows = "".join(c for c in a[1] if c not in shared)
    columns = "".join(c for c in b[1] if c not in shared)
    sizes = dict(zip(b[1], b[0].shape, strict=True)) | dict(zip(a[1], a[0].shape, strict=True))

    def n(labels: Sequence[str]) -> int:
        return prod(sizes[c] for c in labels)

    left, right = (
        _ordered(into, a, batch + rows + inner),
        _ordered(into, b, batch + inner + columns),
    )
    out_shape = tuple(sizes[c] for c in batch + rows + columns)
    if not inner and not (rows and columns):
        # A dimension that one operand lacks has one element there, so that both broadcast.
        lead = [sizes[c] for c in batch]
        left = reshape(into, left, (*lead, *(sizes[c] for c in rows), *(1 for _ in columns)))
        right = reshape(into, right, (*lead, *(1 for _ in rows), *(sizes[c] for c in columns)))
        product = binary(into, "multiply", left, right)
        return reshape(into, product, out_shape), batch + rows + columns
    product = into.emit(
        MATMUL,
        reshape(into, left, (n(batch), n(rows), n(inner))),
        reshape(into, right, (n(batch), n(inner), n(columns))),
        **into.node.hints.stated(),
    )
    return reshape(into, product, out_shape), batch + rows + columns


def _broadcast(into: Expansion, operands: list[Labelled]) -> list[Labelled]:
    """Return operands without the dimensions of one element that others have more of."""
    sizes: dict[str, set[int]] = {}
    for value, labels in operands:
        for label, size in zip(labels, value.shape, strict=True):
            sizes.setdefault(label, set()).add(size)
    found = []
    for value, labels in operands:
        kept = [d for d, c in enumerate(labels) if value.shape[d] != 1 or len(sizes[c]) == 1]
        narrow = reshape(into, value, tuple(value.shape[d] for d in kept))
        found.append((narrow, "".join(labels[d] for d in kept)))
    return found


def _einsum(node: Node, into: Expansion) -> Value:
    labels, out = _labels(node)
    given = zip(node.operands, labels, strict=True)
    operands = _broadcast(into, [_diagonal(node, into, operand) for operand in given])
    while len(operands) > 1:
        a, b, *rest = operands
        kept = out + "".join(label for _, label in rest)
        a, b = _summed(into, a, kept + b[1]), _summed(into, b, kept + a[1])
        operands = [_joined(into, a, b, kept), *rest]
    (only,) = operands
    only = _summed(into, only, out)
    if sorted(only[1]) != sorted(out):
        raise BadModel(f"{node}: the result {out!r} names a dimension that no operand has")
    return _ordered(into, only, out)


RECORDS = (Operator(name="Einsum", decompose=_einsum),)
