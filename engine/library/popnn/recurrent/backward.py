"""Backward passes of recurrent layers: the loop from the last step to the first.

The loop gives the gradients of inputs, of the first states, and of the sums before the
non-linearities. Those of weights follow from the sums: after the loop, or every few steps
within it.

Source of names and steps: graphcore/poplibs sdk-release-3.4, include/popnn/Lstm.hpp, lstmBwd,
lstmWU and lstmBwdWithWU, include/popnn/Gru.hpp, gruBwd and others, and include/popnn/Recurrent.hpp,
rnnBwdSequence.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilescope.engine.arguments import shown
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import View
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popnn.recurrent.backward_cell import OutputGradients
from tilescope.engine.library.popnn.recurrent.forward import LayerOperands
from tilescope.engine.library.popnn.recurrent.gru import GRU_UNITS, checked_gru_order
from tilescope.engine.library.popnn.recurrent.kind import gru_kind, lstm_kind, rnn_kind
from tilescope.engine.library.popnn.recurrent.lstm import LSTM_UNITS, checked_lstm_order
from tilescope.engine.library.popnn.recurrent.update import WeightGradients
from tilescope.engine.library.popnn.recurrent.walk import (
    Backward,
    BackwardPass,
    weight_gradients,
)
from tilescope.engine.library.recurrent_options import RecurrentOptions

__all__ = [
    "Backward",
    "LayerOperands",
    "OutputGradients",
    "WeightGradients",
    "gru_backward",
    "gru_weight_update",
    "lstm_backward",
    "lstm_weight_update",
    "rnn_backward",
    "rnn_weight_update",
]


@checked
def lstm_backward(  # noqa: PLR0913 # results, gradients and options of a layer
    builder: Builder,
    given: Any,
    outputs: View | None,
    kept: Any,
    gradients: Any,
    *,
    cell_order: Any = LSTM_UNITS,
    options: RecurrentOptions | None = None,
    with_inputs: bool = True,
    with_weights: bool = False,
    last_cell: View | None = None,
) -> Backward:
    """Return the gradients of an LSTM layer.

    Parameters
    ----------
    builder
        Target of the program.
    given
        `LayerOperands`: what was given to `lstm`.
    outputs
        What it returned, shape (steps, batch, outputs); None where steps are computed again.
    kept
        What it kept, by name.
    gradients
        `OutputGradients` of the outputs, of the last output and of the last cell state; at least
        one of them.
    cell_order, options
        As they were given to `lstm`.
    with_inputs
        Whether the gradients of the inputs are wanted.
    with_weights
        Whether those of weights are computed too; otherwise, `lstm_weight_update` does so.
    last_cell
        The last cell state, of a layer with peepholes whose weights' gradients are wanted.

    Raises
    ------
    BadGraph
        If shapes or types do not fit, nothing was kept, or there is no gradient.
    """
    options = options or RecurrentOptions()
    order = checked_lstm_order(cell_order)
    kind = lstm_kind(_checked_given("lstm_backward", given), order, options)
    walk = BackwardPass(builder, kind, outputs, kept, gradients, options)
    return walk.run(with_inputs=with_inputs, with_weights=with_weights, last_cell=last_cell)


@checked
def gru_backward(  # noqa: PLR0913 # as above
    builder: Builder,
    given: Any,
    outputs: View | None,
    kept: Any,
    gradients: Any,
    *,
    cell_order: Any = GRU_UNITS,
    options: RecurrentOptions | None = None,
    with_inputs: bool = True,
    with_weights: bool = False,
) -> Backward:
    """Return the gradients of a GRU layer.

    Parameters
    ----------
    builder, outputs, kept, with_inputs, with_weights
        As for `lstm_backward`.
    given
        `LayerOperands`: what was given to `gru`.
    gradients
        `OutputGradients` of the outputs and of the last output; at least one of them.
    cell_order, options
        As they were given to `gru`.

    Raises
    ------
    BadGraph
        If shapes or types do not fit, nothing was kept, or there is no gradient.
    """
    options = options or RecurrentOptions()
    order = checked_gru_order(cell_order)
    kind = gru_kind(_checked_given("gru_backward", given), order, options)
    walk = BackwardPass(builder, kind, outputs, kept, gradients, options)
    return walk.run(with_inputs=with_inputs, with_weights=with_weights)


@checked
def rnn_backward(
    builder: Builder,
    given: Any,
    outputs: View | None,
    kept: Any,
    gradients: Any,
    *,
    options: RecurrentOptions | None = None,
    with_inputs: bool = True,
    with_weights: bool = False,
) -> Backward:
    """Return the gradients of a layer of plain cells.

    Parameters
    ----------
    builder, outputs, kept, with_inputs, with_weights
        As for `lstm_backward`.
    given
        `LayerOperands`: what was given to `rnn`.
    gradients
        `OutputGradients` of the outputs and of the last output; at least one of them.
    options
        As they were given to `rnn`.

    Raises
    ------
    BadGraph
        If shapes or types do not fit, nothing was kept, or there is no gradient.
    """
    options = replace(options or RecurrentOptions(), recomputation_mode="none")
    kind = rnn_kind(_checked_given("rnn_backward", given), options)
    if outputs is None:
        raise BadGraph("rnn_backward: expected the outputs of the layer, got None")
    if "units" not in kept:
        units = outputs.reshape(outputs.shape[0], 1, *outputs.shape[1:])
        kept = {**kept, "units": units}
    walk = BackwardPass(builder, kind, outputs, kept, gradients, options)
    return walk.run(with_inputs=with_inputs, with_weights=with_weights)


@checked
def lstm_weight_update(
    builder: Builder,
    given: Any,
    outputs: View,
    backward: Any,
    *,
    cell_order: Any = LSTM_UNITS,
    options: RecurrentOptions | None = None,
    last_cell: View | None = None,
) -> WeightGradients:
    """Return the gradients of the weights of an LSTM layer.

    Parameters
    ----------
    builder, given, outputs, cell_order, options, last_cell
        As for `lstm_backward`.
    backward
        Its result.

    Raises
    ------
    BadGraph
        If shapes do not fit.
    """
    options = options or RecurrentOptions()
    order = checked_lstm_order(cell_order)
    kind = lstm_kind(_checked_given("lstm_weight_update", given), order, options)
    return weight_gradients(builder, kind, outputs, backward, options, last_cell)


@checked
def gru_weight_update(
    builder: Builder,
    given: Any,
    outputs: View,
    backward: Any,
    *,
    cell_order: Any = GRU_UNITS,
    options: RecurrentOptions | None = None,
) -> WeightGradients:
    """Return the gradients of the weights of a GRU layer.

    Parameters
    ----------
    builder, given, outputs, cell_order, options
        As for `gru_backward`.
    backward
        Its result.

    Raises
    ------
    BadGraph
        If shapes do not fit.
    """
    options = options or RecurrentOptions()
    order = checked_gru_order(cell_order)
    kind = gru_kind(_checked_given("gru_weight_update", given), order, options)
    return weight_gradients(builder, kind, outputs, backward, options)


@checked
def rnn_weight_update(
    builder: Builder,
    given: Any,
    outputs: View,
    backward: Any,
    *,
    options: RecurrentOptions | None = None,
) -> WeightGradients:
    """Return the gradients of the weights of a layer of plain cells.

    Parameters
    ----------
    builder, given, outputs, options
        As for `rnn_backward`.
    backward
        Its result.

    Raises
    ------
    BadGraph
        If shapes do not fit.
    """
    options = replace(options or RecurrentOptions(), recomputation_mode="none")
    kind = rnn_kind(_checked_given("rnn_weight_update", given), options)
    return weight_gradients(builder, kind, outputs, backward, options)


def _checked_given(name: str, given: Any) -> LayerOperands:
    """Return what a layer was given.

    Raises
    ------
    BadGraph
        If it is something else.
    """
    if not isinstance(given, LayerOperands):
        raise BadGraph(f"{name}: expected LayerOperands, got {shown(given)}")
    return given
