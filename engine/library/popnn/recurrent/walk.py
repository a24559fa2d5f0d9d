"""The backward pass of a recurrent layer: chunk by chunk, stretch by stretch, step by step.

A chunk is the steps whose gradients of sums are held at the same time: those of an update of the
weights, or all. A stretch is the steps of which what gradients need is held: all, or those that are
computed again from the states before them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tilescope.engine.arguments import shown
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Tensor, View, concat
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popnn.recurrent.backward_cell import (
    ATTENTION,
    INPUTS,
    RECURRENT,
    SUMS,
    BackwardCell,
    OutputGradients,
)
from tilescope.engine.library.popnn.recurrent.forward import Cell, layer_storage
from tilescope.engine.library.popnn.recurrent.kept import BEFORE, STATES
from tilescope.engine.library.popnn.recurrent.kind import Kind
from tilescope.engine.library.popnn.recurrent.loop import (
    Keep,
    Layer,
    LoopOperands,
    as_steps,
    held_by_step,
    initial,
    run_steps,
    unit,
)
from tilescope.engine.library.popnn.recurrent.span import Span, Stored, advance, each_span, number
from tilescope.engine.library.popnn.recurrent.storage import (
    CHECKPOINTS,
    Storage,
    each_chunk,
    each_stretch,
    separate_update_steps,
)
from tilescope.engine.library.popnn.recurrent.update import (
    Update,
    WeightGradients,
    peephole_gradients,
    shifted_outputs,
)
from tilescope.engine.library.popops.elementwise.fill import fill
from tilescope.engine.library.popops.elementwise.operations import copy_to, in_one
from tilescope.engine.library.popops.reduction.reduce import reduce
from tilescope.engine.library.popops.slicing.dynamic_slice import dynamic_slice
from tilescope.engine.library.recurrent_options import RecurrentOptions

__all__ = ["Backward", "BackwardPass", "weight_gradients"]


@dataclass(frozen=True)
class Backward:
    """What a backward pass leaves.

    Parameters
    ----------
    initial
        Gradients of the states before the first step: of the output, and of the cell of an LSTM.
    inputs
        Gradients of the inputs, shape (steps, batch, inputs); None if they were not asked for.
    values
        What the gradients of weights follow from, by name: shape (steps, n, batch, outputs). It has
        ``sums``, the gradients of the sums before the non-linearities, in the order ``forget``,
        ``input``, ``output``, ``candidate`` of an LSTM, and ``reset``, ``update``, ``candidate`` of
        a GRU. Empty if those were computed within the loop.
    weights
        Gradients of the weights; None if they were not asked for.
    attention
        Of a GRU with attention: gradients of the scores, shape (steps, batch).
    """

    initial: tuple[Tensor, ...]
    inputs: View | None = None
    values: Mapping[str, Tensor] = field(default_factory=dict)
    weights: WeightGradients | None = None
    attention: View | None = None


class BackwardPass:
    """The backward pass of a layer.

    Parameters
    ----------
    builder
        Target of the program.
    kind
        The layer, and what it was given.
    outputs
        What it returned.
    kept
        What it kept, by name.
    gradients
        Of its results.
    options
        Of the layer.

    Raises
    ------
    BadGraph
        If something was not kept, there is no gradient, or shapes do not fit.
    """

    def __init__(
        self,
        builder: Builder,
        kind: Kind,
        outputs: View | None,
        kept: Any,
        gradients: Any,
        options: RecurrentOptions,
    ) -> None:
        layer = kind.layer
        self._kind, self._layer, self._options = kind, layer, options
        self._outputs = outputs
        self._gradients = _checked_gradients(kind.name, gradients, layer)
        sizes = [layer.n_steps, layer.n_batch, layer.n_outputs]
        detail = {"gradient": sizes, **options.detail()}
        self._builder = build = builder.inside(f"{kind.name}Backward", kind.call, detail)
        self._storage = layer_storage(build, layer, kind.names, kind.n_states, options)
        self._kept = _checked_kept(kind, kept, self._storage)

    def run(
        self, *, with_inputs: bool, with_weights: bool, last_cell: View | None = None
    ) -> Backward:
        """Add the pass; see `lstm_backward`."""
        build, kind, whole = self._builder, self._kind, Span(self._layer.n_steps)
        storage, options = self._storage, self._options
        # Peepholes see the state after a step, which the next chunk has.
        is_updating = with_weights and storage.is_interleaved and kind.given.peepholes is None
        if is_updating and storage.recomputes and not options.pre_weighted:
            # One copy for both the steps and the update.
            x = as_steps(build, kind.given.x).tensor
            kind = replace(kind, given=replace(kind.given, x=x))
        cell = kind.backward(build, self._layer, self._gradients, has_inputs=with_inputs)
        steps = _Steps(build, kind, cell, self._gradients, self._kept, storage, options)
        of_all = self._results(build, cell, whole, (INPUTS, ATTENTION))
        for_weights: dict[str, Stored] = {}
        known = steps.known_of_update()
        if not is_updating:
            for_weights = self._for_weights(build, cell, steps, whole)
        elif not storage.recomputes:
            n_steps = storage.steps_per_update
            known |= _before(build, kind, self._outputs, self._kept, n_steps, options)
        update = Update(build, kind.name, kind.given.x, options, kind.reset_after)

        def chunk(inside: Builder, span: Span) -> None:
            here = for_weights or self._for_weights(inside, cell, steps, span)
            steps.add(inside, span, {**of_all, **here})
            if is_updating:
                update.add(inside, span, {**known, **here})

        if is_updating or storage.recomputes:
            each_chunk(build, storage, chunk, is_descending=not options.reverse)
        else:
            chunk(build, whole)
        inputs = of_all[INPUTS].tensor if with_inputs else None
        scores = self._scores(of_all.get(ATTENTION))
        if is_updating:
            weights = update.result(build, kind.places)
            return Backward(tuple(cell.states), inputs, {}, weights, scores)
        values = {name: stored.tensor for name, stored in {**known, **for_weights}.items()}
        back = Backward(tuple(cell.states), inputs, values, None, scores)
        if not with_weights:
            return back
        found = weight_gradients(build, kind, self._outputs, back, self._options, last_cell)
        return replace(back, values={}, weights=found)

    def _results(
        self, builder: Builder, cell: BackwardCell, span: Span, names: Sequence[str]
    ) -> dict[str, Stored]:
        """Return what takes results of a span's steps, as far as there are any."""
        return {
            name: held_by_step(builder, self._layer.dtype, span, shape, name)
            for name, shape in cell.results.items()
            if name in names
        }

    def _for_weights(
        self, builder: Builder, cell: BackwardCell, steps: _Steps, span: Span
    ) -> dict[str, Stored]:
        """Return what takes what the gradients of weights need of a span's steps."""
        results = self._results(builder, cell, span, (SUMS, RECURRENT))
        return {**results, **steps.store_for_update(builder, span)}

    def _scores(self, by_output: Stored | None) -> View | None:
        """Return the gradients of the attention, (steps, batch)."""
        if by_output is None:
            return None
        summed = reduce(self._builder, "sum", by_output.tensor, (1, 3))
        return summed.reshape(self._layer.n_steps, self._layer.n_batch)


