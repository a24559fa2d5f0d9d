"""Copies of values from one IPU to another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from tilescope.engine.graph import Tensor
from tilescope.engine.ir import ENGINE_DOMAIN, Expansion, Node, Operation, Operator, Value
from tilescope.engine.lower import Lowering
from tilescope.engine.program import Copy

__all__ = ["IPU_COPY", "RECORDS"]


def _evaluate(_: Node, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    return [arrays[0].copy()]


def _lower(lowering: Lowering, op: Operation) -> Tensor:
    """Copy the operand to the same tiles of the other IPU, in one exchange.

    Source: graphcore/poplibs, include/poputil/Util.hpp: copyToIpu.
    """
    builder, source = lowering.builder, lowering.tensor(op.operand(0))
    ipu = op.attributes["ipu"]
    target = builder.graph.clone(source, op.output.name, debug=builder.debug, ipu=ipu)
    builder.sequence.add(Copy(source, target, name="ipuCopy", debug=builder.debug))
    return target


def _gradient(
    op: Operation, expansion: Expansion, gradients: Sequence[Value | None]
) -> Sequence[Value | None]:
    """Return the gradient of the copy, on whichever IPU it is."""
    del op, expansion
    return [gradients[0]]


#: A value on another IPU, whose number is the attribute ``ipu``.
IPU_COPY = Operator(
    name="ipu_copy",
    domain=ENGINE_DOMAIN,
    infer=lambda node: [(node.operand(0).shape, node.operand(0).dtype)],
    evaluate=_evaluate,
    lower=_lower,
    gradient=_gradient,
)

RECORDS = (IPU_COPY,)
