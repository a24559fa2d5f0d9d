"""C22 and F19 to F21: training steps of ResNet-50, of one image and of many on replicas."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tilescope.engine import (
    Loss,
    Sgd,
    compile_model,
    for_training,
    in_half,
    load_machine,
    load_onnx,
    with_synthetic_data,
)
from tilescope.engine.execute.timeline import timeline_of
from tilescope.engine.ir import Model, Recomputation

__all__ = [
    "batch_norm_of_one",
    "batch_norm_of_two",
    "group_norm_of_one",
    "replicated_resnet50_step",
    "resnet50_step",
]

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
        x = self.add("BatchNormalization", [x, *factors, *statistics], name, training_mode=1)
        return self.add("Identity", [x], f"{name}/checkpoint")

    def from_bytes(self, x: str) -> str:
        """Add the normalisation of images."""
        x = self.add("Cast", [x], "bytes/cast", to=TensorProto.FLOAT)
        scale = self.weight("bytes/scale", (3, 1, 1), 0.0, 1 / (255 * 0.225))
        x = self.add("Mul", [x, scale], "bytes/scaled")
        return self.add("Sub", [x, self.weight("bytes/mean", (3, 1, 1), 0.0, 2.0)], "bytes/normal")

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
    model = _resnet50(norm, batch)
    return for_training(model, Loss(kind="cross-entropy"), Sgd(lr=0.01, is_constant=True))


def _resnet50(norm: str, batch: int, *, has_bytes: bool = False) -> Model:
    """Return ResNet-50 in half; images may be bytes, which it normalises."""
    net = _Network(norm, batch)
    x = net.from_bytes("x") if has_bytes else "x"
    out = net.add("Relu", [net.convolved(x, "stem", 3, 64, 7, 2)], "stem/relu")
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
    kind = TensorProto.UINT8 if has_bytes else TensorProto.FLOAT
    graph = helper.make_graph(
        net.nodes,
        "resnet50",
        [helper.make_tensor_value_info("x", kind, [batch, 3, _SIDE, _SIDE])],
        [helper.make_tensor_value_info("dense", TensorProto.FLOAT, [batch, _CLASSES])],
        [numpy_helper.from_array(values, name) for name, values in net.weights.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    with TemporaryDirectory() as folder:
        path = Path(folder) / "resnet50.onnx"
        onnx.save(proto, path)
        return in_half(load_onnx(path, trainable="*", frozen=("bytes/*",)))


#: Sums of blocks that are kept for the backward pass, and what else is. Source: graphcore/examples,
#: vision/cnns/pytorch/train/configs.yml: resnet50, recompute_checkpoints.
_KEPT_SUMS = (0, 1, 2, 3, 5, 6, 7, 9, 11, 12, 13, 14, 15)
_KEPT = ("stage3/*/[abc]", "stage3/*/shortcut", "stage3/*/checkpoint", "mean", "dense")


def replicated_resnet50_step(batch: int, n_rounds: int, n_replicas: int) -> Model:
    """Return a training step of ResNet-50 on replicas, with bytes as images, and SGD with momentum.

    Parameters
    ----------
    batch, n_rounds, n_replicas
        Images of a micro-batch, micro-batches, and replicas.
    """
    blocks = [f"stage{s}/block{b}/sum" for s, (n, _, _) in enumerate(_STAGES) for b in range(n)]
    return for_training(
        _resnet50("batch", batch, has_bytes=True),
        Loss(kind="cross-entropy"),
        Sgd(lr=0.01, momentum=0.9, weight_decay=1e-4, is_combined=True, is_constant=True),
        n_rounds,
        n_replicas=n_replicas,
        recomputation=Recomputation("all", kept=(*(blocks[i] for i in _KEPT_SUMS), *_KEPT)),
    )


def _figures(norm: str, batch: int) -> dict[str, float]:
    """Return cycles and bytes of a step whose images are on the device, without code, as published.

    The IPU Model of the library's tools compiles no code for the tiles.
    """
    machine = load_machine("gc2", parameter_set="ipu_model", compiles_code=False)
    model = with_synthetic_data(resnet50_step(norm, batch), "zeros", 0)
    executable = compile_model(model, machine, is_instrumented=False).executable
    memory = executable.memory
    return {
        "cycles": timeline_of(executable.roots[0], machine)[0].n_cycles,
        "memory, all tiles": int(memory.excluding_gaps.sum()),
        "memory of a tile, mean": float(memory.excluding_gaps.mean()),
        "memory of a tile, most": int(memory.excluding_gaps.max()),
    }


def batch_norm_of_one() -> Mapping[str, float]:
    """Return the figures of a step with batch norms, one image."""
    figures = _figures("batch", 1)
    return {name: figures[name] for name in _OF_STEPS}


def group_norm_of_one() -> Mapping[str, float]:
    """Return the memory of a step with group norms, one image."""
    figures = _figures("group", 1)
    return {name: figures[name] for name in ("memory of a tile, mean", "memory of a tile, most")}


def batch_norm_of_two() -> Mapping[str, float]:
    """Return the figures of a step with batch norms, two images."""
    figures = _figures("batch", 2)
    return {name: figures[name] for name in _OF_STEPS}


_OF_STEPS = ("cycles", "memory, all tiles", "memory of a tile, most")
