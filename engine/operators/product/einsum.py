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
    problem = BadModel(
        f"{node}: equation {equation!r} does not fit its {len(node.operands)} operands"
    )
    if len(terms) != len(node.operands):
        raise problem
    free = [letter for letter in string.ascii_letters if letter not in equation]
    n_spread = max(
        (
            len(v.shape) - len(t.replace("...", ""))
            for t, v in zip(terms, node.operands, strict=True)
        ),
        default=0,
    )
    if n_spread < 0 or n_spread > len(free):
        raise problem
    spread = "".join(free[:n_spread])
    terms_ = []
    for term, value in zip(terms, node.operands, strict=True):
        n = len(value.shape) - len(term.replace("...", ""))
        if n < 0 or (n and "..." not in term):
            raise problem
        terms_.append(term.replace("...", spread[n_spread - n :]))
    if not arrow:
        every = "".join(terms_)
        once = sorted(c for c in set(every) if every.count(c) == 1 and c not in spread)
        return terms_, spread + "".join(once)
    return terms_, right.replace("...", spread)


def _diagonal(node: Node, expansion: Expansion, operand: Labelled) -> Labelled:
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
            other_dims = [d for d in range(len(labels)) if d not in (first, second)]
            turned = expansion.emit(TRANSPOSE, value, order=(*other_dims, first, second))
            shape = tuple(value.shape[d] for d in other_dims)
            rows = reshape(expansion, turned, (*shape, n * n))
            labels = "".join(labels[d] for d in other_dims) + label
            (value,) = taken(expansion, rows, len(shape), range(0, n * n, n + 1))
    return value, labels


def _ordered(expansion: Expansion, operand: Labelled, labels_: str) -> Value:
    """Emit an operand with its dimensions in another order."""
    value, labels = operand
    if labels == labels_:
        return value
    return expansion.emit(TRANSPOSE, value, order=tuple(labels.index(c) for c in labels_))


def _summed(expansion: Expansion, operand: Labelled, kept_labels: str) -> Labelled:
    """Emit the sum over dimensions that nothing else has."""
    value, labels = operand
    axes = [d for d, label in enumerate(labels) if label not in kept_labels]
    if not axes:
        return operand
    total = reduced(expansion, "sum", value, axes)
    shape = tuple(size for d, size in enumerate(value.shape) if d not in axes)
    return reshape(expansion, total, shape), "".join(c for c in labels if c in kept_labels)


def _joined(expansion: Expansion, a: Labelled, b: Labelled, kept_labels: str) -> Labelled:
    """Emit the product of two operands, summed over what only they have."""
    shared = [c for c in a[1] if c in b[1]]
    batch = "".join(c for c in shared if c in kept_labels)
    inner = "".join(c for c in shared if c not in kept_labels)
    rows = "".join(c for c in a[1] if c not in shared)
    columns = "".join(c for c in b[1] if c not in shared)
    sizes = dict(zip(b[1], b[0].shape, strict=True)) | dict(zip(a[1], a[0].shape, strict=True))

    def n(labels: Sequence[str]) -> int:
        return prod(sizes[c] for c in labels)

    left, right = (
        _ordered(expansion, a, batch + rows + inner),
        _ordered(expansion, b, batch + inner + columns),
    )
    out_shape = tuple(sizes[c] for c in batch + rows + columns)
    if not inner and not (rows and columns):
        # A dimension that one operand lacks has one element there, so that both broadcast.
        lead = [sizes[c] for c in batch]
        left = reshape(expansion, left, (*lead, *(sizes[c] for c in rows), *(1 for _ in columns)))
        right = reshape(expansion, right, (*lead, *(1 for _ in rows), *(sizes[c] for c in columns)))
        product = binary(expansion, "multiply", left, right)
        return reshape(expansion, product, out_shape), batch + rows + columns
    product = expansion.emit(
        MATMUL,
        reshape(expansion, left, (n(batch), n(rows), n(inner))),
        reshape(expansion, right, (n(batch), n(inner), n(columns))),
        **expansion.node.hints.stated(),
    )
    return reshape(expansion, product, out_shape), batch + rows + columns


def _broadcast(expansion: Expansion, operands: list[Labelled]) -> list[Labelled]:
    """Return operands without the dimensions of one element that others have more of."""
    sizes: dict[str, set[int]] = {}
    for value, labels in operands:
        for label, size in zip(labels, value.shape, strict=True):
            sizes.setdefault(label, set()).add(size)
    operands_ = []
    for value, labels in operands:
        kept_dims = [d for d, c in enumerate(labels) if value.shape[d] != 1 or len(sizes[c]) == 1]
        narrow = reshape(expansion, value, tuple(value.shape[d] for d in kept_dims))
        operands_.append((narrow, "".join(labels[d] for d in kept_dims)))
    return operands_


def _einsum(node: Node, expansion: Expansion) -> Value:
    labels, out = _labels(node)
    labelled = zip(node.operands, labels, strict=True)
    operands = _broadcast(expansion, [_diagonal(node, expansion, operand) for operand in labelled])
    while len(operands) > 1:
        a, b, *rest = operands
        kept_labels = out + "".join(label for _, label in rest)
        a, b = _summed(expansion, a, kept_labels + b[1]), _summed(expansion, b, kept_labels + a[1])
        operands = [_joined(expansion, a, b, kept_labels), *rest]
    (only,) = operands
    only = _summed(expansion, only, out)
    if sorted(only[1]) != sorted(out):
        raise BadModel(f"{node}: the result {out!r} names a dimension that no operand has")
    return _ordered(expansion, only, out)


RECORDS = (Operator(name="Einsum", decompose=_einsum),)
