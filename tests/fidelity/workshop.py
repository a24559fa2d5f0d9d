"""F27: the training of a small CNN that Graphcore's workshop of 2023 shows in screenshots."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tilescope import analyser
from tilescope.analyser.summary.metrics import values
from tilescope.engine import Loss, Sgd, for_training, load_machine, load_onnx, resolve_options
from tilescope.engine.ir import Model
from tilescope.engine.session.trainer import Trainer

__all__ = ["network", "training_step"]

_BATCH, _SIDE, _TILE = 16, 28, 201


def network() -> Model:
    """Return the network of the tutorial: two convolutions, a group norm, two linear layers."""
    rng = np.random.default_rng(0)
    shapes = {
        "conv1.weight": (5, 1, 3, 3), "conv1.bias": (5,),
        "conv2.weight": (12, 5, 5, 5), "conv2.bias": (12,),
        "norm.weight": (12,), "norm.bias": (12,),
        "fc1.weight": (100, 972), "fc1.bias": (100,),
        "fc2.weight": (10, 100), "fc2.bias": (10,),
    }  # fmt: skip
    weights = {
        name: rng.standard_normal(shape).astype(np.float32) / 10 for name, shape in shapes.items()
    }

    def node(kind: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
        return helper.make_node(kind, inputs.split(","), [output], name=output, **attributes)

    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        node("Conv", "x,conv1.weight,conv1.bias", "conv1"),
        node("Relu", "conv1", "relu"),
        node("MaxPool", "relu", "pool", **pool),
        node("Conv", "pool,conv2.weight,conv2.bias", "conv2"),
        node("Relu", "conv2", "relu_1"),
        node("GroupNormalization", "relu_1,norm.weight,norm.bias", "norm", num_groups=3),
        node("Flatten", "norm", "flatten"),
        node("Gemm", "flatten,fc1.weight,fc1.bias", "fc1", transB=1),
        node("Relu", "fc1", "relu_2"),
        node("Gemm", "relu_2,fc2.weight,fc2.bias", "fc2", transB=1),
        node("LogSoftmax", "fc2", "log_softmax", axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "ClassificationModel",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (_BATCH, 1, _SIDE, _SIDE))],
        [helper.make_tensor_value_info("log_softmax", TensorProto.FLOAT, (_BATCH, 10))],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        opset = [helper.make_opsetid("", 21)]
        onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=10), path)
        return load_onnx(path, trainable=["*"])


def training_step() -> Mapping[str, float]:
    """Return what a report of a step says, line by line as the screenshots have it."""
    model = for_training(
        network(), Loss(kind="nll", of="logarithms"), Sgd(lr=0.001, momentum=0.9, is_constant=True)
    )
    inputs = {
        "x": np.zeros((_BATCH, 1, _SIDE, _SIDE), np.float32),
        "labels": np.zeros(_BATCH, np.int32),
    }
    with TemporaryDirectory() as folder:
        code = {"autoReport.all": True, "autoReport.directory": folder}
        with Trainer(model, load_machine("bow"), resolve_options(environ={}, code=code)) as trainer:
            trainer.step(inputs)
            memory = trainer.compiled.executable.memory
        with analyser.open(folder) as report:
            known = values(report)
    tile = {name: int(array[:, _TILE].sum()) for name, array in memory.categories.items()}
    every = {name: int(array.sum()) for name, array in memory.categories.items()}
    (weight,) = (v for v in trainer.compiled.held if v.name == "fc1.weight")
    return {
        "cycles": sum(float(known[name] or 0) for name in ("cycles.compute", "cycles.exchange")),
        "floating-point operations": float(known["flops.total"] or 0),
        "tile 201, gaps included": int(memory.including_gaps[_TILE]),
        "tile 201, gaps left out": int(memory.excluding_gaps[_TILE]),
        "tile 201, control code": tile["controlCode"],
        "tile 201, vertex code": tile["vertexCode"],
        "tile 201, internal exchange code": tile["internalExchangeCode"],
        "tile 201, host exchange code": tile["hostExchangeCode"],
        "tile 201, vertex instances": tile["vertexInstanceState"],
        "vertex code": every["vertexCode"],
        "internal exchange code": every["internalExchangeCode"],
        "control code": every["controlCode"],
        "vertex instances, with fields and descriptors": every["vertexInstanceState"],
        "host exchange code": every["hostExchangeCode"],
        "stack": every["stack"],
        "instrumentation results": every["instrumentationResults"],
        "fc1.weight": int(np.prod(weight.shape)) * np.dtype(weight.dtype).itemsize,
        "packet headers": every["hostExchangePacketHeader"],
    }
