"""Loops over the steps of a sequence: slices, a counter, and results collected per step.

Source of the structure: graphcore/poplibs sdk-release-3.4, include/popnn/Rnn.hpp: one loop whose
body is built, and whose products are planned, once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import BOOL, FLOAT16, FLOAT32, INT32, DType, Tensor, View
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.convolution import matmul
from tilescope.engine.library.popnn.recurrent.span import Counters, Span, Stored
from tilescope.engine.library.popops.elementwise.fill import fill
from tilescope.engine.library.popops.elementwise.operations import (
    binary,
    copy_to,
    in_one,
    rearranged,
    select,
    similar,
    vector_elements,
)
from tilescope.engine.library.popops.elementwise.partition import edges_of
from tilescope.engine.library.popops.slicing.dynamic_slice import dynamic_slice, dynamic_update
from tilescope.engine.library.popops.slicing.sliceable import create_by_columns, is_sliceable
from tilescope.engine.library.recurrent_options import RecurrentOptions
from tilescope.engine.program import Repeat, WriteUndef
from tilescope.engine.program import Sequence as ProgramSequence

__all__ = [
    "Keep",
    "Layer",
    "LoopOperands",
    "as_steps",
    "checked_layer",
    "held_by_step",
    "initial",
    "product",
    "run_steps",
    "stacked",
    "unit",
]

Weights = View | NDArray[Any]


@dataclass(frozen=True)
class Layer:
    """The sizes of a layer."""

    n_steps: int
    n_batch: int
    n_inputs: int
    n_outputs: int
    dtype: DType


def checked_layer(
    name: str, x: View, inputs: Weights, outputs: Weights, biases: Weights, n_units: int
) -> Layer:
    """Return the sizes of a layer.

    Parameters
    ----------
    name
        The function, for messages.
    x
        Shape (steps, batch, inputs).
    inputs, outputs, biases
        Weights: shapes (units, inputs, outputs), (units, outputs, outputs) and (units, outputs) or
        (units, 2, outputs).
    n_units
        Gates and candidates of a cell.

    Raises
    ------
    BadGraph
        If shapes or types do not fit.
    """
    if len(x.shape) != 3 or x.dtype not in (FLOAT16, FLOAT32):
        raise BadGraph(
            f"{name}: {x.name!r} is {x.dtype} of shape {tuple(x.shape)}: expected float16 or"
            " float32 of shape (steps, batch, inputs)"
        )
    n_steps, n_batch, n_inputs = x.shape
    n_outputs = int(outputs.shape[-1]) if outputs.shape else 0
    expected: dict[str, tuple[Weights, list[tuple[int, ...]]]] = {
        "input weights": (inputs, [(n_units, n_inputs, n_outputs)]),
        "output weights": (outputs, [(n_units, n_outputs, n_outputs)]),
        "biases": (biases, [(n_units, n_outputs), (n_units, 2, n_outputs)]),
    }
    for weights_name, (weights, shapes) in expected.items():
        if tuple(weights.shape) not in shapes:
            raise BadGraph(
                f"{name}: its {weights_name} have shape {tuple(weights.shape)}: expected"
                f" {' or '.join(map(str, shapes))}"
            )
        if isinstance(weights, View) and weights.dtype != x.dtype:
            raise BadGraph(
                f"{name}: its {weights_name} are {weights.dtype}, but {x.name!r} is {x.dtype}:"
                " cast one"
            )
    return Layer(n_steps, n_batch, n_inputs, n_outputs, x.dtype)


def stacked(builder: Builder, layer: Layer, n_units: int, name: str) -> Tensor:
    """Return a new variable (units, batch, outputs), whose units have one mapping."""
    shape = (n_units, layer.n_batch, layer.n_outputs)
    sequence = builder.graph.add_variable(layer.dtype, shape, name, builder.debug)
    n = layer.n_batch * layer.n_outputs
    grain = vector_elements(builder.tiles.machine, layer.dtype)
    n_parts = min(builder.tiles.n_tiles, -(-n // grain))
    edges = edges_of(n, n_parts, grain)[:-1]
    start = (np.arange(n_units)[:, None] * n + edges).reshape(-1)
    builder.graph.set_tile_mapping(sequence, start, np.tile(builder.tiles.ids[:n_parts], n_units))
    return sequence


def unit(units: Tensor, index: int) -> Tensor:
    """Return one of stacked units, shape (batch, outputs)."""
    return units.slice(0, index, index + 1).reshape(*units.shape[1:])


def initial(
    builder: Builder, layer: Layer, value: View | None, name: str, state: Tensor | None = None
) -> Tensor:
    """Return a variable (batch, outputs), a given one or a new one, with an initial state or zeros.

    Raises
    ------
    BadGraph
        If the state has another shape or type.
    """
    shape = (layer.n_batch, layer.n_outputs)
    if state is None:
        state = unit(stacked(builder, layer, 1, name), 0)
    if value is None:
        fill(builder, state, 0)
        return state
    if tuple(value.shape) != shape or value.dtype != layer.dtype:
        raise BadGraph(
            f"The initial {name} {value.name!r} is {value.dtype} of shape {tuple(value.shape)}:"
            f" expected {layer.dtype} of shape {shape}"
        )
    copy_to(builder, value, state, f"{name}/initial")
    return state


def product(
    builder: Builder, a: View, weights: Weights, options: RecurrentOptions, name: str
) -> Tensor:
    """Return (batch, inner) times weights (units, inner, outputs) as (units, batch, outputs)."""
    n_units, inner, n_outputs = (int(size) for size in weights.shape)
    by_row: Any
    if isinstance(weights, View):
        by_row = in_one(builder, weights).dim_shuffle(1, 0, 2)
        by_row = in_one(builder, by_row).reshape(1, inner, n_units * n_outputs)
    else:
        by_row = weights.transpose(1, 0, 2).reshape(1, inner, n_units * n_outputs)
    rows = a.shape[0]
    out = matmul(
        builder,
        a.reshape(1, *a.shape),
        by_row,
        name,
        b_dtype=None if isinstance(weights, View) else a.dtype,
        available_memory_proportion=options.available_memory_proportion,
        partials_type=options.partials_type,
    )
    # A plan may lay its result out in blocks of outputs that the units do not divide.
    return rearranged(builder, out, (rows, n_units, n_outputs), name).dim_shuffle(1, 0, 2)


#: Keeps a value of the step in the sequence of a name; drops it where there is none.
Keep = Callable[[str, View], None]
#: Builds a step: takes a builder inside the loop, the step's slices of the sequences, and what
#: keeps values of the step; returns nothing, and leaves new states in the states' own variables.
Step = Callable[[Builder, Sequence[View], Keep], None]


@dataclass(frozen=True)
class LoopOperands:
    """What the steps of a loop read and replace.

    Parameters
    ----------
    sequences
        What a step gets its slices of.
    states
        Variables that a step replaces; the first one is the output.
    lengths
        int32, shape (batch,): steps of every sequence. Beyond them, states stay and outputs are
        zero. None if all have all steps.
    kept
        By name, what takes a value of every step.
    outputs
        What takes the first state after every step; None for none.
    is_kept_zero
        Whether what is kept is zero beyond the lengths; it is what a step left otherwise.
    """

    sequences: Sequence[Stored]
    states: Sequence[Tensor]
    lengths: View | None = None
    kept: Mapping[str, Stored] = field(default_factory=dict)
    outputs: Stored | None = None
    is_kept_zero: bool = False


def run_steps(
    builder: Builder,
    span: Span,
    operands: LoopOperands,
    step: Step,
    *,
    is_descending: bool = False,
) -> None:
    """Add the loop over the steps of a span.

    Parameters
    ----------
    builder
        Target of the program.
    span
        The steps.
    operands
        Sequences, states and lengths.
    step
        Builds the program of a step.
    is_descending
        Whether the loop runs from the last step of the span to the first.

    Raises
    ------
    BadGraph
        If the lengths have another type or shape.
    """
    states, lengths = operands.states, operands.lengths
    n_batch = int(states[0].shape[0])
    if lengths is not None and (lengths.dtype != INT32 or tuple(lengths.shape) != (n_batch,)):
        raise BadGraph(
            f"The sequence lengths {lengths.name!r} are {lengths.dtype} of shape"
            f" {tuple(lengths.shape)}: expected int32 of shape ({n_batch},)"
        )
    targets = [*operands.kept.values(), *([operands.outputs] if operands.outputs else [])]
    counters = Counters(builder, span, [*operands.sequences, *targets], is_descending=is_descending)
    body = ProgramSequence("step", debug=builder.debug)
    inside = replace(builder, sequence=body)
    slices = [
        dynamic_slice(inside, held.tensor, counters.of(held), [0], [1]).reshape(
            *held.tensor.shape[1:]
        )
        for held in operands.sequences
    ]
    mask = None if lengths is None else _due(inside, counters.step, lengths)
    zero = None if mask is None else _zero(builder, states[0].dtype)

    def keep(name: str, value: View) -> None:
        target = operands.kept.get(name)
        if target is None:
            return
        if mask is not None and zero is not None and operands.is_kept_zero:
            value = select(inside, in_one(inside, value), zero, mask)
        sized = value.reshape(1, *target.tensor.shape[1:])
        dynamic_update(inside, target.tensor, sized, counters.of(target), [0])

    if mask is None or zero is None:
        step(inside, slices, keep)
        result = states[0]
    else:
        result = _masked_step(inside, states, mask, zero, lambda: step(inside, slices, keep))
    if operands.outputs is not None:
        out = operands.outputs
        sized_ = result.reshape(1, *result.shape)
        dynamic_update(inside, out.tensor, sized_, counters.of(out), [0])
    counters.advance(inside)
    builder.sequence.add(Repeat(span.n_steps, body, "steps", debug=builder.debug))


def held_by_step(
    builder: Builder, dtype: DType, span: Span, shape: Sequence[int], name: str
) -> Stored:
    """Return a new sequence of a value for every step of a span, whose contents are undefined.

    A loop over the span must fill all of it.
    """
    tensor = create_by_columns(builder, dtype, (span.n_steps, *shape), 0, name)
    # An update of one step keeps the others: without this, they would be alive before.
    builder.sequence.add(WriteUndef(tensor, debug=builder.debug))
    return Stored(tensor, span.first)


def as_steps(builder: Builder, sequence: View) -> Stored:
    """Return a sequence whose steps are slices on their tiles: itself, or a copy."""
    if isinstance(sequence, Tensor) and is_sliceable(builder, sequence, 0):
        return Stored(sequence)
    sliceable = create_by_columns(builder, sequence.dtype, sequence.shape, 0, "sequence")
    copy_to(builder, sequence, sliceable, "arrangeSequence")
    return Stored(sliceable)


def _due(builder: Builder, counter: Tensor, lengths: View) -> View:
    """Return whether the sequences have the step: bool, shape (batch, 1)."""
    is_due = binary(builder, "less", counter.broadcast_to(lengths.shape), lengths)
    assert is_due.dtype == BOOL
    return is_due.reshape(*lengths.shape, 1)


def _zero(builder: Builder, dtype: DType) -> Tensor:
    zeros = np.zeros(1, np.float32)
    zero = builder.graph.add_constant(zeros, "zero", dtype=dtype, debug=builder.debug)
    builder.graph.set_tile_mapping(zero, [0], builder.tiles.ids[:1])
    return zero


def _masked_step(
    builder: Builder,
    states: Sequence[Tensor],
    mask: View,
    zero: Tensor,
    step: Callable[[], None],
) -> Tensor:
    """Add a step that keeps the states of finished sequences; return outputs with zeros there."""
    before = [similar(builder, "before", [state], state.shape, state.dtype) for state in states]
    for old, state in zip(before, states, strict=True):
        copy_to(builder, state, old, "before")
    step()
    result = select(builder, states[0], zero, mask)
    for old, state in zip(before, states, strict=True):
        copy_to(builder, select(builder, state, old, mask), state, "keep")
    return result
