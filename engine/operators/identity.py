"""Operators whose result is their operand."""

from __future__ import annotations

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Operator, Value

__all__ = ["RECORDS"]


def _identity(node: Node, _: Expansion) -> Value:
    return node.operand(0)


def _dropout(node: Node, _: Expansion) -> Value:
    if node.optional(2) is not None and node.known(2, "the training mode").any():
        raise BadModel(f"{node} is in training mode; only inference is supported")
    return node.operand(0)


RECORDS = (
    Operator(name="Dropout", decompose=_dropout),
    Operator(name="Identity", decompose=_identity),
)
