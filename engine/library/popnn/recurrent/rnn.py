"""Layers of plain recurrent cells, forward pass.

Source of the steps: graphcore/poplibs sdk-release-3.4, include/popnn/Recurrent.hpp, rnnFwdSequence.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from tilescope.engine.graph import Tensor, View
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popnn.recurrent.kept import BEFORE, rnn_kept
from tilescope.engine.library.popnn.recurrent.loop import (
    Keep,
    LoopOperands,
    checked_layer,
    initial,
    run_steps,
)
from tilescope.engine.library.popnn.recurrent.unit import (
    activate_in_place,
    clipped,
    rows_of,
    with_biases,
)
from tilescope.engine.library.popops.elementwise.operations import copy_to
from tilescope.engine.library.recurrent_options import RecurrentOptions

__all__ = ["rnn"]


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
    output = initial(build, layer, initial_output, "output")
    rows = rows_of(build, x, input_weights, output_weights, options)

    names = {} if kept is None else rnn_kept(options, has_lengths=lengths is not None)

    def step(inside: Builder, slices: Any, keep: Keep) -> None:
        if BEFORE in names:
            keep(BEFORE, output.reshape(1, *output.shape))
        weighed = rows.weigh(inside, slices[0], output)
        copy_to(inside, weighed.reshape(*output.shape), output, "output")
        with_biases(inside, output.reshape(1, *output.shape), biases)
        clipped(inside, output, options.clip)
        if "units" in names:
            keep("units", output.reshape(1, *output.shape))
        activate_in_place(inside, options.activation, output)

    operands = LoopOperands([rows.sequence], [output], lengths, names)
    results = run_steps(build, layer, options, operands, step)
    if kept is not None:
        kept.update(results.kept)
    return results.outputs, output
