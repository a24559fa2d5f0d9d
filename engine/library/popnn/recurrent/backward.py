"""Gradients of recurrent layers: the loop from the last step to the first.

A loop gives the gradients of the sums before the non-linearities of all steps. Those of inputs and
of weights are one product each of all steps together, afterwards: see `update.py`.

Source of names and steps: graphcore/poplibs sdk-release-3.4, include/popnn/Lstm.hpp, lstmBwd,
include/popnn/Gru.hpp, gruBwd, and include/popnn/Recurrent.hpp, rnnBwdSequence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.arguments import shown
from tilescope.engine.codelets.popops.elementwise.expression import Expression
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Tensor, View, concat
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popnn.recurrent.gru import GRU_UNITS, checked_gru_order
from tilescope.engine.library.popnn.recurrent.kept import STATES, Unit, function_of, is_by_value
from tilescope.engine.library.popnn.recurrent.loop import (
    Keep,
    Layer,
    LoopOperands,
    LoopResults,
    initial,
    product,
    run_steps,
    unit,
)
from tilescope.engine.library.popnn.recurrent.lstm import (
    LSTM_INSIDE,
    LSTM_UNITS,
    checked_lstm_order,
)
from tilescope.engine.library.popnn.recurrent.unit import typed, unit_of
from tilescope.engine.library.popnn.recurrent.variables import RecurrentVariables
from tilescope.engine.library.popops.elementwise.derivative import substituted
from tilescope.engine.library.popops.elementwise.fill import fill
from tilescope.engine.library.popops.elementwise.in_place import binary_in_place
from tilescope.engine.library.popops.elementwise.map import map_expression, map_in_place, operand
from tilescope.engine.library.popops.elementwise.operations import copy_to, in_one
from tilescope.engine.library.popops.reduction.reduce import reduce
from tilescope.engine.library.recurrent_options import RecurrentOptions

__all__ = ["Backward", "OutputGradients", "gru_backward", "lstm_backward", "rnn_backward"]

Weights = View | NDArray[Any]
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
class Backward:
    """What the loop of a backward pass leaves.

    Parameters
    ----------
    sums
        Gradients of the sums before the non-linearities, shape (steps, units, batch, outputs): in
        the order ``forget``, ``input``, ``output``, ``candidate`` of an LSTM, and ``reset``,
        ``update``, ``candidate`` of a GRU.
    initial
        Gradients of the states before the first step: of the output, and of the cell of an LSTM.
    recurrent
        Of a GRU with `reset_after`: gradients of the candidate's product with the output, shape
        (steps, 1, batch, outputs).
    attention
        Of a GRU with attention: gradients of the scores, shape (steps, batch).
    """

    sums: View
    initial: tuple[Tensor, ...]
    recurrent: View | None = None
    attention: View | None = None


@checked
def lstm_backward(  # weights, states and options of a layer
    builder: Builder,
    kept: Any,
    output_weights: View | NDArray[Any],
    gradients: Any,
    *,
    peepholes: View | NDArray[Any] | None = None,
    lengths: View | None = None,
    cell_order: Any = LSTM_UNITS,
    options: RecurrentOptions | None = None,
) -> Backward:
    """Return the gradients of the sums of an LSTM layer, and of its first states.

    Parameters
    ----------
    builder
        Target of the program.
    kept
        What `lstm` kept, by name.
    output_weights, peepholes, lengths, cell_order, options
        As they were given to `lstm`.
    gradients
        Of the outputs, of the last output and of the last cell state; at least one of them.

    Raises
    ------
    BadGraph
        If shapes or types do not fit, nothing was kept, or there is no gradient.
    """
    options = options or RecurrentOptions()
    order = checked_lstm_order(cell_order)
    names = ("gates", "output", "candidate") if peepholes is not None else ("units",)
    layer = _layer("lstm_backward", kept, (*names, STATES), output_weights, gradients)
    build = _inside(builder, "lstmBackward", "popnn.lstmBwd", layer, options)
    unit_order = [order.index(name) for name in LSTM_INSIDE]
    weights = _transposed(build, layer, unit_of(output_weights, unit_order), options)
    output = initial(build, layer, gradients.last, "outputGradient")
    cell = initial(build, layer, gradients.cell, "cellGradient")
    seen: View | None = None
    if peepholes is not None:
        gates = [name for name in order if name != "candidate"]
        by_gate = unit_of(peepholes, [gates.index(name) for name in LSTM_INSIDE[:_CANDIDATE]])
        seen = in_one(build, typed(build, by_gate, layer.dtype, "peepholes"))

    def step(inside: Builder, slices: Sequence[View], keep: Keep) -> None:
        parts, units, (state,) = _parts(inside, slices, len(names), gradients)
        if parts is not None:
            binary_in_place(inside, "add", output, parts)
        _lstm_step(
            inside, options, [*_each(units), unit(in_one(inside, state), 0)], (output, cell), seen
        )
        keep("sums", units)
        copy_to(inside, _weighed(inside, units, weights, options), output, "outputGradient")

    sequences = [kept[name] for name in (*names, STATES)]
    results = _loop(build, layer, options, gradients, sequences, [output, cell], lengths, step)
    return Backward(results.kept["sums"], (output, cell))


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
    here = _Operands(builder, [*kept, None, *gradients])
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


@checked
def gru_backward(  # noqa: PLR0913 # weights, states and options of a layer
    builder: Builder,
    kept: Any,
    output_weights: View | NDArray[Any],
    gradients: Any,
    *,
    attention: View | None = None,
    lengths: View | None = None,
    cell_order: Any = GRU_UNITS,
    reset_after: bool = False,
    options: RecurrentOptions | None = None,
) -> Backward:
    """Return the gradients of the sums of a GRU layer, and of its first output.

    Parameters
    ----------
    builder
        Target of the program.
    kept
        What `gru` kept, by name.
    output_weights, attention, lengths, cell_order, reset_after, options
        As they were given to `gru`.
    gradients
        Of the outputs and of the last output; at least one of them.

    Raises
    ------
    BadGraph
        If shapes or types do not fit, nothing was kept, or there is no gradient.
    """
    options = options or RecurrentOptions()
    order = checked_gru_order(cell_order)
    names = ("gates", "candidate", *(("hidden",) if reset_after else ()))
    layer = _layer("gru_backward", kept, (*names, STATES), output_weights, gradients)
    name = "popnn.gruBwd" if attention is None else "popnn.auGruBwd"
    build = _inside(builder, "gruBackward", name, layer, options)
    weights = unit_of(output_weights, [order.index(name) for name in GRU_UNITS])
    products = [weights] if reset_after else [unit_of(weights, [0, 1]), unit_of(weights, [2])]
    transposed = [_transposed(build, layer, part, options) for part in products]
    output = initial(build, layer, gradients.last, "outputGradient")
    extra = {"recurrent": 1} if reset_after else {}
    extra |= {"attention": 1} if attention is not None else {}

    def step(inside: Builder, slices: Sequence[View], keep: Keep) -> None:
        n_last = 1 + (attention is not None)
        parts, units, last = _parts(inside, slices, len(names), gradients, n_last)
        if parts is not None:
            binary_in_place(inside, "add", output, parts)
        scores = None if attention is None else last[1].reshape(layer.n_batch, 1)
        own = [*_each(units)[: len(GRU_UNITS)], unit(in_one(inside, last[0]), 0)]
        if reset_after:
            own.append(unit(units, len(GRU_UNITS)))
        of_step = _GruStep(_Operands(inside, [*own, *[None] * (5 - len(own)), output, scores]))
        if scores is not None:
            keep("attention", of_step.scores(options).reshape(1, *output.shape))
        before = of_step.gates(options, has_attention=scores is not None)
        if reset_after:
            hidden = of_step.after(options)
            keep("recurrent", hidden.reshape(1, *output.shape))
            rows = concat([*_each(units)[:2], hidden], 1)
            weighed = product(inside, rows, transposed[0], options, "weighGradients")
        else:
            own_rows = product(inside, own[2], transposed[1], options, "weighCandidate")
            of_step.before(options, unit(own_rows, 0), before)
            rows = concat(_each(units)[:2], 1)
            weighed = product(inside, rows, transposed[0], options, "weighGradients")
        keep("sums", units.slice(0, 0, len(GRU_UNITS)))
        copy_to(inside, before, output, "outputGradient")
        binary_in_place(inside, "add", output, unit(weighed, 0))

    sequences = [kept[name] for name in (*names, STATES)]
    if attention is not None:
        sequences.append(attention)
    results = _loop(
        build, layer, options, gradients, sequences, [output], lengths, step, {"sums": 3, **extra}
    )
    of_scores: View | None = None
    if attention is not None:
        kept_scores = results.kept["attention"]
        of_scores = reduce(build, "sum", kept_scores, (1, 3)).reshape(layer.n_steps, layer.n_batch)
    return Backward(results.kept["sums"], (output,), results.kept.get("recurrent"), of_scores)


class _GruStep:
    """The gradients of a step of a GRU.

    Its operands are the reset and update gate and the candidate, the output before, the candidate's
    product with the output, the gradient of the output, and the attention.
    """

    def __init__(self, operands: _Operands) -> None:
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


@checked
def rnn_backward(
    builder: Builder,
    kept: Any,
    outputs: View,
    output_weights: View | NDArray[Any],
    gradients: Any,
    *,
    lengths: View | None = None,
    options: RecurrentOptions | None = None,
) -> Backward:
    """Return the gradients of the sums of a layer of plain cells, and of its first output.

    Parameters
    ----------
    builder
        Target of the program.
    kept
        What `rnn` kept, by name.
    outputs
        What it returned, shape (steps, batch, outputs).
    output_weights, lengths, options
        As they were given to `rnn`.
    gradients
        Of the outputs and of the last output; at least one of them.

    Raises
    ------
    BadGraph
        If shapes or types do not fit, nothing was kept, or there is no gradient.
    """
    options = options or RecurrentOptions()
    n_steps, n_batch, n_outputs = outputs.shape
    units = outputs.reshape(n_steps, 1, n_batch, n_outputs)
    own = {"units": kept.get("units", units)}
    layer = _layer("rnn_backward", own, ("units",), output_weights, gradients)
    build = _inside(builder, "rnnBackward", "popnn.rnnBwdSequence", layer, options)
    weights = _transposed(build, layer, output_weights, options)
    output = initial(build, layer, gradients.last, "outputGradient")
    cell = Unit.kept(options.activation, 0, options)

    def step(inside: Builder, slices: Sequence[View], keep: Keep) -> None:
        parts, units, _ = _parts(inside, slices, 1, gradients, 0)
        if parts is not None:
            binary_in_place(inside, "add", output, parts)
        here = _Operands(inside, [unit(units, 0), output])
        here.replace(0, cell.sum_gradient(operand(1)))
        keep("sums", units)
        copy_to(inside, _weighed(inside, units, weights, options), output, "outputGradient")

    results = _loop(
        build, layer, options, gradients, [own["units"]], [output], lengths, step, {"sums": 1}
    )
    return Backward(results.kept["sums"], (output,))


class _Operands:
    """Tensors that expressions read and replace, by their position."""

    def __init__(self, builder: Builder, tensors: Sequence[View | None]) -> None:
        self.builder, self.tensors = builder, [*tensors]

    def _used(self, expression: Expression, first: int | None) -> tuple[Expression, list[View]]:
        """Return an expression over the tensors that it reads, and these."""
        used = {node.index for node in expression.nodes() if node.is_operand}
        order = sorted(used, key=lambda index: (index != first, index))
        parts = [operand(0)] * len(self.tensors)
        tensors = []
        for place, index in enumerate(order):
            tensor = self.tensors[index]
            assert tensor is not None
            parts[index] = operand(place)
            tensors.append(tensor)
        return substituted(expression, parts), tensors

    def computed(self, expression: Expression, name: str) -> Tensor:
        """Compute an expression."""
        build = self.builder.inside(name, "popops.map", {}, flops=0)
        return map_expression(build, *self._used(expression, None))

    def replace(self, index: int, expression: Expression) -> None:
        """Replace a tensor by an expression that reads it."""
        map_in_place(self.builder, *self._used(expression, index))

    def copy(self, tensor: View, index: int) -> None:
        """Replace a tensor by another one."""
        target = self.tensors[index]
        assert isinstance(target, Tensor)
        copy_to(self.builder, tensor, target)

    def see(self, index: int, gate: int, peepholes: View) -> None:
        """Add to a tensor a gate times its peepholes."""
        target, gradient = self.tensors[index], self.tensors[gate]
        assert target is not None
        assert gradient is not None
        own = peepholes.slice(0, gate, gate + 1)
        map_in_place(self.builder, operand(0) + operand(1) * operand(2), [target, gradient, own])


def _layer(
    name: str,
    kept: Any,
    names: Sequence[str],
    output_weights: Weights,
    gradients: Any,
) -> Layer:
    """Return the sizes of a layer.

    Raises
    ------
    BadGraph
        If something was not kept, there is no gradient, or shapes do not fit.
    """
    if not isinstance(kept, Mapping) or any(part not in kept for part in names):
        raise BadGraph(
            f"{name}: what the forward pass kept is {shown(kept)}: expected the dict that it"
            f" filled, with {', '.join(names)}"
        )
    if not isinstance(gradients, OutputGradients):
        raise BadGraph(f"{name}: expected OutputGradients, got {shown(gradients)}")
    if gradients.outputs is None and gradients.last is None and gradients.cell is None:
        raise BadGraph(f"{name}: there is no gradient of an output to begin with")
    first = kept[names[0]]
    n_steps, _, n_batch, n_outputs = (int(size) for size in first.shape)
    layer = Layer(n_steps, n_batch, n_outputs, n_outputs, first.dtype)
    if tuple(output_weights.shape[1:]) != (n_outputs, n_outputs):
        raise BadGraph(
            f"{name}: its output weights have shape {tuple(output_weights.shape)}: expected (units,"
            f" {n_outputs}, {n_outputs})"
        )
    given, shape = gradients.outputs, (n_steps, n_batch, n_outputs)
    if given is not None and (tuple(given.shape) != shape or given.dtype != first.dtype):
        raise BadGraph(
            f"{name}: the gradient of the outputs {given.name!r} is {given.dtype} of shape"
            f" {tuple(given.shape)}: expected {first.dtype} of shape {shape}"
        )
    return layer


def _inside(
    builder: Builder, name: str, call: str, layer: Layer, options: RecurrentOptions
) -> Builder:
    sizes = [layer.n_steps, layer.n_batch, layer.n_outputs]
    return builder.inside(name, call, {"gradient": sizes, **options.detail()})


def _transposed(
    builder: Builder, layer: Layer, weights: Weights, options: RecurrentOptions
) -> Weights:
    """Return weights (units, outputs, outputs) as (1, units × outputs, outputs), from sums back.

    Tensors are arranged for the products of the loop, before it.
    """
    n_units, n_before, n_after = (int(size) for size in weights.shape)
    if isinstance(weights, np.ndarray):
        return np.asarray(weights.transpose(0, 2, 1).reshape(1, n_units * n_after, n_before))
    variables = RecurrentVariables(builder, layer, options, "transposed")
    arranged = variables.matrices(n_units * n_after, 1, f"weights{n_units}")
    by_unit = arranged.reshape(n_units, n_after, n_before)
    copy_to(builder, weights.dim_shuffle(0, 2, 1), by_unit, "transpose")
    return arranged


def _weighed(
    builder: Builder, units: Tensor, weights: Weights, options: RecurrentOptions
) -> Tensor:
    """Return the gradients of sums times the transposed weights: shape (batch, outputs)."""
    rows = concat(_each(units), 1)
    return unit(product(builder, rows, weights, options, "weighGradients"), 0)


def _each(units: Tensor) -> list[Tensor]:
    return [unit(units, index) for index in range(units.shape[0])]


def _parts(
    builder: Builder,
    slices: Sequence[View],
    n_units: int,
    gradients: OutputGradients,
    n_last: int = 1,
) -> tuple[View | None, Tensor, Sequence[View]]:
    """Return the gradient of the step's output, its units as one tensor, and the other slices."""
    of_output = None if gradients.outputs is None else slices[0]
    rest = slices if of_output is None else slices[1:]
    units = rest[:n_units]
    joined = units[0] if n_units == 1 else concat(list(units))
    return of_output, in_one(builder, joined), rest[len(rest) - n_last :]


def _loop(  # noqa: PLR0913, PLR0917 # as run_steps
    builder: Builder,
    layer: Layer,
    options: RecurrentOptions,
    gradients: OutputGradients,
    sequences: Sequence[View],
    states: Sequence[Tensor],
    lengths: View | None,
    step: Any,
    kept: Mapping[str, int] | None = None,
) -> LoopResults:
    """Add the loop, in the other direction than the forward pass."""
    own = replace(options, full_sequence=False, reverse=not options.reverse)
    first = [] if gradients.outputs is None else [gradients.outputs]
    operands = LoopOperands(
        [*first, *sequences], states, lengths, kept or {"sums": len(LSTM_INSIDE)}, is_kept_zero=True
    )
    return run_steps(builder, layer, own, operands, step)
