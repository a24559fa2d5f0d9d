"""Lowers a model operation by operation, by calling the library."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler import Executable, compile_programs
from tilescope.engine.compiler.cache import plans_kept_in
from tilescope.engine.compiler.executable import CompileRecord
from tilescope.engine.errors import BadInput, BadModel
from tilescope.engine.execute import Engine
from tilescope.engine.graph import ROOT, Graph, Tensor, dtype_of
from tilescope.engine.ir import Model, Operation, Value, check_model
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.convolution import convolution, matmul
from tilescope.engine.library.elementwise import binary, cast, rearranged, unary
from tilescope.engine.library.pool import pool
from tilescope.engine.library.reduce import reduce
from tilescope.engine.library.window import Window
from tilescope.engine.machine import Machine
from tilescope.engine.options import resolve
from tilescope.engine.options.available_memory import AvailableMemory
from tilescope.engine.options.partials import PartialsTypes
from tilescope.engine.program import Sequence, StreamCopyIn, StreamCopyOut
from tilescope.engine.transform import prune

__all__ = ["CompiledModel", "compile_model", "lower"]


@dataclass(frozen=True)
class CompiledModel:
    """A model compiled for a machine.

    Parameters
    ----------
    model
        The operator graph.
    executable
        What runs.
    """

    model: Model
    executable: Executable

    def random_inputs(self, seed: int) -> dict[str, NDArray[Any]]:
        """Return inputs drawn from a seed: normal for floats, small counts for integers."""
        random = np.random.default_rng(seed)
        inputs: dict[str, NDArray[Any]] = {}
        for value in self.model.inputs:
            if np.issubdtype(np.dtype(value.dtype), np.floating):
                inputs[value.name] = random.standard_normal(value.shape).astype(value.dtype)
            else:
                high = 2 if value.dtype == "bool" else 8
                inputs[value.name] = random.integers(0, high, value.shape).astype(value.dtype)
        return inputs

    def run(
        self, engine: Engine, inputs: Mapping[str, NDArray[Any]], name: str = ""
    ) -> dict[str, NDArray[Any]]:
        """Run once and return the outputs by name.

        Parameters
        ----------
        engine
            Made for `executable`.
        inputs
            By name, in the model's shapes and types.
        name
            Of the run in the report.

        Raises
        ------
        BadInput
            When an input is missing, unknown, or has another shape or type.
        """
        for value in self.model.inputs:
            engine.connect_stream(value.name, _checked_input(value, inputs))
        for extra in set(inputs) - {value.name for value in self.model.inputs}:
            names = ", ".join(value.name for value in self.model.inputs)
            raise BadInput(f"There is no input {extra!r}: the model has {names}")
        engine.run(0, name)
        outputs: dict[str, NDArray[Any]] = {}
        for output, value in self.model.outputs:
            if value.constant is not None:
                outputs[output] = np.asarray(value.constant)
            else:
                outputs[output] = engine.output(output).astype(value.dtype)
        return outputs


def _checked_input(value: Value, inputs: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    if value.name not in inputs:
        raise BadInput(f"Input {value.name!r} is missing: it takes {value.dtype} {value.shape}")
    array = np.asarray(inputs[value.name])
    if array.shape != value.shape:
        raise BadInput(
            f"Input {value.name!r} takes an array of shape {value.shape}, not {array.shape}"
        )
    if array.dtype.kind not in "fiub" or not np.can_cast(array.dtype, value.dtype, "same_kind"):
        raise BadInput(f"Input {value.name!r} takes {value.dtype}, not {array.dtype}")
    return array


def compile_model(
    model: Model,
    machine: Machine,
    *,
    is_instrumented: bool = True,
    is_checked: bool = False,
    available_memory: AvailableMemory | None = None,
    cache_directory: Path | str | None = None,
    partials: PartialsTypes | None = None,
) -> CompiledModel:
    """Compile a model for a machine; it may turn out not to fit.

    Parameters
    ----------
    model
        The operator graph.
    machine
        The target.
    is_instrumented
        Whether cycle counters take memory on the tiles.
    is_checked
        Whether to check that vertices of a compute set do not touch what another one writes.
    available_memory
        What an operation may take of a tile while it runs; 0.6 of it if not given.
    cache_directory
        Of the executable cache; see `compile_programs`.
    partials
        In which type products of halves add up; in float if not given.

    Raises
    ------
    BadModel
        When the model is not well-formed, or has an operation on types that is not there.
    """
    began_us, timer = time.time_ns() // 1000, time.perf_counter_ns()
    model = prune(model)
    check_model(model)
    with plans_kept_in(cache_directory or resolve().cache_directory):
        graph, program, builder = lower(model, machine, available_memory, partials)
    executable = compile_programs(
        graph,
        [program],
        plans=builder.plans,
        is_instrumented=is_instrumented,
        is_checked=is_checked,
        cache_directory=cache_directory,
    )
    elapsed_us = (time.perf_counter_ns() - timer) // 1000
    record = CompileRecord(executable.record.cache, began_us, elapsed_us)
    return CompiledModel(model, replace(executable, record=record))


def lower(
    model: Model,
    machine: Machine,
    available_memory: AvailableMemory | None = None,
    partials: PartialsTypes | None = None,
) -> tuple[Graph, Sequence, Builder]:
    """Return the graph, the program of one inference, and the builder with its plans."""
    graph = Graph(machine)
    root = Sequence(model.name)
    builder = Builder(
        graph,
        root,
        ROOT,
        available_memory=available_memory or AvailableMemory(),
        partials=partials or PartialsTypes(),
    )
    tensors: dict[Value, Tensor] = {}
    for value in model.inputs:
        tensor = graph.add_variable(value.dtype, value.shape or (1,), value.name)
        graph.map_linearly(tensor, grain=_grain(value.shape))
        root.add(StreamCopyIn(value.name, _shaped(tensor, value.shape)))
        tensors[value] = _shaped(tensor, value.shape)
    inside = builder
    for operation in model.operations:
        if inside is builder or inside.debug.name != operation.name:
            # Operations that stand for one node of the model share its place in the tree.
            debug = ROOT.child(operation.name, "onnx", operation.source, _detail(operation))
            inside = replace(builder, sequence=Sequence(operation.name, debug=debug), debug=debug)
        tensors[operation.output] = _OPERATIONS[operation.kind](inside, operation, tensors)
        if inside.sequence.children and inside.sequence not in root.children[-1:]:
            root.add(inside.sequence)
    for name, value in model.outputs:
        if value.constant is None:
            root.add(StreamCopyOut(tensors[value], name))
    return graph, root, builder


def _grain(shape: tuple[int, ...]) -> int:
    """Keep a row of an input together where there are rows enough for the tiles."""
    return 4 if prod(shape) >= 4 else 1


def _shaped(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    return tensor if tensor.shape == shape else Tensor(tensor.variable, 0, ())


def _detail(operation: Operation) -> dict[str, Any]:
    return {
        "inputs": [[value.name, value.dtype, list(value.shape)] for value in operation.inputs],
        "output": [operation.output.name, operation.output.dtype, list(operation.output.shape)],
        "attributes": {
            key: list(item) if isinstance(item, tuple) else item
            for key, item in operation.attributes.items()
        },
    }


def _tensor(builder: Builder, value: Value, tensors: Mapping[Value, Tensor]) -> Tensor:
    """Return the tensor of a value; a constant becomes a variable where it is used."""
    if value in tensors:
        return tensors[value]
    graph = builder.graph
    array = np.asarray(value.constant)
    made = graph.add_constant(array.reshape(array.shape or (1,)), value.name, debug=builder.debug)
    graph.map_linearly(made, grain=2, first=graph.next_tile)
    graph.next_tile = (graph.next_tile + made.n_elements // 2 + 1) % graph.compute_tiles.size
    return _shaped(made, value.shape)


def _unary(builder: Builder, op: Operation, tensors: Mapping[Value, Tensor]) -> Tensor:
    return unary(builder, op.attributes["function"], _tensor(builder, op.inputs[0], tensors))


def _binary(builder: Builder, op: Operation, tensors: Mapping[Value, Tensor]) -> Tensor:
    a, b = (_tensor(builder, value, tensors) for value in op.inputs)
    if a.dtype != b.dtype:
        raise BadModel(f"{op.name!r}: {a.dtype} and {b.dtype} cannot be combined: cast one first")
    return binary(builder, op.attributes["function"], a, b, op.output.shape)


def _window(op: Operation) -> Window:
    keys = ("kernel", "stride", "dilation", "padding_before", "padding_after")
    return Window(*(tuple(op.attributes[key]) for key in keys))


def _convolution(builder: Builder, op: Operation, tensors: Mapping[Value, Tensor]) -> Tensor:
    x, weights = op.inputs
    if weights.constant is None:
        raise BadModel(f"{op.name!r}: weights that are not constant are not there yet")
    return convolution(
        builder,
        _tensor(builder, x, tensors),
        np.asarray(weights.constant),
        _window(op),
        op.attributes["groups"],
        available_memory_proportion=op.attributes.get("available_memory_proportion"),
        partials_type=op.attributes.get("partials_type"),
    )


def _matmul(builder: Builder, op: Operation, tensors: Mapping[Value, Tensor]) -> Tensor:
    a, b = op.inputs
    rows, inner = a.shape[-2:]
    columns = b.shape[-1]
    left = _tensor(builder, a, tensors)
    if all(size == 1 for size in b.shape[:-2]):  # one right operand for all rows
        shape = (1, prod(a.shape[:-1]), inner)
        left = rearranged(builder, left, shape, "rearrangeLeft")
        right = _right(builder, b, tensors, (1, inner, columns))
    else:
        batch = op.output.shape[:-2]
        left = left.broadcast_to((*batch, rows, inner))
        left = rearranged(builder, left, (prod(batch), rows, inner), "rearrangeLeft")
        if b.constant is not None:
            spread = np.broadcast_to(b.constant, (*batch, inner, columns))
            right = np.ascontiguousarray(spread).reshape(prod(batch), inner, columns)
        else:
            stretched = tensors[b].broadcast_to((*batch, inner, columns))
            right = rearranged(builder, stretched, (prod(batch), inner, columns), "rearrangeRight")
    product = matmul(
        builder,
        left,
        right,
        available_memory_proportion=op.attributes.get("available_memory_proportion"),
        partials_type=op.attributes.get("partials_type"),
    )
    return rearranged(builder, product, op.output.shape, "rearrange")


def _right(
    builder: Builder, b: Value, tensors: Mapping[Value, Tensor], shape: tuple[int, ...]
) -> Tensor | NDArray[Any]:
    if b.constant is not None:
        return np.asarray(b.constant).reshape(shape)
    return rearranged(builder, tensors[b], shape, "rearrangeRight")


def _pool(builder: Builder, op: Operation, tensors: Mapping[Value, Tensor]) -> Tensor:
    return pool(
        builder,
        _tensor(builder, op.inputs[0], tensors),
        _window(op),
        is_max=op.kind == "max_pool",
        counts_padding=op.attributes.get("counts_padding", False),
    )


def _reduce(builder: Builder, op: Operation, tensors: Mapping[Value, Tensor]) -> Tensor:
    return reduce(
        builder,
        op.attributes["operation"],
        _tensor(builder, op.inputs[0], tensors),
        op.attributes["axes"],
        op.attributes["scale"],
    )


def _reshape(builder: Builder, op: Operation, tensors: Mapping[Value, Tensor]) -> Tensor:
    x = _tensor(builder, op.inputs[0], tensors)
    return rearranged(builder, x, op.attributes["shape"], "rearrange")


def _transpose(builder: Builder, op: Operation, tensors: Mapping[Value, Tensor]) -> Tensor:
    return _tensor(builder, op.inputs[0], tensors).dim_shuffle(*op.attributes["order"])


def _cast(builder: Builder, op: Operation, tensors: Mapping[Value, Tensor]) -> Tensor:
    x = _tensor(builder, op.inputs[0], tensors)
    dtype = dtype_of(op.output.dtype)
    return x if x.dtype == dtype else cast(builder, x, dtype)


_OPERATIONS: dict[str, Any] = {
    "unary": _unary,
    "binary": _binary,
    "convolution": _convolution,
    "matmul": _matmul,
    "max_pool": _pool,
    "average_pool": _pool,
    "reduce": _reduce,
    "reshape": _reshape,
    "transpose": _transpose,
    "cast": _cast,
}
