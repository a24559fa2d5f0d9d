"""Layers of plain recurrent cells, forward pass.

Source of the steps: graphcore/poplibs sdk-release-3.4, include/popnn/Recurrent.hpp, rnnFwdSequence.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from tilescope.engine.graph import Tensor, View
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popnn.recurrent.forward import (
    Cell,
    LayerOperands,
    layer_storage,
    run_forward,
)
from tilescope.engine.library.popnn.recurrent.kept import BEFORE, rnn_kept
from tilescope.engine.library.popnn.recurrent.loop import (
    Keep,
    as_steps,
    checked_layer,
    initial,
)
from tilescope.engine.library.popnn.recurrent.unit import (
    activate_in_place,
    clipped,
    rows_of,
    with_biases,
)
from tilescope.engine.library.popops.elementwise.operations import copy_to
from tilescope.engine.library.recurrent_options import RecurrentOptions

__all__ = ["rnn", "rnn_cell"]


@checked
def rnn(  # noqa: PLR0913 # weights, states and options of a layer
    builder: Builder,
    x: View,
    input_weights: View | NDArray[Any],
    output_weights: View | NDArray[Any],
    biases: View | NDArray[Any],
    initial_output: View | None = None,
    *,
    lengths: View | None = None,
    options: RecurrentOptions | None = None,
    kept: Any = None,
) -> tuple[Tensor, Tensor]:
    """Return the outputs of a layer of plain recurrent cells and its last output.

    Parameters
    ----------
    builder
        Target of the program.
    x
        float16 or float32, shape (steps, batch, inputs).
    input_weights, output_weights, biases
        Shapes (1, inputs, outputs), (1, outputs, outputs) and (1, outputs): tensors, or ndarrays of
        constants.
    initial_output
        State before the first step, shape (batch, outputs); zeros if left out.
    lengths
        int32, shape (batch,): the steps of every sequence; all of them if left out. Outputs beyond
        are zero, and states stay.
    options
        Non-linearity, direction and others.
    kept
        A dict, which takes what `rnn_backward` needs beside the outputs, by name;
        None keeps nothing.

    Returns
    -------
    outputs, last output
        Shapes (steps, batch, outputs), or (batch, outputs) without `full_sequence`, and (batch,
        outputs).

    Raises
    ------
    BadGraph
        If shapes or types do not fit.

    Notes
    -----
    h = activation(W x + R h + b).
    """
    options = options or RecurrentOptions()
    layer = checked_layer("rnn", x, input_weights, output_weights, biases, 1)
    detail = {"input": list(x.shape), "outputSize": layer.n_outputs, **options.detail()}
    build = builder.inside("rnn", "popnn.rnnFwdSequence", detail)
    given = LayerOperands(x, input_weights, output_weights, biases, initial_output, lengths=lengths)
    cell = rnn_cell(build, given, options)
    names = rnn_kept(options, has_lengths=lengths is not None)
    # What gradients need is mostly the outputs, which are there.
    plain = replace(options, recomputation_mode="none")
    storage = None if kept is None else layer_storage(build, layer, names, 1, plain)
    outputs, values = run_forward(build, cell, options, lengths, names, storage)
    if kept is not None:
        kept.update(values)
    return outputs, cell.states[0]


def rnn_cell(builder: Builder, given: LayerOperands, options: RecurrentOptions) -> Cell:
    """Return the step of a layer of plain cells.

    Parameters
    ----------
    builder
        Target of the program before the loop.
    given
        As `rnn` takes it.
    options
        Of the layer.
    """
    weights = given.input_weights, given.output_weights, given.biases
    layer = checked_layer("rnn", given.x, *weights, 1)
    output = initial(builder, layer, given.initial_output, "output")
    rows = rows_of(builder, given.x, given.input_weights, given.output_weights, options)

    def step(inside: Builder, slices: Any, keep: Keep) -> None:
        keep(BEFORE, output)
        weighed = rows.weigh(inside, slices[0], output)
        copy_to(inside, weighed.reshape(*output.shape), output, "output")
        with_biases(inside, output.reshape(1, *output.shape), given.biases)
        clipped(inside, output, options.clip)
        keep("units", output)
        activate_in_place(inside, options.activation, output)

    return Cell(layer, [as_steps(builder, rows.sequence)], [output], step)
