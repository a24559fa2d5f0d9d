"""LSTM, GRU and plain cells, as far as their backward passes differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popnn.recurrent.backward_cell import (
    BackwardCell,
    gru_backward_cell,
    lstm_backward_cell,
    rnn_backward_cell,
)
from tilescope.engine.library.popnn.recurrent.forward import Cell, LayerOperands
from tilescope.engine.library.popnn.recurrent.gru import GRU_UNITS, gru_cell
from tilescope.engine.library.popnn.recurrent.kept import (
    BEFORE,
    STATES,
    gru_kept,
    lstm_kept,
    rnn_kept,
)
from tilescope.engine.library.popnn.recurrent.loop import Layer, checked_layer
from tilescope.engine.library.popnn.recurrent.lstm import LSTM_INSIDE, lstm_cell
from tilescope.engine.library.popnn.recurrent.rnn import rnn_cell
from tilescope.engine.library.recurrent_options import RecurrentOptions

__all__ = ["Kind", "gru_kind", "lstm_kind", "rnn_kind"]


@dataclass(frozen=True)
class Kind:
    """What LSTM, GRU and plain cells differ in.

    Parameters
    ----------
    name, call, update
        ``lstm``, ``gru`` or ``rnn``, and PopLibs' names of both passes.
    given
        What the layer was given.
    places
        Of the units inside, in the order of the weights.
    names
        What gradients need of a step: the number of values by name.
    of_update
        What the gradients of weights need of it.
    n_states
        States of a cell.
    forward
        Returns the cell of the forward pass on operands.
    backward
        Returns the cell of the backward pass.
    """

    name: str
    call: str
    update: str
    given: LayerOperands
    places: Sequence[int]
    names: Mapping[str, int]
    of_update: Sequence[str]
    n_states: int
    forward: Callable[[Builder, LayerOperands], Cell]
    backward: Callable[..., BackwardCell]

    @property
    def reset_after(self) -> bool:
        """Whether a GRU resets after its product, which has biases of its own."""
        return len(self.given.biases.shape) == 3

    @property
    def layer(self) -> Layer:
        """The sizes of the layer.

        Raises
        ------
        BadGraph
            If shapes or types do not fit.
        """
        given, n_units = self.given, len(self.places)
        weights = given.input_weights, given.output_weights, given.biases
        return checked_layer(f"{self.name}_backward", given.x, *weights, n_units)


def lstm_kind(given: LayerOperands, order: tuple[str, ...], options: RecurrentOptions) -> Kind:
    """Return an LSTM layer with its operands, units in an order and options."""
    has_peepholes, has_lengths = given.peepholes is not None, given.lengths is not None
    return Kind(
        "lstm", "popnn.lstmBwd", "popnn.lstmWU", given,
        [LSTM_INSIDE.index(name) for name in order],
        lstm_kept(has_peepholes=has_peepholes, has_lengths=has_lengths),
        (BEFORE, STATES) if has_peepholes else (BEFORE,), 2,
        lambda build, operands: lstm_cell(build, operands, order, options),
        lambda build, layer, gradients, **asked: lstm_backward_cell(
            build, layer, given, gradients, order, options, **asked
        ),
    )  # fmt: skip


def gru_kind(given: LayerOperands, order: tuple[str, ...], options: RecurrentOptions) -> Kind:
    """Return a GRU layer with its operands, units in an order and options."""
    reset_after = len(given.biases.shape) == 3
    call = "popnn.gruBwd" if given.attention is None else "popnn.auGruBwd"
    return Kind(
        "gru", call, "popnn.gruWU", given,
        [GRU_UNITS.index(name) for name in order],
        gru_kept(reset_after=reset_after), (STATES,) if reset_after else (STATES, "gates"), 1,
        lambda build, operands: gru_cell(build, operands, order, options),
        lambda build, layer, gradients, **asked: gru_backward_cell(
            build, layer, given, gradients, order, options, **asked
        ),
    )  # fmt: skip


def rnn_kind(given: LayerOperands, options: RecurrentOptions) -> Kind:
    """Return a layer of plain cells with its operands and options."""
    return Kind(
        "rnn", "popnn.rnnBwdSequence", "popnn.rnnParamDeltaUpdate", given, [0],
        rnn_kept(options, has_lengths=given.lengths is not None), (BEFORE,), 1,
        lambda build, operands: rnn_cell(build, operands, options),
        lambda build, layer, gradients, **asked: rnn_backward_cell(
            build, layer, given, gradients, options, **asked
        ),
    )  # fmt: skip
