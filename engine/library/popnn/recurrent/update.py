"""Gradients of the weights and of the inputs of recurrent layers: products of all steps together.

Source of names: graphcore/poplibs sdk-release-3.4, include/popnn/Lstm.hpp, lstmWU, and
include/popnn/Gru.hpp, gruWU; paramDeltaUpdate of include/popnn/Recurrent.hpp. PopLibs adds up the
products of steps in a loop; here the steps are a dimension that one product sums over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from tilescope.engine.arguments import shown
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Tensor, View, concat
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.convolution import matmul
from tilescope.engine.library.popnn.recurrent.backward import Backward
from tilescope.engine.library.popnn.recurrent.gru import GRU_UNITS, checked_gru_order
from tilescope.engine.library.popnn.recurrent.kept import BEFORE, STATES, Unit
from tilescope.engine.library.popnn.recurrent.lstm import (
    LSTM_INSIDE,
    LSTM_UNITS,
    checked_lstm_order,
)
from tilescope.engine.library.popnn.recurrent.unit import unit_of
from tilescope.engine.library.popops.elementwise.map import map_expression, operand
from tilescope.engine.library.popops.elementwise.operations import (
    in_one,
    rearranged,
    row_major_copy,
)
from tilescope.engine.library.popops.reduction.reduce import reduce
from tilescope.engine.library.recurrent_options import RecurrentOptions

__all__ = [
    "WeightGradients",
    "gru_weight_update",
    "lstm_weight_update",
    "outputs_before",
    "recurrent_input_gradient",
    "rnn_weight_update",
]


@dataclass(frozen=True)
class WeightGradients:
    """The gradients of the weights of a layer, in the order and shapes of the weights.

    Parameters
    ----------
    inputs, outputs, biases
        Shapes (units, inputs, outputs), (units, outputs, outputs), and (units, outputs) or, of a
        GRU with `reset_after`, (units, 2, outputs).
    peepholes
        Of an LSTM that has them: shape (3, outputs).
    """

    inputs: View
    outputs: View
    biases: View
    peepholes: View | None = None


@checked
def recurrent_input_gradient(
    builder: Builder,
    sums: View,
    input_weights: View | NDArray[Any],
    cell_order: Any = None,
    options: RecurrentOptions | None = None,
) -> Tensor:
    """Return the gradient of the inputs of a recurrent layer, shape (steps, batch, inputs).

    Parameters
    ----------
    builder
        Target of the program.
    sums
        `Backward.sums`.
    input_weights, cell_order, options
        As they were given to `lstm`, `gru` or `rnn`.

    Raises
    ------
    BadGraph
        If shapes do not fit.
    """
    options = options or RecurrentOptions()
    n_steps, n_units, n_batch, n_outputs = (int(size) for size in sums.shape)
    inside, order = _orders(n_units, cell_order)
    by_unit = unit_of(input_weights, [order.index(name) for name in inside])
    n_inputs = int(by_unit.shape[1])
    build = builder.inside("inputGradient", "popnn.inputGradient", {"gradient": list(sums.shape)})
    weights: Any
    if isinstance(by_unit, View):
        turned = row_major_copy(build, by_unit.dim_shuffle(0, 2, 1), "transpose")
        weights = turned.reshape(1, n_units * n_outputs, n_inputs)
    else:
        weights = by_unit.transpose(0, 2, 1).reshape(1, n_units * n_outputs, n_inputs)
    out = _product(build, _rows(build, sums), weights, options, "weighGradients")
    return rearranged(build, out, (n_steps, n_batch, n_inputs), "rearrange")


@checked
def lstm_weight_update(  # noqa: PLR0913 # what both passes left
    builder: Builder,
    x: View,
    before: View,
    kept: Any,
    backward: Any,
    last_cell: View | None = None,
    *,
    cell_order: Any = LSTM_UNITS,
    has_peepholes: bool = False,
    options: RecurrentOptions | None = None,
) -> WeightGradients:
    """Return the gradients of the weights of an LSTM layer.

    Parameters
    ----------
    builder
        Target of the program.
    x
        Its inputs, shape (steps, batch, inputs).
    before
        The output before every step; see `outputs_before`.
    kept
        What `lstm` kept.
    backward
        The result of `lstm_backward`.
    last_cell
        The last cell state, of a layer with peepholes.
    cell_order, options
        As for `lstm`.
    has_peepholes
        Whether the layer has peepholes.

    Raises
    ------
    BadGraph
        If shapes do not fit.
    """
    options = options or RecurrentOptions()
    order = checked_lstm_order(cell_order)
    build = _inside(builder, "lstmWeightUpdate", "popnn.lstmWU", x, backward)
    rows, n_units = _rows(build, backward.sums), len(LSTM_INSIDE)
    found = _gradients(build, x, backward.sums, rows, [(before, rows, n_units)], options)
    places = [LSTM_INSIDE.index(name) for name in order]
    inputs, outputs, biases = (_ordered(part, places) for part in found)
    peepholes: View | None = None
    if has_peepholes:
        if last_cell is None:
            raise BadGraph("lstm_weight_update: peepholes need the last cell state")
        gates = [name for name in order if name != "candidate"]
        by_gate = _peephole_gradients(build, kept[STATES], backward.sums, last_cell, options)
        peepholes = concat([by_gate[LSTM_INSIDE.index(name)] for name in gates])
    return WeightGradients(inputs, outputs, biases, peepholes)


@checked
def gru_weight_update(
    builder: Builder,
    x: View,
    kept: Any,
    backward: Any,
    *,
    cell_order: Any = GRU_UNITS,
    reset_after: bool = False,
    options: RecurrentOptions | None = None,
) -> WeightGradients:
    """Return the gradients of the weights of a GRU layer.

    Parameters
    ----------
    builder
        Target of the program.
    x
        Its inputs, shape (steps, batch, inputs).
    kept
        What `gru` kept.
    backward
        The result of `gru_backward`.
    cell_order, reset_after, options
        As for `gru`.

    Raises
    ------
    BadGraph
        If shapes do not fit.
    """
    options = options or RecurrentOptions()
    order = checked_gru_order(cell_order)
    build = _inside(builder, "gruWeightUpdate", "popnn.gruWU", x, backward)
    sums, state = backward.sums, kept[STATES]
    before = _of_unit(in_one(build, state), 0)
    gates = sums.slice(1, 0, 2)
    if reset_after:
        assert backward.recurrent is not None
        joined = in_one(build, concat([gates, backward.recurrent], 1))
        products = [(before, _rows(build, joined), len(GRU_UNITS))]
    else:
        reset = Unit.kept(options.recurrent_activation, 0, options)
        of_candidate = map_expression(
            build, reset.value * operand(1), [_of_unit(kept["gates"], 0), before]
        )
        candidate = _rows(build, sums.slice(1, 2, 3))
        products = [(before, _rows(build, gates), 2), (of_candidate, candidate, 1)]
    rows = _rows(build, sums)
    inputs, outputs, biases = _gradients(build, x, sums, rows, products, options)
    if reset_after:
        of_outputs = _bias_gradients(build, joined)
        biases = concat([part.reshape(3, 1, -1) for part in (biases, of_outputs)], 1)
    places = [GRU_UNITS.index(name) for name in order]
    return WeightGradients(*(_ordered(part, places) for part in (inputs, outputs, biases)))


@checked
def rnn_weight_update(
    builder: Builder,
    x: View,
    before: View,
    backward: Any,
    *,
    options: RecurrentOptions | None = None,
) -> WeightGradients:
    """Return the gradients of the weights of a layer of plain cells.

    Parameters
    ----------
    builder
        Target of the program.
    x
        Its inputs, shape (steps, batch, inputs).
    before
        The output before every step; see `outputs_before`.
    backward
        The result of `rnn_backward`.
    options
        As for `rnn`.

    Raises
    ------
    BadGraph
        If shapes do not fit.
    """
    options = options or RecurrentOptions()
    build = _inside(builder, "rnnWeightUpdate", "popnn.rnnParamDeltaUpdate", x, backward)
    sums = backward.sums
    rows = _rows(build, sums)
    return WeightGradients(*_gradients(build, x, sums, rows, [(before, rows, 1)], options))


def outputs_before(
    outputs: View, first: View, kept: Mapping[str, View], options: RecurrentOptions
) -> View:
    """Return the output before every step of an LSTM or of plain cells, (steps, batch, outputs).

    Parameters
    ----------
    outputs
        Of all steps.
    first
        Before the first one, shape (batch, outputs).
    kept
        What the forward pass kept.
    options
        Of the layer.
    """
    if BEFORE in kept:
        return _of_unit(kept[BEFORE], 0)
    n_steps = outputs.shape[0]
    initial = first.reshape(1, *first.shape)
    if options.reverse:
        return concat([outputs.slice(0, 1, n_steps), initial])
    return concat([initial, outputs.slice(0, 0, n_steps - 1)])


def _inside(builder: Builder, name: str, call: str, x: View, backward: object) -> Builder:
    """Return where an update is built.

    Raises
    ------
    BadGraph
        If it is not that of a backward pass over the inputs.
    """
    if not isinstance(backward, Backward):
        raise BadGraph(f"{name}: expected a Backward, got {shown(backward)}")
    n_steps, _, n_batch, _ = backward.sums.shape
    if tuple(x.shape[:2]) != (n_steps, n_batch):
        raise BadGraph(
            f"{name}: {x.name!r} has shape {tuple(x.shape)}: expected ({n_steps}, {n_batch},"
            " inputs)"
        )
    return builder.inside(name, call, {"input": list(x.shape)})


def _orders(n_units: int, cell_order: Any) -> tuple[Sequence[str], Sequence[str]]:
    """Return the order of units inside, and in the weights."""
    if n_units == len(LSTM_INSIDE):
        return LSTM_INSIDE, checked_lstm_order(cell_order or LSTM_UNITS)
    if n_units == len(GRU_UNITS):
        return GRU_UNITS, checked_gru_order(cell_order or GRU_UNITS)
    return ("candidate",), ("candidate",)


def _ordered(units: View, places: Sequence[int]) -> View:
    """Return units in the order of the weights."""
    if list(places) == list(range(units.shape[0])):
        return units
    return concat([units.slice(0, place, place + 1) for place in places])


def _of_unit(units: View, index: int) -> View:
    """Return one unit of all steps, (steps, batch, outputs)."""
    n_steps, _, n_batch, n_outputs = units.shape
    return units.slice(1, index, index + 1).reshape(n_steps, n_batch, n_outputs)


def _rows(builder: Builder, sums: View) -> Tensor:
    """Return (steps, units, batch, outputs) as (steps × batch, units × outputs)."""
    n_steps, n_units, n_batch, n_outputs = sums.shape
    by_row = row_major_copy(builder, sums.dim_shuffle(0, 2, 1, 3), "byRow")
    return by_row.reshape(n_steps * n_batch, n_units * n_outputs)


def _product(
    builder: Builder, a: View, b: View | NDArray[Any], options: RecurrentOptions, name: str
) -> Tensor:
    """Return (rows, inner) times (1, inner, columns)."""
    return matmul(
        builder,
        a.reshape(1, *a.shape),
        b,
        name,
        b_dtype=None if isinstance(b, View) else a.dtype,
        available_memory_proportion=options.available_memory_proportion,
        partials_type=options.partials_type,
    )


def _gradients(
    builder: Builder,
    x: View,
    sums: View,
    rows: Tensor,
    products: Sequence[tuple[View, Tensor, int]],
    options: RecurrentOptions,
) -> tuple[View, View, View]:
    """Return the gradients of input weights, output weights and biases, by unit inside.

    Parameters
    ----------
    sums, rows
        Gradients of the sums, and the same by row.
    products
        Of output weights: what was multiplied, the gradients by row, and their units.
    """
    inputs = _of_weights(builder, x, rows, int(sums.shape[1]), options)
    outputs = [_of_weights(builder, given, own, n, options) for given, own, n in products]
    biases = _bias_gradients(builder, sums)
    return inputs, concat(outputs) if len(outputs) > 1 else outputs[0], biases


def _of_weights(
    builder: Builder, given: View, rows: Tensor, n_units: int, options: RecurrentOptions
) -> Tensor:
    """Return the gradient of weights (units, inner, outputs) of (steps, batch, inner)."""
    n_steps, n_batch, inner = (int(size) for size in given.shape)
    flat = in_one(builder, given).reshape(n_steps * n_batch, inner)
    out = _product(builder, flat.dim_shuffle(1, 0), rows.reshape(1, *rows.shape), options, "update")
    n_outputs = int(rows.shape[1]) // n_units
    by_unit = rearranged(builder, out, (inner, n_units, n_outputs), "rearrange")
    return by_unit.dim_shuffle(1, 0, 2)


def _bias_gradients(builder: Builder, sums: View) -> Tensor:
    """Return the sums over steps and batch, (units, outputs)."""
    n_units, n_outputs = int(sums.shape[1]), int(sums.shape[3])
    return reduce(builder, "sum", sums, (0, 2)).reshape(n_units, n_outputs)


def _peephole_gradients(
    builder: Builder, states: View, sums: View, last: View, options: RecurrentOptions
) -> list[Tensor]:
    """Return the gradients of the peepholes of the gates inside, (1, outputs) each."""
    n_steps = int(states.shape[0])
    before = _of_unit(in_one(builder, states), 0)
    ending = last.reshape(1, *last.shape)
    if options.reverse:
        after = concat([ending, before.slice(0, 0, n_steps - 1)])
    else:
        after = concat([before.slice(0, 1, n_steps), ending])
    seen = before, before, in_one(builder, after)
    gradients = []
    for index, state in enumerate(seen):
        by_step = map_expression(builder, operand(0) * operand(1), [_of_unit(sums, index), state])
        gradients.append(reduce(builder, "sum", by_step, (0, 1)).reshape(1, -1))
    return gradients