class _Steps:
    """Adds the steps of a chunk: what is needed of them again, then their gradients."""

    def __init__(  # what decides them
        self,
        builder: Builder,
        kind: Kind,
        cell: BackwardCell,
        gradients: OutputGradients,
        kept: Mapping[str, View],
        storage: Storage,
        options: RecurrentOptions,
    ) -> None:
        self._kind, self._cell, self._storage, self._options = kind, cell, storage, options
        of_outputs = gradients.outputs
        self._given = [] if of_outputs is None else [as_steps(builder, of_outputs)]
        self._has_gradient = of_outputs is not None
        self._whole = {
            name: as_steps(builder, view) for name, view in kept.items() if name != CHECKPOINTS
        }
        if kind.given.attention is not None:
            self._whole[ATTENTION] = as_steps(builder, kind.given.attention)
        self._forward: Cell | None = None
        if storage.recomputes:
            self._forward = kind.forward(builder, kind.given)
            self._checkpoints = as_steps(builder, kept[CHECKPOINTS]).tensor
            self._position = number(builder, "checkpoint")
            fill(builder, self._position, storage.n_stretches - 1)

    def known_of_update(self) -> dict[str, Stored]:
        """Return what the gradients of weights need and the forward pass kept."""
        return {name: self._whole[name] for name in self._kind.of_update if name in self._whole}

    def store_for_update(self, builder: Builder, span: Span) -> dict[str, Stored]:
        """Return what takes what the gradients of weights need, where it is computed again."""
        if self._forward is None:
            return {}
        return self._forward.store(builder, span, self._numbers(self._kind.of_update))

    def add(self, builder: Builder, chunk: Span, targets: Mapping[str, Stored]) -> None:
        """Add a chunk, whose results and values for the update of weights targets take."""
        results = {name: held for name, held in targets.items() if name in self._cell.results}
        needed = {name: held for name, held in targets.items() if name not in results}

        def stretch(inside: Builder, span: Span) -> None:
            held = self._again(inside, span, needed)
            sequences = [*self._given, *(held[name] for name in self._cell.names)]
            operands = LoopOperands(
                sequences, self._cell.states, self._kind.given.lengths, results, is_kept_zero=True
            )
            run_steps(inside, span, operands, self._step, is_descending=not self._options.reverse)

        each_stretch(
            builder, self._storage, chunk, stretch, is_descending=not self._options.reverse
        )

    def _numbers(self, names: Sequence[str]) -> dict[str, int]:
        """Return the numbers of values that a step keeps, by name."""
        return {name: self._kind.names.get(name, 1) for name in names}

    def _again(
        self, builder: Builder, span: Span, needed: Mapping[str, Stored]
    ) -> Mapping[str, Stored]:
        """Return what is needed of a stretch's steps, computed again if it was not kept."""
        cell = self._forward
        if cell is None:
            return self._whole
        saved = dynamic_slice(builder, self._checkpoints, self._position, [0], [1])
        apart = saved.reshape(*saved.shape[1:])
        for i, state in enumerate(cell.states):
            copy_to(builder, unit(apart, i), state, "restore")
        advance(builder, self._position, is_descending=True)
        local = cell.store(
            builder, span, self._numbers([n for n in self._kind.names if n not in needed])
        )
        held = {**self._whole, **local, **needed}
        cell.run(
            builder, span, held,
            lengths=self._kind.given.lengths, outputs=None, is_descending=self._options.reverse,
        )  # fmt: skip
        return held

    def _step(self, builder: Builder, slices: Sequence[View], keep: Keep) -> None:
        """Add a step."""
        rest = slices[1:] if self._has_gradient else slices
        self._cell.step(builder, slices[0] if self._has_gradient else None, rest, keep)


