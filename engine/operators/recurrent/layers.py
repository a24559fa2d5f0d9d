"""LSTM, GRU and RNN: forward, reverse and in both directions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph import INT32, Tensor, View, concat
from tilescope.engine.ir import Node, Operation, Operator, Parts, Value
from tilescope.engine.library.popnn.recurrent.gru import gru
from tilescope.engine.library.popnn.recurrent.lstm import lstm
from tilescope.engine.library.popnn.recurrent.rnn import rnn
from tilescope.engine.library.popops.elementwise.operations import binary, cast, in_one
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.parts import entries
from tilescope.engine.operators.recurrent.directions import for_training
from tilescope.engine.operators.recurrent.node import (
    UNITS,
    activations_of,
    n_directions,
    options_of,
    sizes_of,
)

__all__ = ["LAYERS"]

Array = NDArray[Any]
Type = tuple[tuple[int, ...], str]


def _types(node: Node) -> list[Type]:
    """Return the types of the results."""
    steps, batch, hidden = sizes_of(node)
    activations_of(node)
    n, dtype = n_directions(node), node.operand(0).dtype
    is_batch_first = node.attributes.get("layout", 0)
    every = (batch, steps, n, hidden) if is_batch_first else (steps, n, batch, hidden)
    last = (batch, n, hidden) if is_batch_first else (n, batch, hidden)
    results = [(every, dtype), (last, dtype), (last, dtype)]
    return results if node.operator.name == "LSTM" else results[:2]


def _in_steps(value: Tensor, node: Node) -> Tensor:
    """Return a sequence or state with the batch second, whatever the layout."""
    return value.dim_shuffle(1, 0, 2) if node.attributes.get("layout", 0) else value


def _part(lowering: Lowering, value: Value, direction: int, n_units: int) -> Array | View:
    """Return the weights of a direction as (units, inner, outputs): constants stay arrays."""
    if value.known is not None:
        direction_part = np.asarray(value.known)[direction]
        by_unit: Array = direction_part.reshape(n_units, -1, direction_part.shape[-1])
        return by_unit.transpose(0, 2, 1)
    own_tensor = lowering.tensor(value).slice(0, direction, direction + 1)
    _, rows, inner = value.shape
    return own_tensor.reshape(n_units, rows // n_units, inner).dim_shuffle(0, 2, 1)


def _biases(lowering: Lowering, op: Operation, direction: int, n_units: int, hidden: int) -> Any:
    """Return the biases of inputs and outputs, (units, 2, outputs): zeros if left out."""
    value = op.optional(3)
    if value is None:
        return np.zeros((n_units, 2, hidden), np.float32)
    if value.known is not None:
        return np.asarray(value.known)[direction].reshape(2, n_units, hidden).swapaxes(0, 1)
    direction_biases = lowering.tensor(value).slice(0, direction, direction + 1)
    return direction_biases.reshape(2, n_units, hidden).dim_shuffle(1, 0, 2)


def _peepholes(
    lowering: Lowering, op: Operation, direction: int, hidden: int
) -> Array | View | None:
    """Return the weights of the cell state in the gates, (3, outputs); None if left out."""
    value = op.optional(7)
    if value is None:
        return None
    if value.known is not None:
        known: Array = np.asarray(value.known)[direction].reshape(3, hidden)
        return known
    return lowering.tensor(value).slice(0, direction, direction + 1).reshape(3, hidden)


def _summed(lowering: Lowering, biases: Any) -> Any:
    """Return the sum of both biases, (units, outputs)."""
    if isinstance(biases, np.ndarray):
        return biases.sum(axis=1)
    n_units, _, hidden = biases.shape
    parts = (biases.slice(1, i, i + 1).reshape(n_units, hidden) for i in range(2))
    return binary(lowering.builder, "add", *parts)


def _direction(
    lowering: Lowering, op: Operation, direction: int, lengths: View | None
) -> tuple[Tensor, ...]:
    """Add one direction, and return its outputs, last output and, of an LSTM, last cell."""
    name = op.operator.name
    _, batch, hidden = sizes_of(op)
    n_units = len(UNITS[name])
    x = _in_steps(lowering.tensor(op.operand(0)), op)
    weights, recurrent = (_part(lowering, op.operand(i), direction, n_units) for i in (1, 2))
    biases = _biases(lowering, op, direction, n_units, hidden)
    options = options_of(op, direction)
    states = []
    for index in (5, 6)[: 2 if name == "LSTM" else 1]:
        value = op.optional(index)
        state = None if value is None else _in_steps(lowering.tensor(value), op)
        if state is not None:
            state = state.slice(0, direction, direction + 1).reshape(batch, hidden)
        states.append(state)
    common: Any = {"lengths": lengths, "options": options}
    if name == "RNN":
        return rnn(
            lowering.builder, x, weights, recurrent, _summed(lowering, biases), *states, **common
        )
    if name == "LSTM":
        summed = _summed(lowering, biases)
        common |= {
            "cell_order": UNITS[name],
            "peepholes": _peepholes(lowering, op, direction, hidden),
        }
        return lstm(lowering.builder, x, weights, recurrent, summed, *states, **common)
    after = bool(op.attributes["linear_before_reset"])
    return gru(
        lowering.builder,
        x,
        weights,
        recurrent,
        biases if after else _summed(lowering, biases),
        *states,
        cell_order=UNITS[name],
        reset_after=after,
        **common,
    )


def _lengths(lowering: Lowering, op: Operation) -> View | None:
    """Return the lengths of the sequences; None if all have all steps."""
    value = op.optional(4)
    if value is None or (value.known is not None and (value.known == sizes_of(op)[0]).all()):
        return None
    tensor = lowering.tensor(value)
    return tensor if tensor.dtype == INT32 else cast(lowering.builder, tensor, INT32)


def _lower(lowering: Lowering, op: Operation) -> tuple[Tensor, ...]:
    """Add every direction and join the results."""
    lengths = _lengths(lowering, op)
    directions = [_direction(lowering, op, d, lengths) for d in range(n_directions(op))]
    results = []
    for index, value in enumerate(op.outputs):
        if value is None:
            continue
        # Outputs are (steps, batch, outputs), states (batch, outputs): add the direction.
        dim = 1 if index == 0 else 0
        parts = [outputs[index] for outputs in directions]
        apart = [p.reshape(*p.shape[:dim], 1, *p.shape[dim:]) for p in parts]
        joined: View = concat(apart, dim) if len(apart) > 1 else apart[0]
        if op.attributes.get("layout", 0):
            joined = joined.dim_shuffle(*((2, 0, 1, 3) if index == 0 else (1, 0, 2)))
        results.append(in_one(lowering.builder, joined, "join"))
    return tuple(results)


def _parts(node: Node, axes: Mapping[int, int], _: int) -> Parts | None:
    """Return the parts of sequences, which have lengths and first states of their own."""
    is_batch_first = bool(node.attributes.get("layout", 0))
    sequence, state, every = (0, 0, 0) if is_batch_first else (1, 1, 2)
    operands = {0: sequence, 4: 0, 5: state, 6: state}
    return entries(node, axes, operands, (every, state, state))


LAYERS = tuple(
    Operator(
        name=name, infer=_types, lower=_lower, decompose_for_training=for_training, parts=_parts
    )
    for name in sorted(UNITS)
)
