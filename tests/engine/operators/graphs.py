"""Small ONNX models, and their results on the machine and in onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from tilescope.engine import Engine, compile_model, load_machine, load_onnx, resolve_options

__all__ = ["both", "info", "model_of"]


def info(
    name: str, shape: Sequence[int | None], kind: int = TensorProto.FLOAT
) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    initializers: Mapping[str, np.ndarray] | None = None,
    opset: int = 17,
) -> onnx.ModelProto:
    weights = [onnx.numpy_helper.from_array(a, n) for n, a in (initializers or {}).items()]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def both(
    model: onnx.ModelProto, path: Path, inputs: Mapping[str, np.ndarray]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return all outputs on 4 tiles and in onnxruntime."""
    onnx.save(model, path)
    compiled = compile_model(
        load_onnx(path), load_machine("gc200", tiles_per_ipu=4), is_checked=True
    )
    with Engine(compiled.executable, resolve_options(environ={})) as engine:
        actual = compiled.run(engine, inputs)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    expected = session.run(None, dict(inputs))
    names = [output.name for output in model.graph.output]
    return [(actual[name], np.asarray(item)) for name, item in zip(names, expected, strict=True)]
