"""LSTM layers, forward pass.

Source of names and steps: graphcore/poplibs sdk-release-3.4, include/popnn/Lstm.hpp and
lib/popnn/Lstm.cpp, lstmFwd for inference.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from tilescope.engine.arguments import shown
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Tensor, View, concat
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.elementwise import copy_to
from tilescope.engine.library.in_place import binary_in_place
from tilescope.engine.library.non_linearity import non_linearity, non_linearity_in_place
from tilescope.engine.library.recurrent_loop import (
    checked_layer,
    initial,
    run_steps,
    stacked,
    unit,
)
from tilescope.engine.library.recurrent_options import RecurrentOptions
from tilescope.engine.library.recurrent_unit import clipped, rows_of, unit_of, with_biases

__all__ = ["LSTM_UNITS", "RecurrentOptions", "lstm"]

#: Default order of the units in weights and biases.
LSTM_UNITS = ("forget", "input", "candidate", "output")
#: Order of the units inside: the gates, with one non-linearity, are one tensor.
_INSIDE = ("forget", "input", "output", "candidate")
_OUTPUT = _INSIDE.index("output")


@checked
def lstm(  # noqa: PLR0913 # weights, states and options of a layer
    builder: Builder,
    x: View,
    input_weights: View | NDArray[Any],
    output_weights: View | NDArray[Any],
    biases: View | NDArray[Any],
    initial_output: View | None = None,
    initial_cell: View | None = None,
    *,
    lengths: View | None = None,
    cell_order: Any = LSTM_UNITS,
    options: RecurrentOptions | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the outputs of an LSTM layer, its last output and its last cell state.

    Parameters
    ----------
    builder
        Target of the program.
    x
        float16 or float32, shape (steps, batch, inputs).
    input_weights, output_weights, biases
        Shapes (4, inputs, outputs), (4, outputs, outputs) and (4, outputs): tensors, or ndarrays of
        constants, which are arranged before the program runs.
    initial_output, initial_cell
        States before the first step, shape (batch, outputs); zeros if left out.
    lengths
        int32, shape (batch,): the steps of every sequence; all of them if left out. Outputs beyond
        are zero, and states stay.
    cell_order
        The order of ``forget``, ``input``, ``candidate`` and ``output`` in the weights.
    options
        Non-linearities, direction and others.

    Returns
    -------
    outputs, last output, last cell state
        Shapes (steps, batch, outputs), or (batch, outputs) without `full_sequence`; twice (batch,
        outputs).

    Raises
    ------
    BadGraph
        If shapes or types do not fit, or the order does not name every unit once.

    Notes
    -----
    With f, i, g, o for the units: c = f c + i g, h = o tanh(c).
    """
    options = options or RecurrentOptions()
    order = _checked_order(cell_order)
    layer = checked_layer("lstm", x, input_weights, output_weights, biases, len(LSTM_UNITS))
    detail = {
        "input": list(x.shape),
        "outputSize": layer.n_outputs,
        "cellOrder": list(order),
        **options.detail(),
    }
    build = builder.inside("lstm", "popnn.lstmFwd", detail)
    at = [order.index(name) for name in _INSIDE]
    units = stacked(build, layer, len(_INSIDE), "units")
    cell = initial(build, layer, initial_cell, "cellState")
    # The output replaces its gate.
    output = initial(build, layer, initial_output, "output", unit(units, _OUTPUT))
    own = [unit_of(weights, at) for weights in (input_weights, output_weights, biases)]
    rows = rows_of(build, x, own[0], own[1], options)

    def step(inside: Builder, slices: Any) -> None:
        copy_to(inside, rows.weigh(inside, slices[0], output), units, "units")
        with_biases(inside, units, own[2])
        _cell(inside, units, cell, options)

    found = run_steps(build, layer, options, [rows.sequence], [output, cell], lengths, step)
    return found, output, cell


def _checked_order(order: Any) -> tuple[str, ...]:
    names = tuple(order) if isinstance(order, list | tuple) else ()
    if sorted(map(shown, names)) != sorted(map(shown, LSTM_UNITS)):
        raise BadGraph(
            f"lstm: the cell order is {shown(order)}: expected {', '.join(LSTM_UNITS)} in any order"
        )
    return names


def _cell(builder: Builder, units: Tensor, cell: Tensor, options: RecurrentOptions) -> None:
    """Add the cell: units hold weighed inputs before, and the output gate the output after."""
    clipped(builder, units, options.clip)
    forget, enter, output, candidate = (unit(units, i) for i in range(len(_INSIDE)))
    non_linearity_in_place(
        builder, options.recurrent_activation, units.slice(0, 0, len(_INSIDE) - 1)
    )
    non_linearity_in_place(builder, options.activation, candidate)
    binary_in_place(builder, "multiply", concat([cell, candidate]), concat([forget, enter]))
    binary_in_place(builder, "add", cell, candidate)
    shown = non_linearity(builder, options.activation, cell)
    binary_in_place(builder, "multiply", output, shown)
