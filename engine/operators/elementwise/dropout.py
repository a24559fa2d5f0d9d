"""Dropout in training: its seed is an operand, so that masks differ from run to run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph import Tensor
from tilescope.engine.ir import ENGINE_DOMAIN, Expansion, Node, Operation, Operator, Value
from tilescope.engine.library.poprand import random_numbers as library
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.elementwise.elementwise import binary
from tilescope.engine.operators.movement.layout import full
from tilescope.engine.operators.random_numbers import random_bits

__all__ = ["DROPOUT", "RECORDS"]

Array = NDArray[Any]


def _dropout_array(node: Node, arrays: Sequence[Array]) -> list[Array]:
    """Return what is kept, scaled: the same as the machine, element by element."""
    x, seed = arrays
    bits = random_bits(x.size, seed.tolist(), node.attributes["modifier"])
    is_kept = bits.reshape(x.shape) < (1 - node.attributes["ratio"]) * 2.0**32
    return [np.where(is_kept, x / (1 - node.attributes["ratio"]), 0).astype(x.dtype)]


def _lower_dropout(lowering: Lowering, op: Operation) -> Tensor:
    x, seed = (lowering.tensor(value) for value in op.operands)
    keep = 1 - op.attributes["ratio"]
    return library.dropout(lowering.builder, seed, op.attributes["modifier"], x, x, keep, 1 / keep)


def _dropout_gradient(
    op: Operation, expansion: Expansion, gradients: Sequence[Value | None]
) -> Sequence[Value | None]:
    """Return the gradient through the same mask, drawn again from the same seed."""
    gradient = full(expansion, gradients[0], op.output.shape)
    return expansion.emit(DROPOUT, gradient, op.operand(1), **op.attributes), None


def _masked(node: Node, expansion: Expansion) -> Value | None:
    """Emit a product with the mask, which is drawn whole; None where the operand is known."""
    x = node.operand(0)
    if x.known is not None:
        return None
    ones = expansion.constant(np.ones(x.shape, x.dtype), "ones")
    mask = expansion.emit(DROPOUT, ones, node.operand(1), **node.attributes)
    return binary(expansion, "multiply", x, mask)


#: Zeros in a share of the places, drawn from a seed, and the rest scaled to the same mean.
DROPOUT = Operator(
    name="dropout",
    domain=ENGINE_DOMAIN,
    infer=lambda node: [(node.operand(0).shape, node.operand(0).dtype)],
    evaluate=_dropout_array,
    lower=_lower_dropout,
    gradient=_dropout_gradient,
    decompose_for_parts=_masked,
)

RECORDS = (DROPOUT,)
