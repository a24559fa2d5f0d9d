"""Products, biases and limits that LSTM, GRU and RNN layers share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popops.elementwise.expression import Expression
from tilescope.engine.graph import DType, Tensor, View, concat
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popnn.non_linearity import non_linearity, non_linearity_in_place
from tilescope.engine.library.popnn.recurrent.loop import product
from tilescope.engine.library.popops.elementwise.in_place import binary_in_place
from tilescope.engine.library.popops.elementwise.map import (
    call,
    map_expression,
    map_in_place,
    operand,
)
from tilescope.engine.library.popops.elementwise.operations import in_one, row_major_copy
from tilescope.engine.library.recurrent_options import RecurrentOptions

__all__ = [
    "Rows",
    "activate_in_place",
    "activated",
    "clipped",
    "joined_weights",
    "part_of",
    "rows_of",
    "typed",
    "unit_of",
    "with_biases",
]

Weights = View | NDArray[Any]


def joined_weights(builder: Builder, parts: Sequence[Weights], axis: int) -> Weights:
    """Return weights joined along an axis: an ndarray if all are constants."""
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate([np.asarray(part) for part in parts], axis)
    views = [
        part
        if isinstance(part, View)
        else builder.constant(part.astype(np.float32), "weights", grain=2)
        for part in parts
    ]
    # Those of create_lstm_weights and create_rnn_weights are parts of one variable, in any order of
    # the units: joined by unit they are that variable again.
    units = range(views[0].shape[0])
    joined_ = concat([concat([view.slice(0, i, i + 1) for view in views], axis) for i in units])
    return joined_ if isinstance(joined_, Tensor) else row_major_copy(builder, joined_, "weights")


@dataclass(frozen=True)
class Rows:
    """What a step multiplies: its inputs and the last output together, or only the output.

    Parameters
    ----------
    sequence
        Shape (steps, batch, inputs), or (steps, batch, units × outputs) if the inputs were
        multiplied before the loop.
    weights
        Shape (units, inputs + outputs, outputs), or (units, outputs, outputs).
    options
        Options of the layer.
    """

    sequence: View
    weights: Weights
    options: RecurrentOptions

    def weigh(self, builder: Builder, x: View, output: View) -> Tensor:
        """Return the sums of a step: shape (units, batch, outputs)."""
        n_units, _, n_outputs = (int(size) for size in self.weights.shape)
        if not self.options.pre_weighted:
            return product(builder, concat([x, output], 1), self.weights, self.options, "weigh")
        out = product(builder, output, self.weights, self.options, "weighOutput")
        before = in_one(builder, x).reshape(output.shape[0], n_units, n_outputs)
        binary_in_place(builder, "add", out, before.dim_shuffle(1, 0, 2))
        return out


def rows_of(
    builder: Builder, x: View, inputs: Weights, outputs: Weights, options: RecurrentOptions
) -> Rows:
    """Return what the steps of a layer multiply.

    Parameters
    ----------
    builder
        Target of the program before the loop.
    x
        Shape (steps, batch, inputs).
    inputs, outputs
        Weights, shapes (units, inputs, outputs) and (units, outputs, outputs).
    options
        Options of the layer.
    """
    if not options.pre_weighted:
        return Rows(x, joined_weights(builder, [inputs, outputs], 1), options)
    n_steps, n_batch, n_inputs = x.shape
    flat = in_one(builder, x).reshape(n_steps * n_batch, n_inputs)
    weighed = product(builder, flat, inputs, options, "weighInputs")
    n_units, _, n_outputs = weighed.shape
    shape = (n_steps, n_batch, n_units * n_outputs)
    sequence = row_major_copy(builder, weighed.dim_shuffle(1, 0, 2), "weighedInputs")
    return Rows(sequence.reshape(*shape), outputs, options)


def with_biases(builder: Builder, units: Tensor, biases: Weights) -> None:
    """Add one bias per unit and output to (units, batch, outputs), in one compute set."""
    values = typed(builder, biases, units.dtype, "biases")
    shape = (units.shape[0], 1, units.shape[2])
    binary_in_place(builder, "add", units, in_one(builder, values).reshape(*shape))


def typed(builder: Builder, values: Weights, dtype: DType, name: str) -> View:
    """Return a tensor as it is, whose type was checked, and constants of a type."""
    if isinstance(values, View):
        return values
    return builder.constant(values.astype(np.float32), name, dtype, grain=2)


def clipped(builder: Builder, x: View, limit: float | None) -> None:
    """Limit absolute values in place; nothing without a limit."""
    if limit is not None:
        map_in_place(builder, call("clamp", operand(0), -limit, limit), [x])


def unit_of(weights: Weights, indices: Sequence[int]) -> Weights:
    """Return some units of weights, in that order."""
    if isinstance(weights, View):
        if list(indices) == list(range(weights.shape[0])):
            return weights
        return concat([weights.slice(0, i, i + 1) for i in indices])
    return np.asarray(weights[list(indices)])


def part_of(biases: Weights, index: int) -> Weights:
    """Return the biases of inputs (0) or of outputs (1): shape (units, outputs)."""
    if isinstance(biases, View):
        part = biases.slice(1, index, index + 1)
        return part.reshape(part.shape[0], part.shape[2])
    return np.asarray(biases[:, index])


def activated(builder: Builder, kind: str | Expression, x: View) -> Tensor:
    """Return a non-linearity of a tensor, by name or as an expression."""
    if isinstance(kind, Expression):
        return map_expression(builder, kind, [x])
    return non_linearity(builder, kind, x)


def activate_in_place(builder: Builder, kind: str | Expression, x: View) -> None:
    """Replace a tensor by a non-linearity of it, by name or as an expression."""
    if isinstance(kind, Expression):
        map_in_place(builder, kind, [x])
    else:
        non_linearity_in_place(builder, kind, x)
