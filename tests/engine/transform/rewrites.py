"""Taken-apart operators, written with numpy's operators, and what the passes make of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper
from tests.engine.operators.graphs import both, info, model_of

from tilescope.engine import load_onnx
from tilescope.engine.transform import transform

__all__ = ["Taken", "functions", "values"]

TYPES = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16}


class Taken:
    """A value of a model that is being written; numbers become constants of its type."""

    #: numpy leaves operators with an array on their left to this class.
    __array_ufunc__ = None

    def __init__(self, writer: Writer, name: str) -> None:
        self.writer, self.name = writer, name

    def op(self, kind: str, *inputs: Any, **attributes: Any) -> Taken:
        return self.writer.add(kind, [self, *inputs], **attributes)

    def __add__(self, other: Any) -> Taken:
        return self.op("Add", other)

    def __sub__(self, other: Any) -> Taken:
        return self.op("Sub", other)

    def __mul__(self, other: Any) -> Taken:
        return self.op("Mul", other)

    def __truediv__(self, other: Any) -> Taken:
        return self.op("Div", other)

    def __radd__(self, other: Any) -> Taken:
        return self.writer.add("Add", [other, self])

    def __rsub__(self, other: Any) -> Taken:
        return self.writer.add("Sub", [other, self])

    def __rmul__(self, other: Any) -> Taken:
        return self.writer.add("Mul", [other, self])

    def __pow__(self, other: Any) -> Taken:
        return self.op("Pow", other)

    def mean(self, *axes: int, keepdims: int = 1) -> Taken:
        return self.op("ReduceMean", axes=list(axes), keepdims=keepdims)


class Writer:
    """Collects nodes and constants."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, NDArray[Any]] = {}

    def add(self, kind: str, inputs: Sequence[Any], **attributes: Any) -> Taken:
        name = f"{kind.lower()}{len(self.nodes)}"
        names = [item.name if isinstance(item, Taken) else self.constant(item) for item in inputs]
        self.nodes.append(helper.make_node(kind, names, [name], name=name, **attributes))
        return Taken(self, name)

    def constant(self, value: Any) -> str:
        name = f"constant{len(self.constants)}"
        array = np.asarray(value)
        is_typed = isinstance(value, np.ndarray | np.generic)
        self.constants[name] = array if is_typed else array.astype(self.dtype)
        return name


def written(
    make: Callable[[Taken], Taken | tuple[Taken, ...]], shape: Sequence[int], dtype: str = "float32"
) -> onnx.ModelProto:
    """Return a model of one input x; its results are those of the function."""
    writer = Writer(dtype)
    built = make(Taken(writer, "x"))
    results = built if isinstance(built, tuple) else (built,)
    outputs = []
    for i, result in enumerate(results):
        writer.nodes.append(helper.make_node("Identity", [result.name], [f"y{i}"]))
        outputs.append(onnx.ValueInfoProto(name=f"y{i}"))
    model = model_of(
        writer.nodes, [info("x", shape, TYPES[dtype])], outputs, writer.constants, opset=17
    )
    return onnx.shape_inference.infer_shapes(model)


def functions(model: onnx.ModelProto, folder: Path, without: Sequence[str] = ()) -> list[str]:
    """Return what is left after the passes: functions and operators in their order."""
    onnx.save(model, folder / "model.onnx")
    built = transform(load_onnx(folder / "model.onnx"), without)
    return [
        op.attributes.get("kind", op.attributes.get("function", op.operator.key))
        for op in built.operations
    ]


def values(
    model: onnx.ModelProto, folder: Path, shape: Sequence[int], dtype: str = "float32"
) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Return the results here and in onnxruntime for numbers around zero."""
    x = np.random.default_rng(3).standard_normal(shape) * 2
    return both(model, folder / "model.onnx", {"x": x.astype(dtype)})