def weight_gradients(
    builder: Builder,
    kind: Kind,
    outputs: View | None,
    backward: Any,
    options: RecurrentOptions,
    last_cell: View | None = None,
) -> WeightGradients:
    """Add the gradients of weights after the loop of a backward pass.

    Raises
    ------
    BadGraph
        If shapes do not fit, or the loop computed them already.
    """
    if not isinstance(backward, Backward) or SUMS not in backward.values:
        raise BadGraph(
            f"{kind.name}_weight_update: expected a Backward with sums, got {shown(backward)}"
        )
    layer, sums = kind.layer, backward.values[SUMS]
    if (sums.shape[0], sums.shape[2]) != (layer.n_steps, layer.n_batch):
        raise BadGraph(
            f"{kind.name}_weight_update: the inputs {kind.given.x.name!r} have shape"
            f" {tuple(kind.given.x.shape)}: expected ({sums.shape[0]}, {sums.shape[2]}, inputs)"
        )
    build = builder.inside(
        f"{kind.name}WeightUpdate", kind.update, {"input": list(kind.given.x.shape)}
    )
    values = {name: Stored(tensor) for name, tensor in backward.values.items()}
    n_steps = separate_update_steps(layer.n_steps, options)
    values |= _before(build, kind, outputs, values, n_steps, options)
    update = Update(build, kind.name, kind.given.x, options, kind.reset_after)

    def chunk(inside: Builder, span: Span) -> None:
        update.add(inside, span, values)

    each_span(build, Span(layer.n_steps), n_steps, chunk, is_descending=not options.reverse)
    found = update.result(build, kind.places)
    if kind.given.peepholes is None:
        return found
    if last_cell is None:
        raise BadGraph("lstm_weight_update: peepholes need the last cell state")
    by_gate = peephole_gradients(
        build, values[STATES].tensor, sums, last_cell, is_reverse=options.reverse
    )
    gates = [place for place in kind.places if place < len(by_gate)]
    return replace(found, peepholes=concat([by_gate[place] for place in gates]))


def _before(
    builder: Builder,
    kind: Kind,
    outputs: View | None,
    known: Mapping[str, Any],
    n_steps: int,
    options: RecurrentOptions,
) -> dict[str, Stored]:
    """Return the outputs before every step where they are needed and nothing keeps them.

    They are read so many steps at a time.
    """
    if BEFORE not in kind.of_update or BEFORE in known:
        return {}
    if outputs is None:
        raise BadGraph(f"{kind.name}_backward: expected the outputs of the layer, got None")
    first = kind.given.initial_output
    if first is None:
        first = initial(builder, kind.layer, None, "initialOutput")
    before = shifted_outputs(outputs, first, is_reverse=options.reverse)
    if n_steps < kind.layer.n_steps:
        return {BEFORE: as_steps(builder, before)}
    return {BEFORE: Stored(in_one(builder, before))}


def _checked_gradients(name: str, gradients: Any, layer: Layer) -> OutputGradients:
    """Return the gradients of the results.

    Raises
    ------
    BadGraph
        If there is none, or one does not fit.
    """
    if not isinstance(gradients, OutputGradients):
        raise BadGraph(f"{name}_backward: expected OutputGradients, got {shown(gradients)}")
    if gradients.outputs is None and gradients.last is None and gradients.cell is None:
        raise BadGraph(f"{name}_backward: there is no gradient of an output to begin with")
    given, shape = gradients.outputs, (layer.n_steps, layer.n_batch, layer.n_outputs)
    if given is not None and (tuple(given.shape) != shape or given.dtype != layer.dtype):
        raise BadGraph(
            f"{name}_backward: the gradient of the outputs {given.name!r} is {given.dtype} of shape"
            f" {tuple(given.shape)}: expected {layer.dtype} of shape {shape}"
        )
    return gradients


def _checked_kept(kind: Kind, kept: Any, storage: Storage) -> Mapping[str, View]:
    """Return what the forward pass kept.

    Raises
    ------
    BadGraph
        If something is missing.
    """
    names = [CHECKPOINTS] if storage.recomputes else [*kind.names]
    if not isinstance(kept, Mapping) or any(part not in kept for part in names):
        raise BadGraph(
            f"{kind.name}_backward: what the forward pass kept is {shown(kept)}: expected the dict"
            f" that it filled, with {', '.join(names)}"
        )
    return kept
