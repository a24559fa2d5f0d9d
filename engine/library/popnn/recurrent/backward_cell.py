"""Backward steps of LSTM, GRU and plain cells.

A step takes what the forward pass kept of it and the gradients of its results; it gives those of
the sums before the non-linearities, of the inputs, and of the states before it.
Source of the steps: graphcore/poplibs sdk-release-3.4, lib/popnn/Lstm.cpp, backwardStepImpl, and
lib/popnn/Gru.cpp: one product gives the gradients of inputs and output together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tilescope.engine.graph import Tensor, View, concat
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popnn.recurrent.cell_operands import CellOperands
from tilescope.engine.library.popnn.recurrent.forward import LayerOperands, Weights
from tilescope.engine.library.popnn.recurrent.gru import GRU_UNITS
from tilescope.engine.library.popnn.recurrent.kept import STATES, Unit, function_of, is_by_value
from tilescope.engine.library.popnn.recurrent.loop import Keep, Layer, initial, product, unit
from tilescope.engine.library.popnn.recurrent.lstm import LSTM_INSIDE
from tilescope.engine.library.popnn.recurrent.unit import typed, unit_of
from tilescope.engine.library.popnn.recurrent.variables import RecurrentVariables
from tilescope.engine.library.popops.elementwise.fill import fill
from tilescope.engine.library.popops.elementwise.in_place import binary_in_place
from tilescope.engine.library.popops.elementwise.map import operand
from tilescope.engine.library.popops.elementwise.operations import copy_to, in_one
from tilescope.engine.library.recurrent_options import RecurrentOptions
from tilescope.engine.program import WriteUndef

__all__ = [
    "ATTENTION",
    "INPUTS",
    "RECURRENT",
    "SUMS",
    "BackwardCell",
    "OutputGradients",
    "gru_backward_cell",
    "lstm_backward_cell",
    "rnn_backward_cell",
]

#: Names of what a backward step leaves: gradients of the sums, of the inputs, of the candidate's
#: product with the output, and of the attention.
SUMS, INPUTS, RECURRENT, ATTENTION = "sums", "inputs", "recurrent", "attention"
_FORGET, _ENTER, _OUTPUT, _CANDIDATE = range(len(LSTM_INSIDE))


@dataclass(frozen=True)
class OutputGradients:
    """The gradients of what a layer returns; None where there is none.

    Parameters
    ----------
    outputs
        Shape (steps, batch, outputs).
    last, cell
        Of the last output, and of the last cell state of an LSTM: shape (batch, outputs).
    """

    outputs: View | None = None
    last: View | None = None
    cell: View | None = None


@dataclass(frozen=True)
class BackwardCell:
    """A step of a layer's backward pass, with what it reads and replaces.

    Parameters
    ----------
    layer
        Sizes.
    names
        What it needs of the forward step, by name, in the order of its slices.
    states
        Variables of the gradients of the output and, of an LSTM, of the cell state.
    results
        What it leaves of a step: shapes by name.
    step
        Builds a step from the gradient of its output and the slices.
    """

    layer: Layer
    names: Sequence[str]
    states: Sequence[Tensor]
    results: Mapping[str, tuple[int, ...]]
    step: Callable[[Builder, View | None, Sequence[View], Keep], None]


@dataclass(frozen=True)
class _Weigher:
    """Multiplies gradients of sums by transposed weights.

    Parameters
    ----------
    weights
        Shape (1, units × outputs, inputs + outputs), or without the inputs.
    n_inputs
        Inputs whose gradients are wanted; 0 if none are.
    """

    weights: Weights
    n_inputs: int
    options: RecurrentOptions

    @classmethod
    def of(
        cls,
        builder: Builder,
        layer: Layer,
        parts: tuple[Weights | None, Weights],
        options: RecurrentOptions,
    ) -> _Weigher:
        """Return one for input weights, None without their gradient, and output weights."""
        inputs, outputs = parts
        if inputs is None:
            return cls(_transposed(builder, layer, [outputs], options), 0, options)
        weights = _transposed(builder, layer, [inputs, outputs], options)
        return cls(weights, int(inputs.shape[1]), options)

    def weigh(self, builder: Builder, units: Sequence[Tensor]) -> tuple[Tensor | None, Tensor]:
        """Return what inputs and output get of units, (batch, inputs) and (batch, outputs)."""
        rows = concat(list(units), 1)
        out = unit(product(builder, rows, self.weights, self.options, "weighGradients"), 0)
        if not self.n_inputs:
            return None, out
        return out.slice(1, 0, self.n_inputs), out.slice(1, self.n_inputs, out.shape[1])


def _results(
    layer: Layer, n_units: int, *, has_inputs: bool, **others: tuple[int, ...]
) -> dict[str, tuple[int, ...]]:
    """Return the shapes of what a step leaves."""
    inputs = {INPUTS: (layer.n_batch, layer.n_inputs)} if has_inputs else {}
    return {SUMS: (n_units, layer.n_batch, layer.n_outputs), **inputs, **others}


def lstm_backward_cell(
    builder: Builder,
    layer: Layer,
    given: LayerOperands,
    gradients: OutputGradients,
    order: tuple[str, ...],
    options: RecurrentOptions,
    *,
    has_inputs: bool,
) -> BackwardCell:
    """Return the backward step of an LSTM layer."""
    names = ("gates", "output", "candidate") if given.peepholes is not None else ("units",)
    places = [order.index(name) for name in LSTM_INSIDE]
    parts = unit_of(given.input_weights, places), unit_of(given.output_weights, places)
    weigher = _Weigher.of(builder, layer, (parts[0] if has_inputs else None, parts[1]), options)
    output = initial(builder, layer, gradients.last, "outputGradient")
    cell = initial(builder, layer, gradients.cell, "cellGradient")
    seen: View | None = None
    if given.peepholes is not None:
        gates = [name for name in order if name != "candidate"]
        by_gate = unit_of(given.peepholes, [gates.index(n) for n in LSTM_INSIDE[:_CANDIDATE]])
        seen = in_one(builder, typed(builder, by_gate, layer.dtype, "peepholes"))

    def step(inside: Builder, of_output: View | None, kept: Sequence[View], keep: Keep) -> None:
        if of_output is not None:
            binary_in_place(inside, "add", output, of_output)
        units, state = _joined(inside, kept[:-1]), unit(in_one(inside, kept[-1]), 0)
        _lstm_step(inside, options, [*_each(units), state], (output, cell), seen)
        keep(SUMS, units)
        of_inputs, before = weigher.weigh(inside, _each(units))
        if of_inputs is not None:
            keep(INPUTS, of_inputs)
        copy_to(inside, before, output, "outputGradient")

    results = _results(layer, len(LSTM_INSIDE), has_inputs=has_inputs)
    return BackwardCell(layer, (*names, STATES), (output, cell), results, step)


def _lstm_step(
    builder: Builder,
    options: RecurrentOptions,
    kept: Sequence[View],
    gradients: tuple[Tensor, Tensor],
    peepholes: View | None,
) -> None:
    """Replace units by the gradients of their sums, and that of the cell by that before the step.

    Parameters
    ----------
    kept
        The units, and the cell state before the step.
    gradients
        Of the output and of the cell state after the step.
    peepholes
        Shape (3, outputs), in the order of the gates inside.
    """
    gate, kind = options.recurrent_activation, options.activation
    of_cell = options.cell_activation or kind
    enter, candidate = (Unit.kept(k, i, options) for k, i in ((gate, _ENTER), (kind, _CANDIDATE)))
    forget, leave = (Unit.kept(gate, i, options) for i in (_FORGET, _OUTPUT))
    before, d_output, d_cell = operand(4), operand(6), operand(7)
    share = 1 - enter.value if options.couples_gates else forget.value
    cell_state = share * before + enter.value * candidate.value
    if is_by_value(of_cell):
        cell_state = function_of(of_cell, cell_state)
    here = CellOperands(builder, [*kept, None, *gradients])
    here.tensors[5] = here.computed(cell_state, "cellState")
    through = Unit(of_cell, 5, is_sum=not is_by_value(of_cell))
    here.replace(7, d_cell + through.sum_gradient(d_output * leave.value))
    here.replace(_OUTPUT, leave.sum_gradient(d_output * through.value))
    if peepholes is not None:
        here.see(7, _OUTPUT, peepholes)
    of_enter = candidate.value - before if options.couples_gates else candidate.value
    entering = here.computed(enter.sum_gradient(d_cell * of_enter), "inputGradient")
    of_state = here.computed(d_cell * share, "cellGradient")
    here.replace(_CANDIDATE, candidate.sum_gradient(d_cell * enter.value))
    if options.couples_gates:
        fill(builder, kept[_FORGET], 0)
    else:
        here.replace(_FORGET, forget.sum_gradient(d_cell * before))
    copy_to(builder, entering, kept[_ENTER], "inputGradient")
    copy_to(builder, of_state, gradients[1], "cellGradient")
    if peepholes is not None:
        for index in (_FORGET, _ENTER):
            here.see(7, index, peepholes)


def gru_backward_cell(
    builder: Builder,
    layer: Layer,
    given: LayerOperands,
    gradients: OutputGradients,
    order: tuple[str, ...],
    options: RecurrentOptions,
    *,
    has_inputs: bool,
) -> BackwardCell:
    """Return the backward step of a GRU layer."""
    reset_after, attention = len(given.biases.shape) == 3, given.attention
    names = ("gates", "candidate", *(("hidden",) if reset_after else ()))
    places = [order.index(name) for name in GRU_UNITS]
    weights = [unit_of(part, places) for part in (given.input_weights, given.output_weights)]
    # Each weigher takes the units whose product with the output was one.
    parts: list[tuple[Weights | None, Weights]]
    if reset_after:
        parts = [(None, weights[1])]
    else:
        shares = [(unit_of(weights[0], i), unit_of(weights[1], i)) for i in ([0, 1], [2])]
        parts = [(of_x if has_inputs else None, of_h) for of_x, of_h in shares]
    weighers = [_Weigher.of(builder, layer, part, options) for part in parts]
    of_inputs: _Weigher | None = None
    if reset_after and has_inputs:
        of_inputs = _Weigher.of(builder, layer, (None, weights[0]), options)
    output = initial(builder, layer, gradients.last, "outputGradient")

    def step(inside: Builder, of_output: View | None, kept: Sequence[View], keep: Keep) -> None:
        if of_output is not None:
            binary_in_place(inside, "add", output, of_output)
        units, states = _joined(inside, kept[: len(names)]), kept[len(names)]
        scores = None if attention is None else kept[-1].reshape(layer.n_batch, 1)
        own = [*_each(units)[: len(GRU_UNITS)], unit(in_one(inside, states), 0)]
        if reset_after:
            own.append(unit(units, len(GRU_UNITS)))
        of_step = _GruStep(CellOperands(inside, [*own, *[None] * (5 - len(own)), output, scores]))
        if scores is not None:
            keep(ATTENTION, of_step.scores(options))
        before = of_step.gates(options, has_attention=scores is not None)
        if reset_after:
            hidden = of_step.after(options)
            keep(RECURRENT, hidden)
            _, weighed = weighers[0].weigh(inside, [*_each(units)[:2], hidden])
            if of_inputs is not None:
                keep(INPUTS, of_inputs.weigh(inside, _each(units)[:3])[1])
        else:
            of_x, of_product = weighers[1].weigh(inside, [own[2]])
            of_step.before(options, of_product, before)
            of_gates, weighed = weighers[0].weigh(inside, _each(units)[:2])
            if of_x is not None and of_gates is not None:
                binary_in_place(inside, "add", of_gates, of_x)
                keep(INPUTS, of_gates)
        keep(SUMS, units.slice(0, 0, len(GRU_UNITS)))
        copy_to(inside, before, output, "outputGradient")
        binary_in_place(inside, "add", output, weighed)

    of_unit = layer.n_batch, layer.n_outputs
    extra = {RECURRENT: (1, *of_unit)} if reset_after else {}
    extra |= {ATTENTION: (1, *of_unit)} if attention is not None else {}
    needed = (*names, STATES, *((ATTENTION,) if attention is not None else ()))
    results = _results(layer, len(GRU_UNITS), has_inputs=has_inputs, **extra)
    return BackwardCell(layer, needed, (output,), results, step)


class _GruStep:
    """The gradients of a step of a GRU.

    Its operands are the reset and update gate and the candidate, the output before, the candidate's
    product with the output, the gradient of the output, and the attention.
    """

    def __init__(self, operands: CellOperands) -> None:
        self._here = operands

    def _units(self, options: RecurrentOptions) -> tuple[Unit, Unit, Unit]:
        gate = options.recurrent_activation
        kinds = (gate, gate, options.activation)
        reset, update, candidate = (Unit.kept(k, i, options) for i, k in enumerate(kinds))
        return reset, update, candidate

    def scores(self, options: RecurrentOptions) -> Tensor:
        """Return the gradients of the attention, by output."""
        _, update, candidate = self._units(options)
        by_output = operand(5) * (candidate.value - operand(3)) * update.value
        return self._here.computed(by_output, "attentionGradient")

    def gates(self, options: RecurrentOptions, *, has_attention: bool) -> Tensor:
        """Replace the candidate and the update gate; return what the output before gets of them."""
        _, update, candidate = self._units(options)
        rest = (1 - operand(6)) if has_attention else None
        share = update.value if rest is None else update.value * rest
        before = self._here.computed(operand(5) * share, "before")
        of_update = operand(5) * (operand(3) - candidate.value)
        of_update = of_update if rest is None else of_update * rest
        updating = self._here.computed(update.sum_gradient(of_update), "updateGradient")
        self._here.replace(2, candidate.sum_gradient(operand(5) * (1 - share)))
        self._here.copy(updating, 1)
        return before

    def after(self, options: RecurrentOptions) -> Tensor:
        """Replace the reset gate; return the gradient of the candidate's product."""
        reset, _, _ = self._units(options)
        of_product = self._here.computed(operand(2) * reset.value, "hiddenGradient")
        self._here.replace(0, reset.sum_gradient(operand(2) * operand(4)))
        return of_product

    def before(self, options: RecurrentOptions, weighed: View, before: Tensor) -> None:
        """Replace the reset gate, and add to the gradient of the output before."""
        reset, _, _ = self._units(options)
        self._here.tensors[4:6] = [weighed, before]
        self._here.replace(5, operand(5) + operand(4) * reset.value)
        self._here.replace(0, reset.sum_gradient(operand(4) * operand(3)))


