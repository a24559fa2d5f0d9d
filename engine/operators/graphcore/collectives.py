"""Operators of PopART between replicas: on one replica, their operand."""

from __future__ import annotations

from math import prod

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Value
from tilescope.engine.operators.graphcore.domain import decomposed
from tilescope.engine.operators.movement.layout import reshape

__all__ = ["COLLECTIVE_ATTRIBUTES", "RECORDS"]

_GROUP = "__collectiveCommGroup"
_GROUPING = "__collectiveReplicaGrouping"
#: Attributes that say between whom values move, and what becomes of them.
#: Source: graphcore/popart, willow/include/popart/names.hpp.
COLLECTIVE_ATTRIBUTES = frozenset({_GROUP, _GROUPING, "__collectiveOperator"})

#: Kinds of groups that state their size: replicas that follow each other, or are as far apart.
#: Source: willow/include/popart/commgroup.hpp.
_SIZED = (1, 2)


def _check_one(node: Node) -> None:
    """Refuse a group of several replicas.

    Raises
    ------
    BadModel
        Names its size.
    """
    kind, size = node.attributes.get(_GROUP, (0, 1))
    if _GROUPING in node.attributes:
        _, _, size = node.attributes[_GROUPING]
    elif kind not in _SIZED:
        size = 1
    if size > 1:
        raise BadModel(
            f"{node} is between {size} replicas, which is not supported yet: run the model on one"
        )


def _all_reduce(node: Node, _: Expansion) -> Value:
    _check_one(node)
    return node.operand(0)


def _flat(node: Node, expansion: Expansion) -> Value:
    """Emit the elements in a row, as all replicas gather and scatter them."""
    _check_one(node)
    x = node.operand(0)
    return reshape(expansion, x, (prod(x.shape),))


RECORDS = (
    decomposed("AllReduce", _all_reduce),
    decomposed("ReplicatedAllGather", _flat),
    decomposed("ReplicatedAllReduce", _all_reduce),
    decomposed("ReplicatedReduceScatter", _flat),
)
