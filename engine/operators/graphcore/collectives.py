"""Operators of PopART between replicas: without a group of several, their operand."""

from __future__ import annotations

from math import prod

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Value
from tilescope.engine.operators.collectives import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER
from tilescope.engine.operators.graphcore.domain import decomposed
from tilescope.engine.operators.movement.layout import reshape

__all__ = ["COLLECTIVES", "COLLECTIVE_ATTRIBUTES", "GROUP", "GROUPING", "RECORDS"]

#: Attributes that say between whom values move: the kind of a group and its size, or the number of
#: replicas, the distance of the members of a group, and its size.
#: Source: graphcore/popart, willow/include/popart/names.hpp.
GROUP, GROUPING = "__collectiveCommGroup", "__collectiveReplicaGrouping"
_OPERATOR = "__collectiveOperator"
COLLECTIVE_ATTRIBUTES = frozenset({GROUP, GROUPING, _OPERATOR})

#: Kinds of groups that state their size: replicas that follow each other, or are as far apart.
#: Source: willow/include/popart/commgroup.hpp.
_CONSECUTIVE, _ORTHOGONAL = 1, 2

#: By number in a file. Source: willow/include/popart/op/collectives/collectivesbase.hpp.
_OPERATORS = (
    *("add", "mean", "mul", "min", "max", "logical_and", "logical_or", "square_add", "local"),
)


def _group(node: Node) -> dict[str, int]:
    """Return the size of a group and the distance of its members.

    Raises
    ------
    BadModel
        When replicas are as far apart as possible, of a number that is not said.
    """
    if GROUPING in node.attributes:
        _, stride, size = node.attributes[GROUPING]
        return {"size": size, "stride": stride}
    kind, size = node.attributes.get(GROUP, (0, 1))
    if kind == _ORTHOGONAL and size > 1:
        raise BadModel(
            f"{node} is between {size} replicas that are as far apart as possible: say of how many"
            f" replicas, by the attribute {GROUPING}"
        )
    return {"size": size if kind == _CONSECUTIVE else 1, "stride": 1}


def _operation(node: Node) -> str:
    return _OPERATORS[node.attributes.get(_OPERATOR, 0)]


def _all_reduce(node: Node, expansion: Expansion) -> Value:
    group = _group(node)
    if group["size"] == 1:
        return node.operand(0)
    return expansion.emit(ALL_REDUCE, node.operand(0), operation=_operation(node), **group)


def _all_gather(node: Node, expansion: Expansion) -> Value:
    """Emit the elements of all replicas in a row."""
    group, x = _group(node), node.operand(0)
    if group["size"] > 1:
        x = expansion.emit(ALL_GATHER, x, **group)
    return reshape(expansion, x, (prod(x.shape),))


def _reduce_scatter(node: Node, expansion: Expansion) -> Value:
    group, x = _group(node), node.operand(0)
    if group["size"] > 1:
        return expansion.emit(REDUCE_SCATTER, x, operation=_operation(node), **group)
    return reshape(expansion, x, (prod(x.shape),))


RECORDS = (
    decomposed("AllReduce", _all_reduce),
    decomposed("ReplicatedAllGather", _all_gather),
    decomposed("ReplicatedAllReduce", _all_reduce),
    decomposed("ReplicatedReduceScatter", _reduce_scatter),
)

#: Their names.
COLLECTIVES = tuple(record.name for record in RECORDS)
