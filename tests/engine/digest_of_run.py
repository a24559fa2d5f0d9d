"""Print digests of what models compute: ``python -m tests.engine.digest_of_run [MODEL...]``.

Without names, of a model with all kinds of kernels; else of models of the catalogue.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tests.models.measure import fixed_of, inputs_of

from tilescope.engine import (
    CompiledModel,
    Engine,
    Loss,
    Sgd,
    Trainer,
    compile_model,
    for_training,
    load_machine,
    load_onnx,
)
from tilescope.engine.models import all_models, fetch
from tilescope.engine.transform import in_half

__all__ = ["model"]


def model() -> onnx.ModelProto:
    """Return a model with products, sums and functions of all kinds of kernels."""
    random = np.random.default_rng(3)

    def constant(name: str, *shape: int) -> TensorProto:
        return numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name)

    def node(kind: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
        return helper.make_node(kind, inputs.split(), [output], **attributes)

    pads = [1, 1, 1, 1]
    nodes = [
        node("Conv", "x w1 b1", "c1", kernel_shape=[3, 3], pads=pads),
        node("Conv", "c1 w2", "c2", kernel_shape=[3, 3], pads=pads, group=24),
        node("Relu", "c2", "r2"),
        node("AveragePool", "r2", "a", kernel_shape=[2, 2], strides=[2, 2]),
        node("MaxPool", "c1", "m", kernel_shape=[2, 2], strides=[2, 2]),
        node("Tanh", "m", "t"),
        node("Add", "a t", "s"),
        node("Flatten", "s", "f", axis=2),
        node("MatMul", "f w3", "p"),
        node("LayerNormalization", "p g h", "n"),
        node("Gelu", "n", "e"),
        node("Softmax", "e", "probability"),
        node("ReduceSum", "e axes", "total", keepdims=0),
        node("ReduceLogSumExp", "c1 all", "log", keepdims=0),
        node("Erf", "total", "erf"),
    ]
    weights = [
        constant("w1", 24, 3, 3, 3),
        constant("b1", 24),
        constant("w2", 24, 1, 3, 3),
        constant("w3", 36, 29),
        constant("g", 29),
        constant("h", 29),
        numpy_helper.from_array(np.array([1], np.int64), "axes"),
        numpy_helper.from_array(np.array([1, 2, 3], np.int64), "all"),
    ]
    graph = helper.make_graph(
        nodes,
        "kernels",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 12, 12])],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
            for name in ("probability", "total", "log", "erf")
        ],
        weights,
    )
    opsets = [helper.make_opsetid("", 20)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _digest(compiled: CompiledModel, inputs: Mapping[str, NDArray[Any]]) -> str:
    """Return the digest of a model's outputs."""
    with Engine(compiled.executable) as engine:
        outputs = compiled.run(engine, inputs)
    content = b"".join(np.ascontiguousarray(array).tobytes() for array in outputs.values())
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def _of_kernels() -> str:
    """Return the digests of the model of this file: of runs in float and half, and of its weights.

    The weights are those after training.
    """
    machine = load_machine("gc200", tiles_per_ipu=16)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.onnx"
        onnx.save(model(), path)
        compiled = compile_model(load_onnx(path), machine)
        in_halves = compile_model(in_half(load_onnx(path)), machine)
        trained = for_training(
            load_onnx(path, trainable="*"), Loss(kind="mse"), Sgd(lr=0.1, momentum=0.9), 2
        )
    with Trainer(trained, machine) as trainer:
        random = np.random.default_rng(5)
        shapes = {value.name: (2, *value.shape) for value in trainer.compiled.model.inputs}
        for _ in range(3):
            trainer.step({k: random.random(s).astype(np.float32) for k, s in shapes.items()})
        weights = trainer.weights()
    content = b"".join(weights[name].tobytes() for name in sorted(weights))
    of_weights = hashlib.blake2b(content, digest_size=8).hexdigest()
    of_runs = " ".join(_digest(one, one.random_inputs(0)) for one in (compiled, in_halves))
    return f"{of_runs} {of_weights}"


def _of_model(name: str) -> str:
    """Return the digest of a model of the catalogue."""
    path, argument = fetch(name), inputs_of(all_models()[name])
    shapes, fixed = fixed_of(path, argument)
    compiled = compile_model(load_onnx(path, shapes, values=fixed), load_machine("gc200"))
    return _digest(compiled, {value.name: argument[value.name] for value in compiled.model.inputs})


def main() -> None:
    """Compile and run the models, and print a digest of the outputs of each."""
    digests = [_of_model(name) for name in sys.argv[1:]] or [_of_kernels()]
    sys.stdout.write("\n".join(digests) + "\n")


if __name__ == "__main__":
    main()
