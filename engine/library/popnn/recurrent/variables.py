"""The variables of recurrent layers' weights, laid out for the products of their loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilescope.engine.arguments import a_count
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import FLOAT16, FLOAT32, Tensor, View, dtype_of
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.free_operand import (
    Operand,
    Request,
    allocated_matrices,
    planned_matmul,
    unallocated,
)
from tilescope.engine.library.popnn.recurrent.loop import Layer
from tilescope.engine.library.popops.elementwise.operations import vector_elements
from tilescope.engine.library.recurrent_options import RecurrentOptions

__all__ = ["RecurrentVariables", "request_of", "sizes_of"]


def sizes_of(shape: Sequence[int], n_outputs: int, dtype: Any, name: str) -> Layer:
    """Return the sizes of a layer.

    Raises
    ------
    BadGraph
        If a size or the type is invalid.
    """
    kind = dtype_of(dtype)
    if kind not in (FLOAT16, FLOAT32) or len(shape) != 3:
        raise BadGraph(
            f"{name!r} is for an input of {kind} and shape {tuple(shape)}: expected float16 or"
            " float32 of shape (steps, batch, inputs)"
        )
    steps, batch, inputs, outputs = (
        a_count(f"A size of {name!r}", size, 1) for size in (*shape, n_outputs)
    )
    return Layer(steps, batch, inputs, outputs, kind)


def request_of(builder: Builder, options: RecurrentOptions, name: str) -> Request:
    """Return what the options of a layer ask of a product."""
    share, partials = options.available_memory_proportion, options.partials_type
    return Request(builder, name, share, partials, None)


@dataclass(frozen=True)
class RecurrentVariables:
    """Adds the variables of a layer."""

    builder: Builder
    layer: Layer
    options: RecurrentOptions
    name: str

    def of_rows(self, n_units: int) -> tuple[View, View]:
        """Return weights of inputs and outputs for `Rows`, which multiplies them together."""
        n_inputs, n_outputs = self.layer.n_inputs, self.layer.n_outputs
        if self.options.pre_weighted:
            rows = self.layer.n_steps * self.layer.n_batch
            inputs = self.matrices(n_inputs, n_units, "inputs", rows, is_free=True)
            return inputs, self.matrices(n_outputs, n_units, "outputs")
        weights = self.matrices(n_inputs + n_outputs, n_units, "weights")
        return weights.slice(1, 0, n_inputs), weights.slice(1, n_inputs, n_inputs + n_outputs)

    def matrices(
        self, inner: int, n_units: int, name: str, rows: int = 0, *, is_free: bool = False
    ) -> Tensor:
        """Return weights (units, inner, outputs) of a product with (batch, inner).

        Parameters
        ----------
        inner, n_units, name
            Sizes, and the last part of the variable's name.
        rows
            Rows of the other operand; the batch if 0.
        is_free
            Whether `create_recurrent_input` allocates the other operand: the loop makes the others.
        """
        layer, n_columns = self.layer, n_units * self.layer.n_outputs
        request = request_of(self.builder, self.options, f"{self.name}/{name}")
        sizes = (1, rows or layer.n_batch, inner)
        a = Operand(unallocated(layer.dtype, sizes, "the state"), is_free=is_free)
        b = Operand.of((1, inner, n_columns), layer.dtype, request.name)
        tensor = allocated_matrices(request, b, planned_matmul(request, a, b), is_left=False)
        return tensor.reshape(inner, n_units, layer.n_outputs).dim_shuffle(1, 0, 2)

    def biases(self, units: tuple[int, ...]) -> Tensor:
        """Return biases (units, outputs), spread evenly: the loop exchanges them."""
        layer, builder = self.layer, self.builder
        shape = (*units, layer.n_outputs)
        biases_ = builder.graph.add_variable(
            layer.dtype, shape, f"{self.name}/biases", builder.debug
        )
        builder.spread(biases_, grain=vector_elements(builder.tiles.machine, layer.dtype))
        return biases_
