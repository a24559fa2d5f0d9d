"""Draws random ONNX graphs from a seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

__all__ = ["Drawing", "drawn_inputs", "drawn_model"]

Shape = tuple[int, ...]

#: Operator set versions that models are drawn in: forms with axes as attribute and as operand.
_OPSETS = (13, 15, 17, 18, 20)
#: Elements of a result that is used further.
_MOST_ELEMENTS = 4096


@dataclass(frozen=True)
class Drawn:
    """A value of the graph."""

    name: str
    shape: Shape
    is_float: bool = True

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass
class Drawing:
    """A graph that is being drawn.

    Parameters
    ----------
    random
        Where all choices come from.
    opset
        Of ONNX's own operators.
    """

    random: np.random.Generator
    opset: int
    values: list[Drawn] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)
    _n_names: int = 0

    def integer(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`, both included."""
        return int(self.random.integers(low, high + 1))

    def choice(self, options: Sequence[Any]) -> Any:
        """Return one of the options."""
        return options[self.integer(0, len(options) - 1)]

    def is_chosen(self, share: float = 0.5) -> bool:
        """Return whether something happens that happens in a share of cases."""
        return bool(self.random.random() < share)

    def value(
        self, least_rank: int = 0, most_rank: int = 5, *, is_float: bool = True
    ) -> Drawn | None:
        """Return a value of the graph of a rank in a range; None if there is none."""
        fitting = [
            v
            for v in self.values
            if least_rank <= v.rank <= most_rank and v.is_float == is_float and 0 not in v.shape
        ]
        # Newer values make deeper graphs.
        return self.choice(fitting[-4:]) if fitting else None

    def name(self) -> str:
        """Return a new name."""
        self._n_names += 1
        return f"v{self._n_names}"

    def weight(self, shape: Shape, scale: float = 1.0) -> str:
        """Add a weight of normal numbers and return its name."""
        array = (self.random.standard_normal(shape) * scale).astype(np.float32)
        return self.constant(array)

    def constant(self, array: NDArray[Any] | Sequence[int]) -> str:
        """Add an initializer, of int64 if it is a list, and return its name."""
        built = np.asarray(array, np.int64) if isinstance(array, list | tuple) else array
        name = self.name()
        self.weights.append(numpy_helper.from_array(np.asarray(built), name))
        return name

    def emit(
        self, op_type: str, inputs: Sequence[str], *, n_outputs: int = 1, **attributes: Any
    ) -> list[str]:
        """Add a node and return the names of its results."""
        names = [self.name() for _ in range(n_outputs)]
        self.nodes.append(helper.make_node(op_type, inputs, names, f"n_{names[0]}", **attributes))
        return names


def drawn_model(
    seed: int, operators: Sequence[Callable[[Drawing], bool]], most_nodes: int = 8
) -> onnx.ModelProto:
    """Return a model with all values that no node reads as outputs.

    Parameters
    ----------
    seed
        Of all choices.
    operators
        What a node may be: functions that add nodes, or return False where no value fits.
    most_nodes
        Number of nodes, at most.
    """
    random = np.random.default_rng(seed)
    drawing = Drawing(random, int(random.choice(_OPSETS)))
    inputs = [_input(drawing, f"x{i}") for i in range(drawing.integer(1, 3))]
    expected = drawing.integer(1, most_nodes)
    for _ in range(4 * expected):
        if len(drawing.nodes) >= expected:
            break
        n_nodes, n_weights = len(drawing.nodes), len(drawing.weights)
        if not (drawing.choice(operators)(drawing) and _is_sound(drawing, inputs, n_nodes)):
            del drawing.nodes[n_nodes:], drawing.weights[n_weights:]
    return onnx.shape_inference.infer_shapes(_model(drawing, inputs), data_prop=True)


def _input(drawing: Drawing, name: str) -> Drawn:
    """Add an input of the model."""
    shape = tuple(drawing.integer(1, 7) for _ in range(drawing.integer(1, 5)))
    built = Drawn(name, shape, drawing.is_chosen(0.85))
    drawing.values.append(built)
    return built


def _is_sound(drawing: Drawing, inputs: Sequence[Drawn], n_nodes: int) -> bool:
    """Take in the results of the nodes since `n_nodes`; False where ONNX finds no shape of one."""
    try:
        inferred = onnx.shape_inference.infer_shapes(
            _model(drawing, inputs), check_type=True, strict_mode=True, data_prop=True
        )
    except onnx.shape_inference.InferenceError:
        return False
    known = {info.name: info.type.tensor_type for info in inferred.graph.value_info}
    known |= {info.name: info.type.tensor_type for info in inferred.graph.output}
    results = []
    for node in drawing.nodes[n_nodes:]:
        for name in node.output:
            dims = known[name].shape.dim if name in known else None
            if dims is None or not all(d.HasField("dim_value") and d.dim_value > 0 for d in dims):
                return False
            shape = tuple(d.dim_value for d in dims)
            if np.prod(shape) > _MOST_ELEMENTS or len(shape) > 6:
                return False
            kind = known[name].elem_type
            if kind in (TensorProto.FLOAT, TensorProto.INT32):
                results.append(Drawn(name, shape, kind == TensorProto.FLOAT))
    drawing.values += results
    return True


def _model(drawing: Drawing, inputs: Sequence[Drawn]) -> onnx.ModelProto:
    """Return what is drawn so far as a model."""
    read = {name for node in drawing.nodes for name in node.input}
    results = [name for node in drawing.nodes for name in node.output if name not in read]
    infos = [
        helper.make_tensor_value_info(
            v.name, TensorProto.FLOAT if v.is_float else TensorProto.INT32, v.shape
        )
        for v in inputs
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in results]
    graph = helper.make_graph(drawing.nodes, "drawn", infos, outputs, drawing.weights)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", drawing.opset)], ir_version=9
    )


def drawn_inputs(model: onnx.ModelProto, seed: int) -> dict[str, NDArray[Any]]:
    """Return inputs for a model: floats around 0, integers from -9 to 9."""
    random = np.random.default_rng(seed)
    results: dict[str, NDArray[Any]] = {}
    for info in model.graph.input:
        tensor = info.type.tensor_type
        shape = tuple(dim.dim_value for dim in tensor.shape.dim)
        if tensor.elem_type == TensorProto.FLOAT:
            results[info.name] = random.standard_normal(shape).astype(np.float32)
        else:
            results[info.name] = random.integers(-9, 10, shape).astype(np.int32)
    return results
