"""Variables for the operands of recurrent layers, laid out and mapped as their loops read them.

Source: graphcore/poplibs sdk-release-3.4, include/popnn/Lstm.hpp and Gru.hpp, createInput,
createWeights and createInitialState; include/popnn/Recurrent.hpp for plain cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilescope.engine.graph import Tensor, View, concat
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.free_operand import Operand, allocated_matrices, planned_matmul
from tilescope.engine.library.popnn.recurrent.gru import GRU_UNITS, checked_gru_order
from tilescope.engine.library.popnn.recurrent.loop import stacked, unit
from tilescope.engine.library.popnn.recurrent.lstm import (
    LSTM_INSIDE,
    LSTM_UNITS,
    checked_lstm_order,
)
from tilescope.engine.library.popnn.recurrent.variables import (
    RecurrentVariables,
    request_of,
    sizes_of,
)
from tilescope.engine.library.popops.slicing.sliceable import create_by_columns
from tilescope.engine.library.recurrent_options import RecurrentOptions

__all__ = [
    "create_gru_weights",
    "create_lstm_weights",
    "create_recurrent_input",
    "create_recurrent_state",
    "create_rnn_weights",
]

#: Input weights, output weights and biases.
Weights = tuple[View, View, Tensor]


@checked
def create_recurrent_input(
    builder: Builder,
    shape: Sequence[int],
    n_outputs: int,
    n_units: int,
    name: str = "input",
    *,
    dtype: Any = "float32",
    options: RecurrentOptions | None = None,
) -> Tensor:
    """Add a variable for the sequence of an `lstm`, `gru` or `rnn`, which then reads it in place.

    Parameters
    ----------
    builder
        Its graph, tiles and options.
    shape
        Shape (steps, batch, inputs).
    n_outputs, n_units
        Outputs of a cell, and its gates and candidates: 4 of an LSTM, 3 of a GRU, 1 of a plain one.
    name
        Name of the variable.
    dtype
        float16 or float32.
    options
        As for the layer.

    Returns
    -------
    Tensor
        A view of that shape.

    Raises
    ------
    BadGraph
        If a size or the type is invalid.
    """
    layer, options = sizes_of(shape, n_outputs, dtype, name), options or RecurrentOptions()
    if not options.pre_weighted:
        return create_by_columns(builder, layer.dtype, tuple(shape), 0, name)
    rows = layer.n_steps * layer.n_batch
    request = request_of(builder, options, name)
    a = Operand.of((1, rows, layer.n_inputs), layer.dtype, name)
    b = Operand.of((1, layer.n_inputs, n_units * n_outputs), layer.dtype, "the weights")
    matrices = allocated_matrices(request, a, planned_matmul(request, a, b), is_left=True)
    return matrices.reshape(*shape)


@checked
def create_recurrent_state(
    builder: Builder,
    shape: Sequence[int],
    n_outputs: int,
    name: str = "state",
    *,
    dtype: Any = "float32",
) -> Tensor:
    """Add a variable for an initial output or cell state, on the tiles that hold the state.

    Parameters
    ----------
    builder
        Its graph and tiles.
    shape
        Shape of the layer's input, (steps, batch, inputs).
    n_outputs
        Outputs of a cell.
    name
        Name of the variable.
    dtype
        float16 or float32.

    Returns
    -------
    Tensor
        Shape (batch, outputs).

    Raises
    ------
    BadGraph
        If a size or the type is invalid.
    """
    return unit(stacked(builder, sizes_of(shape, n_outputs, dtype, name), 1, name), 0)


@checked
def create_lstm_weights(
    builder: Builder,
    shape: Sequence[int],
    n_outputs: int,
    name: str = "weights",
    *,
    dtype: Any = "float32",
    cell_order: Any = LSTM_UNITS,
    options: RecurrentOptions | None = None,
) -> Weights:
    """Add variables for the weights and biases of an `lstm`, which then reads them in place.

    Parameters
    ----------
    builder
        Its graph, tiles and options.
    shape
        Shape of the layer's input, (steps, batch, inputs).
    n_outputs
        Outputs of a cell.
    name
        Name of the variables.
    dtype
        float16 or float32.
    cell_order, options
        As for `lstm`.

    Returns
    -------
    input weights, output weights, biases
        Views of shapes (4, inputs, outputs), (4, outputs, outputs) and (4, outputs).

    Raises
    ------
    BadGraph
        If a size, the type or the order is invalid.
    """
    layer = sizes_of(shape, n_outputs, dtype, name)
    order = checked_lstm_order(cell_order)
    variables = RecurrentVariables(builder, layer, options or RecurrentOptions(), name)
    inputs, outputs = variables.of_rows(len(LSTM_INSIDE))
    order_ = [LSTM_INSIDE.index(label) for label in order]
    return _units(inputs, order_), _units(outputs, order_), variables.biases((len(order_),))


@checked
def create_gru_weights(
    builder: Builder,
    shape: Sequence[int],
    n_outputs: int,
    name: str = "weights",
    *,
    dtype: Any = "float32",
    cell_order: Any = GRU_UNITS,
    reset_after: bool = False,
    options: RecurrentOptions | None = None,
) -> Weights:
    """Add variables for the weights and biases of a `gru`, which then reads them in place.

    Parameters
    ----------
    builder, shape, n_outputs, name, dtype
        As for `create_lstm_weights`.
    cell_order, reset_after, options
        As for `gru`.

    Returns
    -------
    input weights, output weights, biases
        Views of shapes (3, inputs, outputs), (3, outputs, outputs) and (3, outputs), or (3, 2,
        outputs) with `reset_after`.

    Raises
    ------
    BadGraph
        If a size, the type or the order is invalid.
    """
    layer = sizes_of(shape, n_outputs, dtype, name)
    order = checked_gru_order(cell_order)
    variables = RecurrentVariables(builder, layer, options or RecurrentOptions(), name)
    inputs = variables.matrices(layer.n_inputs, 3, "inputs")
    # Without reset_after, the candidate's weights belong to a product of its own.
    parts = [3] if reset_after else [2, 1]
    outputs = concat([variables.matrices(n_outputs, n, f"outputs{n}") for n in parts])
    order_ = [GRU_UNITS.index(label) for label in order]
    return (
        _units(inputs, order_),
        _units(outputs, order_),
        variables.biases((3, 2) if reset_after else (3,)),
    )


@checked
def create_rnn_weights(
    builder: Builder,
    shape: Sequence[int],
    n_outputs: int,
    name: str = "weights",
    *,
    dtype: Any = "float32",
    options: RecurrentOptions | None = None,
) -> Weights:
    """Add variables for the weights and biases of an `rnn`, which then reads them in place.

    Parameters
    ----------
    builder, shape, n_outputs, name, dtype
        As for `create_lstm_weights`.
    options
        As for `rnn`.

    Returns
    -------
    input weights, output weights, biases
        Views of shapes (1, inputs, outputs), (1, outputs, outputs) and (1, outputs).

    Raises
    ------
    BadGraph
        If a size or the type is invalid.
    """
    layer = sizes_of(shape, n_outputs, dtype, name)
    variables = RecurrentVariables(builder, layer, options or RecurrentOptions(), name)
    inputs, outputs = variables.of_rows(1)
    return inputs, outputs, variables.biases((1,))


def _units(weights: View, indices: Sequence[int]) -> View:
    """Return units in another order: a view."""
    return concat([weights.slice(0, i, i + 1) for i in indices])
