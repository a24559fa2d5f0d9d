"""Nodes of recurrent layers as layers of one direction, which have gradients."""

from __future__ import annotations

import numpy as np

from tilescope.engine.ir import Expansion, Node, Operation, Value
from tilescope.engine.operators.elementwise.elementwise import binary
from tilescope.engine.operators.movement.layout import TRANSPOSE, reshape
from tilescope.engine.operators.movement.slicing import along, joined
from tilescope.engine.operators.recurrent.node import UNITS, n_directions, options_of, sizes_of
from tilescope.engine.operators.recurrent.training import LAYER, emitter, stored_values

__all__ = ["for_training"]


def for_training(node: Node, expansion: Expansion) -> tuple[Value, ...]:
    """Emit a node as layers of one direction that have gradients."""
    directions = [_direction(node, expansion, d) for d in range(n_directions(node))]
    is_batch_first, results = node.attributes.get("layout", 0), []
    for index in range(node.n_outputs):
        dim = 1 if index == 0 else 0
        parts = [
            reshape(expansion, part[index], (*part[index].shape[:dim], 1, *part[index].shape[dim:]))
            for part in directions
        ]
        result = joined(expansion, parts, dim)
        if is_batch_first:
            order = (2, 0, 1, 3) if index == 0 else (1, 0, 2)
            result = expansion.emit(TRANSPOSE, result, order=order)
        results.append(result)
    return tuple(results)


def _direction(node: Node, expansion: Expansion, direction: int) -> tuple[Value, ...]:
    """Emit one direction; return its outputs and last states."""
    kind = node.operator.name
    n_steps, n_batch, n_outputs = sizes_of(node)
    n_units = len(UNITS[kind])
    own = _Operands(node, expansion, direction)
    reset_after = bool(node.attributes.get("linear_before_reset", 0)) and kind == "GRU"
    n_states = 2 if kind == "LSTM" else 1
    peepholes = own.of(7, (3, n_outputs)) if kind == "LSTM" else None
    lengths = node.optional(4)
    if lengths is not None and lengths.known is not None and (lengths.known == n_steps).all():
        lengths = None
    inputs = [
        own.sequence(node.operand(0)),
        own.weights(1, n_units, n_outputs),
        own.weights(2, n_units, n_outputs),
        own.biases(n_units, n_outputs, is_apart=reset_after),
        own.state(5, (n_batch, n_outputs)),
        own.state(6, (n_batch, n_outputs)) if n_states > 1 else None,
        peepholes,
        lengths,
    ]
    attributes = {
        "kind": kind,
        "options": options_of(node, direction),
        "reset_after": reset_after,
        "has_peepholes": peepholes is not None,
        "has_lengths": lengths is not None,
    }
    described = Operation(
        operator=LAYER,
        name=node.name,
        source=node.source,
        inputs=tuple(inputs),
        attributes=attributes,
        outputs=(),
    )
    n_results = 1 + n_states + len(stored_values(described))
    return tuple(emitter(expansion, attributes)(LAYER, inputs, n_results)[: 1 + n_states])


class _Operands:
    """The operands of a direction, as the library takes them."""

    def __init__(self, node: Node, expansion: Expansion, direction: int) -> None:
        self.node, self.expansion, self.direction = node, expansion, direction

    def of(self, index: int, shape: tuple[int, ...]) -> Value | None:
        """Return the direction's part of an operand, in a shape; None if it is left out."""
        value = self.node.optional(index)
        if value is None:
            return None
        own = along(self.expansion, value, 0, self.direction, self.direction + 1)
        return reshape(self.expansion, own, shape)

    def sequence(self, x: Value) -> Value:
        """Return the inputs with the steps first."""
        if not self.node.attributes.get("layout", 0):
            return x
        return self.expansion.emit(TRANSPOSE, x, order=(1, 0, 2))

    def weights(self, index: int, n_units: int, n_outputs: int) -> Value:
        """Return weights by unit, (units, inner, outputs)."""
        inner = self.node.operand(index).shape[-1]
        by_unit = self.of(index, (n_units, n_outputs, inner))
        assert by_unit is not None
        return self.expansion.emit(TRANSPOSE, by_unit, order=(0, 2, 1))

    def biases(self, n_units: int, n_outputs: int, *, is_apart: bool) -> Value:
        """Return the biases of inputs and outputs, apart or their sums."""
        both = self.of(3, (2, n_units, n_outputs))
        if both is None:
            shape = (n_units, 2, n_outputs) if is_apart else (n_units, n_outputs)
            zeros = np.zeros(shape, self.node.operand(0).dtype)
            return self.expansion.constant(zeros, "biases")
        if is_apart:
            return self.expansion.emit(TRANSPOSE, both, order=(1, 0, 2))
        parts = (
            reshape(self.expansion, along(self.expansion, both, 0, i, i + 1), (n_units, n_outputs))
            for i in range(2)
        )
        return binary(self.expansion, "add", *parts)

    def state(self, index: int, shape: tuple[int, int]) -> Value:
        """Return a state before the first step: zeros if it is left out."""
        value = self.node.optional(index)
        if value is None:
            zeros = np.zeros(shape, self.node.operand(0).dtype)
            return self.expansion.constant(zeros, f"state{index}")
        dim = 1 if self.node.attributes.get("layout", 0) else 0
        own = along(self.expansion, value, dim, self.direction, self.direction + 1)
        return reshape(self.expansion, own, shape)
