"""What replicas of a model exchange: sums, parts and all of their values, and their numbers.

The evaluator computes one replica: all others are taken to hold the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadModel
from tilescope.engine.graph import Tensor
from tilescope.engine.ir import ENGINE_DOMAIN, Expansion, Node, Operation, Operator, Value
from tilescope.engine.library.comm_group import CommGroup
from tilescope.engine.library.gcl.cross_replica import (
    all_gather_cross_replica,
    all_reduce_in_place_cross_replica,
    reduce_scatter_cross_replica,
)
from tilescope.engine.library.popops.elementwise.operations import row_major_copy
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.movement.layout import reshape
from tilescope.engine.operators.movement.slicing import part

__all__ = ["ALL_GATHER", "ALL_REDUCE", "RECORDS", "REDUCE_SCATTER", "REPLICA_INDEX"]

Arrays = Sequence[NDArray[Any]]


def _group(lowering: Lowering, op: Operation) -> CommGroup:
    """Return the replicas that take part; 0 of them stands for all.

    Raises
    ------
    BadModel
        When the model is compiled for another number of replicas.
    """
    n_replicas = lowering.builder.graph.machine.n_replicas
    size, stride = op.attributes["size"], op.attributes.get("stride", 1)
    if size and n_replicas % (size * stride):
        raise BadModel(
            f"{op} is between {size} replicas, {stride} apart, and the machine has {n_replicas}:"
            " ask for a number of replicas that such groups divide"
        )
    return CommGroup("all", size, stride if size else 0)


#: What a function of equal values of several replicas is.
_OF_EQUAL: dict[str, Callable[[NDArray[Any], int], NDArray[Any]]] = {
    "add": lambda x, n: x * n,
    "square_add": lambda x, n: x * x * n,
    "mul": lambda x, n: x**n,
}


def _reduced(x: NDArray[Any], node: Node) -> NDArray[Any]:
    of_equal = _OF_EQUAL.get(node.attributes["operation"])
    if of_equal is None:
        return x.copy()
    return np.asarray(of_equal(x, node.attributes["size"] or 1), x.dtype)


def _lower_all_reduce(lowering: Lowering, op: Operation) -> tuple[Tensor, ...]:
    """Reduce operands in place where nothing else reads them, and copies of the others."""
    results = [
        lowering.tensor(x) if lowering.is_free(x) else lowering.copied(x) for x in op.operands
    ]
    group, operation = _group(lowering, op), op.attributes["operation"]
    all_reduce_in_place_cross_replica(lowering.builder, results, operation, group)
    return tuple(results)


def _all_reduce_gradient(
    op: Operation, expansion: Expansion, gradients: Sequence[Value | None]
) -> Sequence[Value | None]:
    """Emit the sum of the gradients of all replicas, each of which has all operands in its result.

    Raises
    ------
    BadModel
        When the function of the operands is neither their sum nor their mean.
    """
    operation = op.attributes["operation"]
    if operation not in ("add", "mean"):
        raise BadModel(f"{op} computes {operation!r} of all replicas, which has no gradient here")
    return [g if g is None else expansion.emit(ALL_REDUCE, g, **op.attributes) for g in gradients]


def _gather_gradient(
    op: Operation, expansion: Expansion, gradients: Sequence[Value | None]
) -> Sequence[Value | None]:
    """Emit the replica's own share of the gradient, as all replicas are taken to use all alike.

    Source: graphcore/popart, willow/src/op/collectives/replicatedallgather.cpp, getGradOps.
    """
    (gradient,), x = gradients, op.operand(0)
    if gradient is None:
        return [None]
    share = expansion.emit(REDUCE_SCATTER, gradient, operation="local", **op.attributes)
    return [reshape(expansion, share, x.shape)]


def _scatter_gradient(
    op: Operation, expansion: Expansion, gradients: Sequence[Value | None]
) -> Sequence[Value | None]:
    """Emit the gradients of all shares; of the replica's own values only.

    Source: graphcore/popart, willow/src/op/collectives/replicatedreducescatter.cpp, getGradOps.

    Raises
    ------
    BadModel
        When shares are of what replicas hold together.
    """
    (gradient,), x = gradients, op.operand(0)
    if op.attributes["operation"] != "local":
        raise BadModel(f"{op} has a gradient for the operator local only")
    if gradient is None:
        return [None]
    group = {name: n for name, n in op.attributes.items() if name != "operation"}
    every = expansion.emit(ALL_GATHER, gradient, **group)
    n = prod(x.shape)
    flat = part(expansion, reshape(expansion, every, (prod(every.shape),)), (0,), (n,))
    return [reshape(expansion, flat, x.shape)]


def _n_share(node: Node) -> int:
    return -(-prod(node.operand(0).shape) // (node.attributes["size"] or 1))


def _evaluate_scatter(node: Node, arrays: Arrays) -> list[NDArray[Any]]:
    n, size = _n_share(node), node.attributes["size"] or 1
    x = arrays[0].reshape(-1)
    whole = x if node.attributes["operation"] == "local" else _reduced(x, node)
    padded = np.zeros(n * size, x.dtype)
    padded[: x.size] = whole
    return [padded[:n]]


def _lower_scatter(lowering: Lowering, op: Operation) -> Tensor:
    group, x = _group(lowering, op), lowering.tensor(op.operand(0))
    operation = op.attributes["operation"]
    return reduce_scatter_cross_replica(lowering.builder, x, operation, group)


def _gathered(node: Node) -> tuple[int, ...]:
    return (node.attributes["size"] or 1, *node.operand(0).shape)


def _lower_gather(lowering: Lowering, op: Operation) -> Tensor:
    group, x = _group(lowering, op), lowering.tensor(op.operand(0))
    return all_gather_cross_replica(lowering.builder, x, group)


def _lower_index(lowering: Lowering, op: Operation) -> Tensor:
    builder = lowering.builder
    index = builder.graph.add_replica_index(op.output.name, 1, builder.debug)
    builder.spread(index)
    return row_major_copy(builder, index.reshape(), "replica")


#: The sums of values over replicas, or another function: ``operation`` is a key of the library's
#: `OPERATORS`, ``size`` and ``stride`` the members of a group and their distance; 0 for all.
ALL_REDUCE = Operator(
    name="all_reduce",
    domain=ENGINE_DOMAIN,
    infer=lambda node: [(x.shape, x.dtype) for x in node.operands],
    evaluate=lambda node, arrays: [_reduced(array, node) for array in arrays],
    lower=_lower_all_reduce,
    gradient=_all_reduce_gradient,
)

#: A replica's share of that: as many elements as all have, over the size of the group.
REDUCE_SCATTER = Operator(
    name="reduce_scatter",
    domain=ENGINE_DOMAIN,
    infer=lambda node: [((_n_share(node),), node.operand(0).dtype)],
    evaluate=_evaluate_scatter,
    lower=_lower_scatter,
    gradient=_scatter_gradient,
    differs=True,
)

#: The values of all replicas of a group, along a new first axis.
ALL_GATHER = Operator(
    name="all_gather",
    domain=ENGINE_DOMAIN,
    infer=lambda node: [(_gathered(node), node.operand(0).dtype)],
    evaluate=lambda node, arrays: [np.broadcast_to(arrays[0], _gathered(node)).copy()],
    lower=_lower_gather,
    gradient=_gather_gradient,
)

#: The number of the replica, a scalar.
REPLICA_INDEX = Operator(
    name="replica_index",
    domain=ENGINE_DOMAIN,
    infer=lambda _: [((), "int32")],
    evaluate=lambda _, __: [np.zeros((), np.int32)],
    lower=_lower_index,
    differs=True,
)

RECORDS = (ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER, REPLICA_INDEX)
