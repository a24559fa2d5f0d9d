"""Quantisation in training: what is quantised and widened again has the gradient of what it was."""

from __future__ import annotations

from collections.abc import Sequence

from tilescope.engine.graph import Tensor
from tilescope.engine.ir import ENGINE_DOMAIN, Expansion, Operation, Operator, Value
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.elementwise.mapped import call, mapped, operand
from tilescope.engine.operators.movement.layout import full
from tilescope.engine.operators.parts import broadcast

__all__ = ["RECORDS", "STRAIGHT_THROUGH"]

#: Half a step of the grid, and what rounding adds to it.
_HALF = 0.5 + 1e-6


def _gradient(
    op: Operation, expansion: Expansion, gradients: Sequence[Value | None]
) -> Sequence[Value | None]:
    """Return the gradient of what was quantised: 0 where it was beyond the grid."""
    widened, x, scale = op.operands
    gradient = full(expansion, gradients[0], op.output.shape)
    distance = call("absolute", operand(1) - operand(2))
    is_inside = call("less_equal", distance, operand(3) * _HALF)
    passed = call("select", operand(0), 0.0, is_inside)
    return [None, mapped(expansion, passed, gradient, x, widened, scale), None]


def _lower(lowering: Lowering, op: Operation) -> Tensor:
    return lowering.tensor(op.operand(0))


#: The first operand, with the gradient of the second, whose quantised form it is; the third is the
#: step of the grid. Source: Y. Bengio and others, Estimating or Propagating Gradients Through
#: Stochastic Neurons, 2013.
STRAIGHT_THROUGH = Operator(
    name="straight_through",
    domain=ENGINE_DOMAIN,
    infer=lambda node: [(node.operand(0).shape, node.operand(0).dtype)],
    evaluate=lambda _, arrays: [arrays[0]],
    lower=_lower,
    gradient=_gradient,
    parts=broadcast,
)

RECORDS = (STRAIGHT_THROUGH,)
