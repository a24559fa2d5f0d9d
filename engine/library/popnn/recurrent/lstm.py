"""LSTM layers, forward pass.

Source of names and steps: graphcore/poplibs sdk-release-3.4, include/popnn/Lstm.hpp and
lib/popnn/Lstm.cpp, lstmFwd for inference.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from tilescope.engine.arguments import shown
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Tensor, View, concat
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popnn.recurrent.forward import (
    Cell,
    LayerOperands,
    layer_storage,
    run_forward,
)
from tilescope.engine.library.popnn.recurrent.kept import (
    BEFORE,
    STATES,
    are_sums_kept,
    lstm_kept,
)
from tilescope.engine.library.popnn.recurrent.loop import (
    Keep,
    Layer,
    as_steps,
    checked_layer,
    initial,
    stacked,
    unit,
)
from tilescope.engine.library.popnn.recurrent.unit import (
    activate_in_place,
    activated,
    clipped,
    rows_of,
    typed,
    unit_of,
    with_biases,
)
from tilescope.engine.library.popops.elementwise.in_place import binary_in_place
from tilescope.engine.library.popops.elementwise.map import map_in_place, operand
from tilescope.engine.library.popops.elementwise.operations import copy_to, in_one
from tilescope.engine.library.recurrent_options import RecurrentOptions

__all__ = [
    "LSTM_INSIDE",
    "LSTM_UNITS",
    "RecurrentOptions",
    "checked_lstm_order",
    "lstm",
    "lstm_cell",
]

#: Default order of the units in weights and biases.
LSTM_UNITS = ("forget", "input", "candidate", "output")
#: Order of the units inside: the gates, with one non-linearity, are one tensor.
LSTM_INSIDE = ("forget", "input", "output", "candidate")
_OUTPUT = LSTM_INSIDE.index("output")
_CANDIDATE = LSTM_INSIDE.index("candidate")


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
    peepholes: View | NDArray[Any] | None = None,
    lengths: View | None = None,
    cell_order: Any = LSTM_UNITS,
    options: RecurrentOptions | None = None,
    kept: Any = None,
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
    peepholes
        Weights of the cell state in the gates, shape (3, outputs): in the cell order without the
        candidate. The forget and the input gate see the last state, the output gate the new one.
    lengths
        int32, shape (batch,): the steps of every sequence; all of them if left out. Outputs beyond
        are zero, and states stay.
    cell_order
        The order of ``forget``, ``input``, ``candidate`` and ``output`` in the weights.
    options
        Non-linearities, direction and others.
    kept
        A dict, which takes what `lstm_backward` needs, by name; None keeps nothing.

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
    With f, i, g, o for the units: c = f c + i g, h = o tanh(c). Source of peepholes: the ONNX
    operator LSTM.
    """
    options = options or RecurrentOptions()
    order = checked_lstm_order(cell_order)
    layer = checked_layer("lstm", x, input_weights, output_weights, biases, len(LSTM_UNITS))
    detail = {
        "input": list(x.shape),
        "outputSize": layer.n_outputs,
        "cellOrder": list(order),
        **({} if peepholes is None else {"peepholes": True}),
        **options.detail(),
    }
    build = builder.inside("lstm", "popnn.lstmFwd", detail)
    given = LayerOperands(
        x, input_weights, output_weights, biases, initial_output, initial_cell, peepholes,
        lengths=lengths,
    )  # fmt: skip
    cell = lstm_cell(build, given, order, options)
    names = lstm_kept(has_peepholes=peepholes is not None, has_lengths=lengths is not None)
    storage = None if kept is None else layer_storage(build, layer, names, 2, options)
    outputs, values = run_forward(build, cell, options, lengths, names, storage)
    if kept is not None:
        kept.update(values)
    output, state = cell.states
    return outputs, output, state


def lstm_cell(
    builder: Builder, given: LayerOperands, order: tuple[str, ...], options: RecurrentOptions
) -> Cell:
    """Return the step of an LSTM layer.

    Parameters
    ----------
    builder
        Target of the program before the loop.
    given
        As `lstm` takes it.
    order
        Of the units in the weights.
    options
        Of the layer.
    """
    weights = given.input_weights, given.output_weights, given.biases
    layer = checked_layer("lstm", given.x, *weights, len(LSTM_UNITS))
    unit_order = [order.index(name) for name in LSTM_INSIDE]
    units = stacked(builder, layer, len(LSTM_INSIDE), "units")
    cell = initial(builder, layer, given.initial_cell, "cellState")
    # The output replaces its gate.
    output = initial(builder, layer, given.initial_output, "output", unit(units, _OUTPUT))
    inputs, outputs, biases = (unit_of(part, unit_order) for part in weights)
    peepholes: Tensor | None = None
    if given.peepholes is not None:
        peepholes = _peepholes(builder, given.peepholes, layer, order)
    rows = rows_of(builder, given.x, inputs, outputs, options)

    def step(inside: Builder, slices: Any, keep: Keep) -> None:
        keep(STATES, cell)
        keep(BEFORE, output)
        copy_to(inside, rows.weigh(inside, slices[0], output), units, "units")
        with_biases(inside, units, biases)
        _cell(inside, units, cell, options, peepholes, keep)

    return Cell(layer, [as_steps(builder, rows.sequence)], [output, cell], step)


