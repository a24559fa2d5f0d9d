"""Types of all values of a model without its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
from numpy.typing import ArrayLike
from onnx import shape_inference

from tilescope.engine.errors import EngineError
from tilescope.engine.frontend.onnx.facts.multiply_adds import Shape
from tilescope.engine.frontend.onnx.facts.oddities import oddities
from tilescope.engine.frontend.onnx.nodes.graph import GraphImport
from tilescope.engine.frontend.onnx.nodes.settings import add_settings
from tilescope.engine.frontend.onnx.source.read import opsets_of
from tilescope.engine.frontend.onnx.source.sequences import tensors_only
from tilescope.engine.frontend.onnx.source.skeleton import has_elements
from tilescope.engine.frontend.onnx.source.tensor_types import check_type, element_type
from tilescope.engine.frontend.onnx.source.walk import domain_of, graphs_of, nodes_of
from tilescope.engine.ir import Constant, IrBuilder, Node, Region, Value
from tilescope.engine.notice import Notice

__all__ = ["InputSize", "Types", "types_by_schema", "types_of"]

#: Shape and type of values by name.
Types = dict[str, tuple[Shape, str]]


@dataclass(frozen=True)
class InputSize:
    """An input that the host gives; a size is None where neither model nor user says it."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]

    @property
    def is_open(self) -> bool:
        """Whether a size is missing."""
        return None in self.shape

    def __str__(self) -> str:
        sizes = " x ".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.name}: {self.dtype} {sizes or 'scalar'}"


def types_of(
    model: onnx.ModelProto, inputs: Sequence[InputSize], values: Mapping[str, ArrayLike]
) -> tuple[Types, str, tuple[Notice, ...]]:
    """Return the types that follow from those of the inputs, why the model is refused, and notices.

    Parameters
    ----------
    model
        Of supported operators only.
    inputs
        Those that the model has.
    values
        Contents of some of them, fixed at compile time.

    Raises
    ------
    BadInput
        When a content does not fit its input.
    """
    opened = [
        value_type for value_type in inputs if value_type.is_open and value_type.name not in values
    ]
    if opened:
        sizes = ",".join("N" if size is None else str(size) for size in opened[0].shape)
        problem = f"set the sizes of {opened[0].name!r} with --shape {opened[0].name}={sizes}"
        return types_by_schema(model), problem, ()
    recorder = _TypeRecorder("")
    imported = _SkeletonImport(recorder, model.graph, opsets_of(model), Path())
    imported.add_parameters()
    add_settings(imported, model.graph.input, values)
    try:
        for value_type in inputs:
            if value_type.name not in values:
                check_type(value_type.dtype, f"Input {value_type.name!r}", is_input=True)
                shape = tuple(size or 0 for size in value_type.shape)
                imported.values[value_type.name] = recorder.input(
                    value_type.name, shape, value_type.dtype
                )
        outputs = imported.add_nodes()
        tensors_only("The result of the model", outputs)
        notices = oddities(model.graph, recorder.operations, outputs, imported.counts, ())
    except EngineError as error:
        return types_by_schema(model), str(error).splitlines()[0], ()
    except KeyError as error:
        return types_by_schema(model), f"no node computes {error}, which the graph reads", ()
    return recorder.types, "", notices


class _TypeRecorder(IrBuilder):
    """Records the types of all values that it makes, those of regions included.

    Attributes
    ----------
    types
        By name.
    """

    def __init__(self, name: str, types: Types | None = None) -> None:
        super().__init__(name)
        self.types: Types = {} if types is None else types

    def record(self, name: str, value: Value) -> None:
        """Take in the type of a value."""
        self.types[name] = value.shape, value.dtype

    def input(self, name: str, shape: Sequence[int], dtype: str) -> Value:
        value = super().input(name, shape, dtype)
        self.record(name, value)
        return value

    def constant(self, values: ArrayLike, name: str) -> Constant:
        value = super().constant(values, name)
        self.record(name, value)
        return value

    def add(self, node: Node, outputs: Sequence[str]) -> tuple[Value | None, ...]:
        results = super().add(node, outputs)
        for name, value in zip(outputs, results, strict=True):
            if value is not None:
                self.record(name, value)
        return results

    def inside(self, name: str) -> IrBuilder:
        return _TypeRecorder(name, self.types)

    def region(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> Region:
        for value in inputs:
            self.record(value.name, value)
        return super().region(inputs, outputs)


class _SkeletonImport(GraphImport):
    """Imports a skeleton: weights without elements are values that a run provides."""

    builder: _TypeRecorder

    def add_parameters(self, trainable: frozenset[str] = frozenset()) -> None:
        graph, held = self.graph, onnx.GraphProto()
        held.initializer.extend(t for t in graph.initializer if has_elements(t))
        self.graph = held
        super().add_parameters(trainable)
        self.graph = graph
        for tensor in graph.initializer:
            if tensor.name not in self.values:
                dtype = element_type(tensor.data_type, f"Initializer {tensor.name!r}")
                self.values[tensor.name] = Value(tensor.name, tuple(tensor.dims), dtype)
            self.builder.record(tensor.name, self.values[tensor.name])


def _equation(node: onnx.NodeProto) -> str:
    """Return the equation of an Einsum; empty for other nodes."""
    if node.op_type != "Einsum":
        return ""
    equations = (a.s for a in node.attribute if a.name == "equation")
    return next(equations, b"").decode("utf-8", "replace")


def types_by_schema(model: onnx.ModelProto) -> Types:
    """Return the types that ONNX's own inference finds; it folds less than the import."""
    for graph in graphs_of(model.graph):
        del graph.value_info[:]
    for info in model.graph.output:
        info.type.tensor_type.ClearField("shape")
    # It makes the values of a Range, however many, and never ends for an Einsum of one or two dots.
    is_bounded = all(node.op_type != "Range" for node in nodes_of(model.graph))
    if any("." in _equation(node).replace("...", "") for node in nodes_of(model.graph)):
        return {}
    # Its inference of a TreeEnsemble without attributes ends the process.
    if any(domain_of(node) == "ai.onnx.ml" for node in nodes_of(model.graph)):
        return {}
    try:
        model = shape_inference.infer_shapes(model, data_prop=is_bounded)
    except (shape_inference.InferenceError, RuntimeError):
        return {}
    types: Types = {}
    for graph in graphs_of(model.graph):
        for tensor in graph.initializer:
            dtype = element_type(tensor.data_type, f"Initializer {tensor.name!r}")
            types[tensor.name] = tuple(tensor.dims), dtype
        for info in (*graph.input, *graph.value_info, *graph.output):
            stated = info.type.tensor_type
            if stated.HasField("shape") and all(d.HasField("dim_value") for d in stated.shape.dim):
                shape = tuple(dim.dim_value for dim in stated.shape.dim)
                types[info.name] = shape, element_type(stated.elem_type, info.name)
    return types