def rnn_backward_cell(
    builder: Builder,
    layer: Layer,
    given: LayerOperands,
    gradients: OutputGradients,
    options: RecurrentOptions,
    *,
    has_inputs: bool,
) -> BackwardCell:
    """Return the backward step of a layer of plain cells."""
    inputs = given.input_weights if has_inputs else None
    weigher = _Weigher.of(builder, layer, (inputs, given.output_weights), options)
    output = initial(builder, layer, gradients.last, "outputGradient")
    cell = Unit.kept(options.activation, 0, options)

    def step(inside: Builder, of_output: View | None, kept: Sequence[View], keep: Keep) -> None:
        if of_output is not None:
            binary_in_place(inside, "add", output, of_output)
        units = _joined(inside, kept)
        here = CellOperands(inside, [unit(units, 0), output])
        here.replace(0, cell.sum_gradient(operand(1)))
        keep(SUMS, units)
        of_inputs, before = weigher.weigh(inside, _each(units))
        if of_inputs is not None:
            keep(INPUTS, of_inputs)
        copy_to(inside, before, output, "outputGradient")

    results = _results(layer, 1, has_inputs=has_inputs)
    return BackwardCell(layer, ("units",), (output,), results, step)


def _transposed(
    builder: Builder, layer: Layer, parts: Sequence[Weights], options: RecurrentOptions
) -> Weights:
    """Return weights (units, inner, outputs) as (1, units × outputs, all inner), from sums back.

    Tensors are arranged for the products of the loop, before it.
    """
    n_units, _, n_after = (int(size) for size in parts[0].shape)
    if all(isinstance(part, np.ndarray) for part in parts):
        joined = np.concatenate([np.asarray(part) for part in parts], 1)
        return joined.transpose(0, 2, 1).reshape(1, n_units * n_after, -1)
    n_before = sum(int(part.shape[1]) for part in parts)
    wide = replace(layer, n_outputs=n_before)
    variables = RecurrentVariables(builder, wide, options, "transposed")
    arranged = variables.matrices(n_units * n_after, 1, f"weights{n_units}")
    # It is copied in parts, and would be alive before otherwise.
    builder.sequence.add(WriteUndef(arranged, debug=builder.debug))
    by_unit, first = arranged.reshape(n_units, n_after, n_before), 0
    for part in parts:
        end = first + int(part.shape[1])
        values = typed(builder, part, layer.dtype, "weights").dim_shuffle(0, 2, 1)
        copy_to(builder, values, by_unit.slice(2, first, end), "transpose")
        first = end
    return arranged


def _each(units: Tensor) -> list[Tensor]:
    return [unit(units, index) for index in range(units.shape[0])]


def _joined(builder: Builder, units: Sequence[View]) -> Tensor:
    """Return kept units as one tensor, which the step replaces."""
    joined = units[0] if len(units) == 1 else concat(list(units))
    return in_one(builder, joined)