def checked_lstm_order(order: Any) -> tuple[str, ...]:
    """Return the order of units.

    Raises
    ------
    BadGraph
        If it does not name every unit once.
    """
    names = tuple(order) if isinstance(order, list | tuple) else ()
    if sorted(map(shown, names)) != sorted(map(shown, LSTM_UNITS)):
        raise BadGraph(
            f"lstm: the cell order is {shown(order)}: expected {', '.join(LSTM_UNITS)} in any order"
        )
    return names


def _peepholes(
    builder: Builder, peepholes: View | NDArray[Any], layer: Layer, order: tuple[str, ...]
) -> Tensor:
    """Return peepholes as a tensor (3, 1, outputs), in the order of the gates inside.

    Raises
    ------
    BadGraph
        If their shape or type is another one.
    """
    gates = [name for name in order if name != "candidate"]
    if tuple(peepholes.shape) != (len(gates), layer.n_outputs):
        raise BadGraph(
            f"lstm: its peepholes have shape {tuple(peepholes.shape)}: expected"
            f" {(len(gates), layer.n_outputs)}"
        )
    if isinstance(peepholes, View) and peepholes.dtype != layer.dtype:
        raise BadGraph(f"lstm: its peepholes are {peepholes.dtype}: cast them to {layer.dtype}")
    ordered = unit_of(peepholes, [gates.index(name) for name in LSTM_INSIDE[:_CANDIDATE]])
    return in_one(builder, typed(builder, ordered, layer.dtype, "peepholes")).reshape(3, 1, -1)


def _cell(  # what a cell has
    builder: Builder,
    units: Tensor,
    cell: Tensor,
    options: RecurrentOptions,
    peepholes: Tensor | None,
    keep: Keep,
) -> None:
    """Add the cell: units hold weighed inputs before, and the output gate the output after."""
    forget, enter, output, candidate = (unit(units, i) for i in range(len(LSTM_INSIDE)))
    early = units.slice(0, 0, _CANDIDATE if peepholes is None else _OUTPUT)
    late = units.slice(0, _CANDIDATE, len(LSTM_INSIDE))
    parts = {"gates": early, "candidate": late}
    if peepholes is None:
        parts = {"units": units}
        clipped(builder, units, options.clip)
    else:
        _see(builder, early, peepholes.slice(0, 0, _OUTPUT), cell)
        clipped(builder, early, options.clip)
        clipped(builder, candidate, options.clip)
    if are_sums_kept(options):
        _keep_all(keep, parts)
    activate_in_place(builder, options.recurrent_activation, early)
    activate_in_place(builder, options.activation, candidate)
    if not are_sums_kept(options):
        _keep_all(keep, parts)
    if options.couples_gates:
        map_in_place(builder, 1 - operand(1), [forget, enter])
    binary_in_place(builder, "multiply", concat([cell, candidate]), concat([forget, enter]))
    binary_in_place(builder, "add", cell, candidate)
    if peepholes is not None:
        gate = units.slice(0, _OUTPUT, _CANDIDATE)
        _see(builder, gate, peepholes.slice(0, _OUTPUT, _CANDIDATE), cell)
        clipped(builder, gate, options.clip)
        if are_sums_kept(options):
            _keep_all(keep, {"output": gate})
        activate_in_place(builder, options.recurrent_activation, gate)
        if not are_sums_kept(options):
            _keep_all(keep, {"output": gate})
    activated_cell = activated(builder, options.cell_activation or options.activation, cell)
    binary_in_place(builder, "multiply", output, activated_cell)


def _keep_all(keep: Keep, parts: Mapping[str, View]) -> None:
    for name, part in parts.items():
        keep(name, part)


def _see(builder: Builder, gates: Tensor, peepholes: Tensor, cell: Tensor) -> None:
    """Add peepholes times the cell state to gates, (gates, batch, outputs)."""
    state = cell.reshape(1, *cell.shape).broadcast_to(gates.shape)
    weights = peepholes.broadcast_to(gates.shape)
    map_in_place(builder, operand(0) + operand(1) * operand(2), [gates, weights, state])
