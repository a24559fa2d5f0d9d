"""GRU layers, forward pass.

Source of names and steps: graphcore/poplibs sdk-release-3.4, include/popnn/Gru.hpp and
lib/popnn/Gru.cpp, gruFwd for inference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from tilescope.engine.arguments import shown
from tilescope.engine.codelets.popops.elementwise.expression import Expression
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Tensor, View
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popnn.recurrent.forward import (
    Cell,
    LayerOperands,
    layer_storage,
    run_forward,
)
from tilescope.engine.library.popnn.recurrent.kept import STATES, are_sums_kept, gru_kept
from tilescope.engine.library.popnn.recurrent.loop import (
    Keep,
    as_steps,
    checked_layer,
    initial,
    product,
    stacked,
    unit,
)
from tilescope.engine.library.popnn.recurrent.unit import (
    activate_in_place,
    clipped,
    part_of,
    unit_of,
    with_biases,
)
from tilescope.engine.library.popops.elementwise.in_place import binary_in_place
from tilescope.engine.library.popops.elementwise.map import map_in_place, operand
from tilescope.engine.library.popops.elementwise.operations import copy_to
from tilescope.engine.library.recurrent_options import RecurrentOptions

__all__ = ["GRU_UNITS", "checked_gru_order", "gru", "gru_cell"]

#: Default order of the units in weights and biases.
GRU_UNITS = ("reset", "update", "candidate")


@checked
def gru(  # noqa: PLR0913 # weights, states and options of a layer
    builder: Builder,
    x: View,
    input_weights: View | NDArray[Any],
    output_weights: View | NDArray[Any],
    biases: View | NDArray[Any],
    initial_output: View | None = None,
    *,
    attention: View | None = None,
    lengths: View | None = None,
    cell_order: Any = GRU_UNITS,
    reset_after: bool = False,
    options: RecurrentOptions | None = None,
    kept: Any = None,
) -> tuple[Tensor, Tensor]:
    """Return the outputs of a GRU layer and its last output.

    Parameters
    ----------
    builder
        Target of the program.
    x
        float16 or float32, shape (steps, batch, inputs).
    input_weights, output_weights, biases
        Shapes (3, inputs, outputs), (3, outputs, outputs) and (3, outputs), or (3, 2, outputs) with
        `reset_after`: biases of inputs and of outputs. Tensors, or ndarrays of constants.
    initial_output
        State before the first step, shape (batch, outputs); zeros if left out.
    attention
        Of the same type, shape (steps, batch): a score for every step, as of an AUGRU. The update
        gate is multiplied by 1 less the score. None leaves it as it is.
    lengths
        int32, shape (batch,): the steps of every sequence; all of them if left out. Outputs beyond
        are zero, and states stay.
    cell_order
        The order of ``reset``, ``update`` and ``candidate`` in the weights.
    reset_after
        Whether the reset gate is applied after the candidate's product with the output instead of
        before.
    options
        Non-linearities, direction and others; inputs are always multiplied in their own product.
    kept
        A dict, which takes what `gru_backward` needs, by name; None keeps nothing.

    Returns
    -------
    outputs, last output
        Shapes (steps, batch, outputs), or (batch, outputs) without `full_sequence`, and (batch,
        outputs).

    Raises
    ------
    BadGraph
        If shapes or types do not fit, or the order does not name every unit once.

    Notes
    -----
    With r, u, n for the units: h = (1 − u) n + u h; with a score a, u is (1 − a) u.
    """
    options = options or RecurrentOptions()
    order = checked_gru_order(cell_order)
    layer = checked_layer("gru", x, input_weights, output_weights, biases, len(GRU_UNITS))
    if (len(biases.shape) == 3) != reset_after:
        shapes = "(3, 2, outputs)" if reset_after else "(3, outputs)"
        raise BadGraph(
            f"gru: its biases have shape {tuple(biases.shape)}: expected {shapes} with"
            f" reset_after={reset_after}"
        )
    if attention is not None and (
        attention.dtype != x.dtype or tuple(attention.shape) != tuple(x.shape[:2])
    ):
        raise BadGraph(
            f"gru: the attention {attention.name!r} is {attention.dtype} of shape"
            f" {tuple(attention.shape)}: expected {x.dtype} of shape {tuple(x.shape[:2])}"
        )
    detail = {
        "input": list(x.shape),
        "outputSize": layer.n_outputs,
        "cellOrder": list(order),
        "resetAfter": reset_after,
        **options.detail(),
    }
    name = "popnn.gruFwd" if attention is None else "popnn.auGruFwd"
    build = builder.inside("gru", name, detail)
    given = LayerOperands(
        x, input_weights, output_weights, biases, initial_output,
        attention=attention, lengths=lengths,
    )  # fmt: skip
    cell = gru_cell(build, given, order, options)
    names = gru_kept(reset_after=reset_after)
    storage = None if kept is None else layer_storage(build, layer, names, 1, options)
    outputs, values = run_forward(build, cell, options, lengths, names, storage)
    if kept is not None:
        kept.update(values)
    return outputs, cell.states[0]


def gru_cell(
    builder: Builder, given: LayerOperands, order: tuple[str, ...], options: RecurrentOptions
) -> Cell:
    """Return the step of a GRU layer.

    Parameters
    ----------
    builder
        Target of the program before the loop.
    given
        As `gru` takes it; biases of shape (3, 2, outputs) reset after the product.
    order
        Of the units in the weights.
    options
        Of the layer.
    """
    weights = given.input_weights, given.output_weights, given.biases
    layer = checked_layer("gru", given.x, *weights, len(GRU_UNITS))
    reset_after, attention = len(given.biases.shape) == 3, given.attention
    unit_order = [order.index(name) for name in GRU_UNITS]
    units = [unit_of(part, unit_order) for part in weights]
    output = initial(builder, layer, given.initial_output, "output")
    of_inputs, of_outputs = (stacked(builder, layer, 3, name) for name in ("units", "hidden"))
    cell = _Cell(output, of_inputs, of_outputs)

    def step(inside: Builder, slices: Any, keep: Keep) -> None:
        keep(STATES, output)
        weighed = product(inside, slices[0], units[0], options, "weighInput")
        copy_to(inside, weighed, cell.units, "units")
        if reset_after:
            with_biases(inside, cell.units, part_of(units[2], 0))
            weighed = product(inside, output, units[1], options, "weighOutput")
            copy_to(inside, weighed, cell.hidden, "hidden")
            with_biases(inside, cell.hidden, part_of(units[2], 1))
        else:
            with_biases(inside, cell.units, units[2])
            weighed = product(inside, output, unit_of(units[1], [0, 1]), options, "weighOutput")
            copy_to(inside, weighed, cell.hidden.slice(0, 0, 2), "hidden")
        cell.gate(inside, options, keep)
        if attention is not None:
            rest = operand(0) * (1 - operand(1))
            map_in_place(inside, rest, [unit(cell.units, 1), slices[1].reshape(layer.n_batch, 1)])
        if reset_after:
            keep("hidden", cell.hidden.slice(0, 2, 3))
            binary_in_place(inside, "multiply", unit(cell.hidden, 2), unit(cell.units, 0))
        else:
            reset = unit(cell.units, 0)
            binary_in_place(inside, "multiply", reset, output)
            weighed = product(inside, reset, unit_of(units[1], [2]), options, "weighReset")
            copy_to(inside, weighed, cell.hidden.slice(0, 2, 3), "hidden")
        cell.blend(inside, options, keep)

    sequences = [given.x] if attention is None else [given.x, attention]
    held = [as_steps(builder, sequence) for sequence in sequences]
    return Cell(layer, held, [output], step)


@dataclass(frozen=True)
class _Cell:
    """Output, weighed inputs and weighed outputs; units in the order of `GRU_UNITS`."""

    output: Tensor
    units: Tensor
    hidden: Tensor

    def gate(self, builder: Builder, options: RecurrentOptions, keep: Keep) -> None:
        """Add what leads to the values of both gates, and keep them."""
        gates = self.units.slice(0, 0, 2)
        binary_in_place(builder, "add", gates, self.hidden.slice(0, 0, 2))
        clipped(builder, gates, options.clip)
        _activate(builder, options, options.recurrent_activation, ("gates", gates), keep)

    def blend(self, builder: Builder, options: RecurrentOptions, keep: Keep) -> None:
        """Add the candidate, keep it, and add the output between it and the last output."""
        candidate = unit(self.units, 2)
        binary_in_place(builder, "add", candidate, unit(self.hidden, 2))
        clipped(builder, candidate, options.clip)
        part = "candidate", self.units.slice(0, 2, 3)
        _activate(builder, options, options.activation, part, keep)
        # h = n + u (h − n)
        between = operand(1) + operand(2) * (operand(0) - operand(1))
        map_in_place(builder, between, [self.output, candidate, unit(self.units, 1)])


def _activate(
    builder: Builder,
    options: RecurrentOptions,
    kind: str | Expression,
    part: tuple[str, Tensor],
    keep: Keep,
) -> None:
    """Replace units by their non-linearity, and keep them before or after that."""
    name, units = part
    if are_sums_kept(options):
        keep(name, units)
    activate_in_place(builder, kind, units)
    if not are_sums_kept(options):
        keep(name, units)


def checked_gru_order(order: Any) -> tuple[str, ...]:
    """Return the order of units.

    Raises
    ------
    BadGraph
        If it does not name every unit once.
    """
    names = tuple(order) if isinstance(order, list | tuple) else ()
    if sorted(map(shown, names)) != sorted(map(shown, GRU_UNITS)):
        raise BadGraph(
            f"gru: the cell order is {shown(order)}: expected {', '.join(GRU_UNITS)} in any order"
        )
    return names
