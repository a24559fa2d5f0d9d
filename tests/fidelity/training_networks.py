"""ResNet-50 as it is trained: T1, T4 and T5."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tilescope.engine import Loss, Sgd, for_training, in_half, load_onnx
from tilescope.engine.ir import Model

__all__ = ["resnet50_step"]

#: Blocks, channels within a block, and the stride of the first, by stage.
_STAGES = ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2))
_SIDE, _CLASSES = 224, 1000


class _Network:
    """Collects nodes and weights."""

    def __init__(self, norm: str, batch: int) -> None:
        self.norm, self.batch = norm, batch
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, NDArray[Any]] = {}
        self._rng = np.random.default_rng(0)

    def add(self, kind: str, inputs: list[str], name: str, **attributes: Any) -> str:
        outputs = [name]
        if kind == "BatchNormalization":
            outputs += [f"{name}/mean/running", f"{name}/variance/running"]
        self.nodes.append(helper.make_node(kind, inputs, outputs, name=name, **attributes))
        return name

    def weight(self, name: str, shape: tuple[int, ...], scale: float, mean: float = 0.0) -> str:
        values = self._rng.normal(mean, scale, shape) if scale else np.full(shape, mean)
        self.weights[name] = values.astype(np.float32)
        return name

    def normalised(self, x: str, name: str, channels: int) -> str:
        factors = [
            self.weight(f"{name}/scale", (channels,), 0.0, 1.0),
            self.weight(f"{name}/bias", (channels,), 0.0),
        ]
        if self.norm == "group":
            return self.add("GroupNormalization", [x, *factors], name, num_groups=32)
        statistics = [
            self.weight(f"{name}/mean", (channels,), 0.0),
            self.weight(f"{name}/variance", (channels,), 0.0, 1.0),
        ]
        return self.add("BatchNormalization", [x, *factors, *statistics], name, training_mode=1)

    def convolved(  # the sizes of a layer
        self, x: str, name: str, inputs: int, outputs: int, kernel: int, stride: int
    ) -> str:
        shape = (outputs, inputs, kernel, kernel)
        weight = self.weight(f"{name}/weight", shape, np.sqrt(2 / (inputs * kernel**2)))
        out = self.add(
            "Conv",
            [x, weight],
            name,
            kernel_shape=[kernel] * 2,
            strides=[stride] * 2,
            pads=[kernel // 2] * 4,
        )
        return self.normalised(out, f"{name}/norm", outputs)


def resnet50_step(norm: str, batch: int) -> Model:
    """Return a training step of ResNet-50 in half: cross entropy, and SGD without momentum.

    Parameters
    ----------
    norm
        ``batch``, or ``group`` for 32 groups.
    batch
        Images.
    """
    net = _Network(norm, batch)
    out = net.add("Relu", [net.convolved("x", "stem", 3, 64, 7, 2)], "stem/relu")
    out = net.add("MaxPool", [out], "pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    n_channels = 64
    for stage, (n_blocks, width, first_stride) in enumerate(_STAGES):
        for block in range(n_blocks):
            name, stride = f"stage{stage}/block{block}", first_stride if block == 0 else 1
            inner = net.convolved(out, f"{name}/a", n_channels, width, 1, 1)
            inner = net.add("Relu", [inner], f"{name}/a/relu")
            inner = net.convolved(inner, f"{name}/b", width, width, 3, stride)
            inner = net.add("Relu", [inner], f"{name}/b/relu")
            inner = net.convolved(inner, f"{name}/c", width, 4 * width, 1, 1)
            if block == 0:
                out = net.convolved(out, f"{name}/shortcut", n_channels, 4 * width, 1, stride)
            n_channels = 4 * width
            out = net.add("Add", [inner, out], f"{name}/sum")
            out = net.add("Relu", [out], f"{name}/relu")
    out = net.add("GlobalAveragePool", [out], "mean")
    out = net.add("Flatten", [out], "flatten")
    weights = [
        net.weight("dense/weight", (n_channels, _CLASSES), 0.01),
        net.weight("dense/bias", (_CLASSES,), 0.0),
    ]
    net.add("Gemm", [out, *weights], "dense")
    graph = helper.make_graph(
        net.nodes,
        "resnet50",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, _SIDE, _SIDE])],
        [helper.make_tensor_value_info("dense", TensorProto.FLOAT, [batch, _CLASSES])],
        [numpy_helper.from_array(values, name) for name, values in net.weights.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    with TemporaryDirectory() as folder:
        path = Path(folder) / "resnet50.onnx"
        onnx.save(proto, path)
        model = in_half(load_onnx(path, trainable="*"))
    return for_training(model, Loss(kind="cross-entropy"), Sgd(lr=0.01, is_constant=True))
