"""Gradients of the weights of recurrent layers: products over steps, added up.

Source of names and steps: graphcore/poplibs sdk-release-3.4, include/popnn/Lstm.hpp, lstmWU, and
include/popnn/Gru.hpp, gruWU; lib/popnn/Lstm.cpp, basicLstmParamUpdate; paramDeltaUpdate of
include/popnn/Recurrent.hpp. Inputs and outputs before the step are one operand of the product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilescope.engine.graph import DType, Tensor, View, concat, dtype_of
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.convolution import matmul
from tilescope.engine.library.popnn.recurrent.backward_cell import RECURRENT, SUMS
from tilescope.engine.library.popnn.recurrent.kept import BEFORE, STATES, Unit
from tilescope.engine.library.popnn.recurrent.loop import as_steps
from tilescope.engine.library.popnn.recurrent.span import Span, Stored
from tilescope.engine.library.popnn.recurrent.storage import UPDATE_PROPORTION
from tilescope.engine.library.popops.elementwise.fill import fill
from tilescope.engine.library.popops.elementwise.in_place import binary_in_place
from tilescope.engine.library.popops.elementwise.map import map_expression, operand
from tilescope.engine.library.popops.elementwise.operations import (
    cast,
    in_one,
    rearranged,
)
from tilescope.engine.library.popops.reduction.reduce import reduce
from tilescope.engine.library.popops.slicing.dynamic_slice import dynamic_slice
from tilescope.engine.library.recurrent_options import RecurrentOptions

__all__ = ["Update", "WeightGradients", "peephole_gradients", "shifted_outputs"]


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


class Update:
    """Adds up the gradients of a layer's weights over spans of steps.

    Parameters
    ----------
    builder
        Target of the program before the loops.
    kind
        ``lstm``, ``gru`` or ``rnn``.
    x
        Inputs, shape (steps, batch, inputs).
    options
        Of the layer.
    reset_after
        Whether a GRU resets after its product.
    """

    def __init__(
        self,
        builder: Builder,
        kind: str,
        x: View,
        options: RecurrentOptions,
        reset_after: bool,
    ) -> None:
        self._builder, self._x, self._options = builder, x, options
        self._kind, self._reset_after = kind, reset_after
        self._n_steps, _, self._n_inputs = (int(size) for size in x.shape)
        self._sliced: Stored | None = None
        self._sums: dict[str, Tensor] = {}

    def add(self, inside: Builder, span: Span, values: Mapping[str, Stored]) -> None:
        """Add a span's part of the gradients.

        Parameters
        ----------
        inside
            Target of the program.
        span
            The steps.
        values
            By name, what both passes left of these steps, or of all.
        """
        here = {name: _of_span(inside, stored, span) for name, stored in values.items()}
        x, sums = self._inputs(inside, span), here[SUMS]
        if self._kind == "gru":
            self._gru(inside, span, x, here)
        else:
            before = _of_unit(here[BEFORE], 0)
            self._product(inside, span, "weights", (x, before), sums)
        self._bias(inside, span, "biases", sums)

    def _gru(self, inside: Builder, span: Span, x: Tensor, here: Mapping[str, Tensor]) -> None:
        """Add the products of a GRU: the candidate has one of its own."""
        sums, before = here[SUMS], _of_unit(here[STATES], 0)
        gates, candidate = sums.slice(1, 0, 2), sums.slice(1, 2, 3)
        if self._reset_after:
            own = in_one(inside, concat([gates, here[RECURRENT]], 1))
            self._product(inside, span, "inputs", (x,), sums)
            self._product(inside, span, "outputs", (before,), own)
            self._bias(inside, span, "outputBiases", own)
            return
        reset = Unit.kept(self._options.recurrent_activation, 0, self._options)
        read = map_expression(
            inside, reset.value * operand(1), [_of_unit(here["gates"], 0), before]
        )
        self._product(inside, span, "gates", (x, before), gates)
        self._product(inside, span, "candidate", (x, read), candidate)

    def result(self, builder: Builder, places: Sequence[int]) -> WeightGradients:
        """Return the sums, with the units in the order of the weights: their places inside."""
        biases: View = self._biases(builder, "biases")
        inputs: View
        outputs: View
        if self._reset_after:
            inputs, outputs = self._by_unit(builder, "inputs"), self._by_unit(builder, "outputs")
            of_outputs = self._biases(builder, "outputBiases")
            n_units = int(biases.shape[0])
            biases = concat([part.reshape(n_units, 1, -1) for part in (biases, of_outputs)], 1)
        else:
            names = ("gates", "candidate") if self._kind == "gru" else ("weights",)
            parts = [self._by_unit(builder, name) for name in names]
            n = self._n_inputs
            inputs = _together([part.slice(1, 0, n) for part in parts])
            outputs = _together([part.slice(1, n, part.shape[1]) for part in parts])
        return WeightGradients(*(_ordered(part, places) for part in (inputs, outputs, biases)))

    def _inputs(self, inside: Builder, span: Span) -> Tensor:
        """Return the inputs of a span's steps."""
        if span.n_steps == self._n_steps:
            return in_one(inside, self._x)
        if self._sliced is None:
            self._sliced = as_steps(self._builder, self._x)
        return _of_span(inside, self._sliced, span)

    def _product(
        self, inside: Builder, span: Span, name: str, given: Sequence[View], sums: Tensor
    ) -> None:
        """Add the product of what was multiplied and the gradients of its sums."""
        n_units = int(sums.shape[1])
        rows = sums.dim_shuffle(0, 2, 1, 3).reshape(1, -1, n_units * int(sums.shape[3]))
        flat = [part.reshape(rows.shape[1], part.shape[2]) for part in given]
        joined: View = flat[0] if len(flat) == 1 else concat(flat, 1)
        turned = joined.dim_shuffle(1, 0)
        shares = inside.available_memory.with_own(self._options.available_memory_proportion)
        out = matmul(
            inside,
            turned.reshape(1, *turned.shape),
            rows,
            "update",
            available_memory_proportion=min(UPDATE_PROPORTION, shares.matmul)
            if self._options.available_memory_proportion is None
            else self._options.available_memory_proportion,
            partials_type=self._options.partials_type,
        )
        self._accumulate(inside, span, name, out)

    def _bias(self, inside: Builder, span: Span, name: str, sums: Tensor) -> None:
        """Add the sums over steps; those over the batch come last."""
        n_units, _, n_outputs = (int(size) for size in sums.shape[1:])
        if span.n_steps == self._n_steps:
            self._sums[name] = reduce(inside, "sum", sums, (0, 2)).reshape(n_units, n_outputs)
            return
        by_row = sums
        if span.n_steps > 1:
            by_row = reduce(inside, "sum", sums, (0,))
        self._accumulate(inside, span, name, by_row.reshape(*sums.shape[1:]))

    def _accumulate(self, inside: Builder, span: Span, name: str, part: Tensor) -> None:
        """Add a part to its sum, which begins as zero before the loops."""
        if span.n_steps == self._n_steps:
            self._sums[name] = part
            return
        dtype = self._accumulators(part.dtype)
        if name not in self._sums:
            begin = self._builder
            self._sums[name] = begin.graph.clone(part, f"{name}Sum", dtype, begin.debug)
            fill(begin, self._sums[name], 0)
        total = self._sums[name]
        binary_in_place(
            inside, "add", total, part if part.dtype == dtype else cast(inside, part, dtype)
        )

    def _accumulators(self, dtype: DType) -> DType:
        asked = self._options.accumulators_type
        return dtype if asked is None else dtype_of({"float": "float32", "half": "float16"}[asked])

    def _by_unit(self, builder: Builder, name: str) -> Tensor:
        """Return a sum of products by unit, (units, inner, outputs)."""
        out = self._sums[name]
        inner, n_columns = int(out.shape[1]), int(out.shape[2])
        n_units = {"weights": 4 if self._kind == "lstm" else 1, "gates": 2, "candidate": 1}
        n = n_units.get(name, 3)
        return rearranged(builder, out, (inner, n, n_columns // n), "rearrange").dim_shuffle(
            1, 0, 2
        )

    def _biases(self, builder: Builder, name: str) -> Tensor:
        """Return the sums of gradients over steps and batch, (units, outputs)."""
        total = self._sums[name]
        if len(total.shape) == 2:
            return total
        return reduce(builder, "sum", total, (1,)).reshape(total.shape[0], total.shape[2])


def shifted_outputs(outputs: View, first: View, *, is_reverse: bool) -> View:
    """Return the output before every step, (steps, 1, batch, outputs).

    Parameters
    ----------
    outputs
        Of all steps.
    first
        Before the first one, shape (batch, outputs).
    is_reverse
        Whether the layer begins with the last step.
    """
    n_steps = outputs.shape[0]
    initial = first.reshape(1, *first.shape)
    if n_steps == 1:
        before: View = initial
    elif is_reverse:
        before = concat([outputs.slice(0, 1, n_steps), initial])
    else:
        before = concat([initial, outputs.slice(0, 0, n_steps - 1)])
    return before.reshape(n_steps, 1, *outputs.shape[1:])


def _together(parts: Sequence[Tensor]) -> View:
    return parts[0] if len(parts) == 1 else concat(list(parts))


def _ordered(units: View, places: Sequence[int]) -> View:
    """Return units in the order of the weights."""
    if list(places) == list(range(units.shape[0])):
        return units
    return concat([units.slice(0, place, place + 1) for place in places])


def _of_unit(units: View, index: int) -> View:
    """Return one unit of all steps, (steps, batch, outputs)."""
    n_steps, _, n_batch, n_outputs = units.shape
    return units.slice(1, index, index + 1).reshape(n_steps, n_batch, n_outputs)


def _of_span(inside: Builder, stored: Stored, span: Span) -> Tensor:
    """Return the values of a span's steps."""
    if stored.first is span.first or span.first is None:
        return stored.tensor
    return dynamic_slice(inside, stored.tensor, span.first, [0], [span.n_steps])


def peephole_gradients(
    builder: Builder, states: View, sums: View, last: View, *, is_reverse: bool
) -> list[Tensor]:
    """Return the gradients of the peepholes of the gates inside, (1, outputs) each."""
    n_steps = int(states.shape[0])
    before = _of_unit(in_one(builder, states), 0)
    ending = last.reshape(1, *last.shape)
    if n_steps == 1:
        after: View = ending
    elif is_reverse:
        after = concat([ending, before.slice(0, 0, n_steps - 1)])
    else:
        after = concat([before.slice(0, 1, n_steps), ending])
    seen = before, before, in_one(builder, after)
    gradients = []
    for index, state in enumerate(seen):
        by_step = map_expression(builder, operand(0) * operand(1), [_of_unit(sums, index), state])
        gradients.append(reduce(builder, "sum", by_step, (0, 1)).reshape(1, -1))
    return gradients
