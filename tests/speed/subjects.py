"""Models that are measured beside onnxruntime, by class: those of the catalogue, and made ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tests.models.measure import fixed_of, inputs_of

from tilescope.engine.frontend.source_model import Setup
from tilescope.engine.models import all_models, fetch

__all__ = ["CLASSES", "SUBJECTS", "Subject"]

#: Classes in the order of the page.
CLASSES = (
    "dense",
    "depthwise",
    "recurrent",
    "transformer",
    "control flow",
    "half",
    "tiny",
    "detection",
)
_OF_CATALOGUE = {
    "espcn": "dense",
    "opennsfw": "dense",
    "u2netp": "dense",
    "light-resnet50": "dense",
    "light-squeezenet": "dense",
    "magika": "dense",
    "mbv3-handwritten": "depthwise",
    "chess-cls": "depthwise",
    "ppocr-cls": "depthwise",
    "ribodetector": "recurrent",
    "nsnet2": "recurrent",
    "g2p-lstm-enc": "recurrent",
    "minilm-L3": "transformer",
    "g2p-bert": "transformer",
    "platerec-dec": "transformer",
    "silero-ov": "control flow",
    "mnist-8": "tiny",
    "oww-alexa": "tiny",
    "pulsevad-2k": "tiny",
    "ultrastar-pitch": "tiny",
    "yunet": "detection",
    "blazeface": "detection",
}
#: Models that are also measured in half, beside onnxruntime in the file's own precision.
_IN_HALF = ("opennsfw", "mbv3-handwritten", "minilm-L3")

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Subject:
    """A model to measure.

    Parameters
    ----------
    kind
        Its class, one of `CLASSES`.
    path
        Returns its file; made models are written into the folder that it is given.
    inputs
        Returns the inputs by name, as the file takes them.
    precision
        What it is computed in here.
    """

    name: str
    kind: str
    path: Callable[[Path], Path]
    inputs: Callable[[], Arrays]
    precision: str = "float"

    def setup(self, path: Path) -> Setup:
        """Return the sizes and values of its file."""
        shapes, fixed = fixed_of(path, self.inputs())
        return Setup(shapes=shapes, values=fixed, precision=self.precision)


def _catalogued(name: str, kind: str, precision: str = "float") -> Subject:
    label = f"{name} in half" if precision == "half" else name
    return Subject(
        label, kind, lambda _: fetch(name), lambda: inputs_of(all_models()[name]), precision
    )


def _drawn(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def _saved(path: Path, nodes: list[Any], weights: Arrays, shape: tuple[int, ...], out: str) -> Path:
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        path.stem,
        [info("x", TensorProto.FLOAT, shape)],
        [info(out, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(values, name) for name, values in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)
    return path


def _layers(first: str, prefix: str, n: int) -> tuple[list[Any], str]:
    """Return products with a tanh after each, and the name of the last result."""
    nodes, value = [], first
    for i in range(n):
        product, result = f"{prefix}p{i}", f"{prefix}t{i}"
        nodes += [
            helper.make_node("MatMul", [value, "w"], [product], name=f"{prefix} product {i}"),
            helper.make_node("Tanh", [product], [result], name=f"{prefix} tanh {i}"),
        ]
        value = result
    return nodes, value


def _deciding(folder: Path) -> Path:
    """Write a model of 52 nodes, of which one is an If."""
    branches = []
    for name, operator in (("then", "Relu"), ("else", "Neg")):
        node = helper.make_node(operator, ["pt"], ["z"], name=f"{name} value")
        result = helper.make_tensor_value_info("z", TensorProto.FLOAT, [16, 128])
        branches.append(helper.make_graph([node], name, [], [result]))
    before, value = _layers("x", "a", 12)
    after, last = _layers("y", "b", 12)
    middle = [
        helper.make_node("Identity", [value], ["pt"], name="before"),
        helper.make_node("ReduceSum", ["pt"], ["sum"], keepdims=0, name="sum"),
        helper.make_node("Greater", ["sum", "zero"], ["flag"], name="compare"),
        helper.make_node(
            "If", ["flag"], ["y"], then_branch=branches[0], else_branch=branches[1], name="decide"
        ),
    ]
    weights: Arrays = {"w": _drawn(128, 128) / 12, "zero": np.array(0, np.float32)}
    return _saved(folder / "deciding.onnx", [*before, *middle, *after], weights, (16, 128), last)


def _looping(folder: Path) -> Path:
    """Write a loop of 200 passes with a product and a tanh each."""
    info = helper.make_tensor_value_info
    nodes, last = _layers("v", "l", 1)
    nodes.append(helper.make_node("Identity", ["go"], ["on"], name="go on"))
    body = helper.make_graph(
        nodes,
        "pass",
        [
            info("i", TensorProto.INT64, []),
            info("go", TensorProto.BOOL, []),
            info("v", TensorProto.FLOAT, [16, 128]),
        ],
        [info("on", TensorProto.BOOL, []), info(last, TensorProto.FLOAT, [16, 128])],
    )
    node = helper.make_node("Loop", ["n", "yes", "x"], ["y"], body=body, name="loop")
    weights: Arrays = {
        "w": _drawn(128, 128) / 12,
        "n": np.array(200, np.int64),
        "yes": np.array(True),
    }
    return _saved(folder / "looping.onnx", [node], weights, (16, 128), "y")


def _long(folder: Path) -> Path:
    """Write an LSTM of 2,000 steps."""
    weights = {"W": _drawn(1, 256, 64) / 8, "R": _drawn(1, 256, 64) / 8}
    node = helper.make_node("LSTM", ["x", "W", "R"], ["y"], hidden_size=64, name="layer")
    return _saved(folder / "long.onnx", [node], weights, (2000, 1, 64), "y")


_MADE = (
    Subject("if of 52 nodes", "control flow", _deciding, lambda: {"x": _drawn(16, 128)}),
    Subject("loop of 200", "control flow", _looping, lambda: {"x": _drawn(16, 128)}),
    Subject("lstm of 2,000", "control flow", _long, lambda: {"x": _drawn(2000, 1, 64)}),
)

SUBJECTS: Mapping[str, Subject] = {
    subject.name: subject
    for subject in (
        *(_catalogued(name, kind) for name, kind in _OF_CATALOGUE.items()),
        *(_catalogued(name, "half", "half") for name in _IN_HALF),
        *_MADE,
    )
}
