"""The forward pass of a recurrent layer: its cell, the loop over steps, and what it keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from tilescope.engine.graph import Tensor, View, concat
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popnn.recurrent.loop import (
    Layer,
    LoopOperands,
    Step,
    held_by_step,
    run_steps,
)
from tilescope.engine.library.popnn.recurrent.span import Span, Stored, advance, number
from tilescope.engine.library.popnn.recurrent.storage import (
    CHECKPOINTS,
    LayerSizes,
    Storage,
    each_chunk,
    each_stretch,
    storage_of,
)
from tilescope.engine.library.popops.elementwise.fill import fill
from tilescope.engine.library.popops.slicing.dynamic_slice import dynamic_update
from tilescope.engine.library.recurrent_options import RecurrentOptions

__all__ = ["Cell", "LayerOperands", "Weights", "joined_states", "layer_storage", "run_forward"]

Weights = View | NDArray[Any]


@dataclass(frozen=True)
class LayerOperands:
    """What a layer is given, as `lstm`, `gru` and `rnn` take it.

    Parameters
    ----------
    x
        Shape (steps, batch, inputs).
    input_weights, output_weights, biases
        Shapes (units, inputs, outputs), (units, outputs, outputs), and (units, outputs) or
        (units, 2, outputs).
    initial_output, initial_cell
        States before the first step, shape (batch, outputs); zeros if left out.
    peepholes, attention, lengths
        Of layers that have them: shapes (3, outputs), (steps, batch) and (batch,).
    """

    x: View
    input_weights: Weights
    output_weights: Weights
    biases: Weights
    initial_output: View | None = None
    initial_cell: View | None = None
    peepholes: Weights | None = None
    attention: View | None = None
    lengths: View | None = None


@dataclass(frozen=True)
class Cell:
    """A step of a layer, with what it reads and replaces.

    Parameters
    ----------
    layer
        Sizes.
    sequences
        What a step gets its slices of.
    states
        Variables of the output and, of an LSTM, the cell state.
    step
        Builds a step. It offers all values that gradients may need.
    """

    layer: Layer
    sequences: Sequence[Stored]
    states: Sequence[Tensor]
    step: Step

    def run(
        self,
        builder: Builder,
        span: Span,
        kept: Mapping[str, Stored],
        *,
        lengths: View | None,
        outputs: Stored | None,
        is_descending: bool,
    ) -> None:
        """Add the loop over a span."""
        operands = LoopOperands(self.sequences, self.states, lengths, kept, outputs)
        run_steps(builder, span, operands, self.step, is_descending=is_descending)

    def store(self, builder: Builder, span: Span, names: Mapping[str, int]) -> dict[str, Stored]:
        """Return what keeps values of a span's steps: their number by name."""
        layer = self.layer
        shape = layer.n_batch, layer.n_outputs
        return {
            name: held_by_step(builder, layer.dtype, span, (n, *shape), name)
            for name, n in names.items()
        }


def run_forward(
    builder: Builder,
    cell: Cell,
    options: RecurrentOptions,
    lengths: View | None,
    names: Mapping[str, int],
    storage: Storage | None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Add the loop over all steps of a layer.

    Parameters
    ----------
    builder
        Target of the program.
    cell
        The layer's.
    options
        Of the layer.
    lengths
        As for `lstm`.
    names
        What gradients need of every step, if that is kept: the number of values by name.
    storage
        What is kept; None for nothing.

    Returns
    -------
    outputs, kept
        Shape (steps, batch, outputs), or (batch, outputs) without `full_sequence`; by name, shape
        (steps, n, batch, outputs), or of checkpoints (stretches, states, batch, outputs).
    """
    layer, descends = cell.layer, options.reverse
    whole = Span(layer.n_steps)
    out: Stored | None = None
    if options.full_sequence:
        shape = layer.n_batch, layer.n_outputs
        out = held_by_step(builder, layer.dtype, whole, shape, "outputs")
    kept: dict[str, Stored] = {}
    if storage is None or not storage.recomputes:
        kept = cell.store(builder, whole, names if storage is not None else {})
        cell.run(builder, whole, kept, lengths=lengths, outputs=out, is_descending=descends)
    else:
        kept = cell.store(builder, Span(storage.n_stretches), {CHECKPOINTS: len(cell.states)})
        checkpoints = kept[CHECKPOINTS].tensor

        position = number(builder, "checkpoint")
        fill(builder, position, 0)

        def stretch(inside: Builder, span: Span) -> None:
            before = joined_states(cell.states)
            dynamic_update(inside, checkpoints, before.reshape(1, *before.shape), position, [0])
            advance(inside, position)
            cell.run(inside, span, {}, lengths=lengths, outputs=out, is_descending=descends)

        def chunk(inside: Builder, span: Span) -> None:
            each_stretch(inside, storage, span, stretch, is_descending=descends)

        each_chunk(builder, storage, chunk, is_descending=descends)
    outputs = cell.states[0] if out is None else out.tensor
    return outputs, {name: stored.tensor for name, stored in kept.items()}


def layer_storage(
    builder: Builder,
    layer: Layer,
    names: Mapping[str, int],
    n_states: int,
    options: RecurrentOptions,
) -> Storage:
    """Return what a layer keeps, in both passes.

    Parameters
    ----------
    builder
        Its machine.
    layer
        Sizes.
    names
        What gradients need of a step: the number of values by name.
    n_states
        States of a cell.
    options
        Of the layer.
    """
    sizes = LayerSizes.of(
        layer.n_steps, layer.n_batch, layer.n_inputs, layer.n_outputs, names, n_states,
        layer.dtype.n_bytes,
    )  # fmt: skip
    return storage_of(builder.tiles.machine, sizes, options)


def joined_states(states: Sequence[Tensor]) -> View:
    """Return states (batch, outputs) as one view, (states, batch, outputs)."""
    apart = [state.reshape(1, *state.shape) for state in states]
    return apart[0] if len(apart) == 1 else concat(apart)
