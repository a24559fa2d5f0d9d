"""C17 and C19: whole networks at several batches and types."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tests.fidelity.read_off import kind_cycles, total_cycles

from tilescope.engine import load_machine, load_onnx
from tilescope.engine.compiler import Executable
from tilescope.engine.ir import Model
from tilescope.engine.options.partials import PartialsTypes
from tilescope.engine.session.compiled_model import compile_model

__all__ = ["bert_rates", "first_resnet_rate", "resnet50", "resnet_rates"]

_LIGHT = Path(onnx.__file__).parent / "backend/test/data/light/light_resnet50.onnx"
_TYPES = {"half": TensorProto.FLOAT16, "float": TensorProto.FLOAT}
#: Source: graphcore/PopRT, benchmarks/resnet50/test_resnet50.py and bert/test_bert_base.py:
#: partials_type half. The exporter folds batch normalisations there, as the compiler does here.
_PARTIALS = {"half": PartialsTypes("half", "half"), "float": PartialsTypes("float", "float")}
#: Batches of the published tables that compile within a minute or two.
_RATES = (("half", (1, 2, 4)), ("float", (1, 2, 4)))


def resnet50(kind: str, batch: int) -> Model:
    """Return ONNX's ResNet-50 with constant weights, for a batch, in ``half`` or ``float``."""
    proto = onnx.load(_LIGHT)
    graph, to = proto.graph, _TYPES[kind]
    for value in (*graph.input, *graph.output):
        tensor = value.type.tensor_type
        if tensor.elem_type == TensorProto.FLOAT:
            tensor.elem_type = to
    for value in (graph.input[0], graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_value = batch
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                attribute.t.CopyFrom(_converted(attribute.t, kind))
    shapes = {node.input[1] for node in graph.node if node.op_type == "Reshape"}
    for tensor in graph.initializer:
        if tensor.name in shapes:
            rest = numpy_helper.to_array(tensor)[1:]
            made = numpy_helper.from_array(np.array([batch, *rest], np.int64), tensor.name)
            tensor.CopyFrom(made)
        else:
            tensor.CopyFrom(_converted(tensor, kind))
    del graph.value_info[:]
    return _loaded(proto)


def _converted(tensor: onnx.TensorProto, kind: str) -> onnx.TensorProto:
    """Return a tensor of floats in the type of the network; others as they are."""
    array = numpy_helper.to_array(tensor)
    if array.dtype != np.float32 or kind == "float":
        return tensor
    return numpy_helper.from_array(array.astype(np.float16), tensor.name)


def _loaded(proto: onnx.ModelProto) -> Model:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(proto, path)
        return load_onnx(path)


@lru_cache(maxsize=2)  # an executable of a large batch takes a gigabyte
def _compiled(kind: str, batch: int) -> Executable:
    return compile_model(
        resnet50(kind, batch), load_machine("c600"), partials=_PARTIALS[kind]
    ).executable


def _rate(executable: Executable, n_items: int) -> float:
    """Return items per second with data on the device: without the copies from and to the host."""
    copies = kind_cycles(executable, "StreamCopyMid")
    cycles = total_cycles(executable) - copies
    return float(n_items * executable.machine.clock_hz / cycles)


def first_resnet_rate() -> Mapping[str, float]:
    """Return the rate of ResNet-50 at batch 1 in half."""
    return {"half, batch 1": _rate(_compiled("half", 1), 1)}


def resnet_rates() -> Mapping[str, float]:
    """Return the rates of ResNet-50, images per second."""
    return {
        f"{kind}, batch {batch}": _rate(_compiled(kind, batch), batch)
        for kind, batches in _RATES
        for batch in batches
    }


#: Source: Devlin et al., BERT, arXiv 1810.04805: BERT base.
_LAYERS, _HIDDEN, _HEADS, _INNER = 12, 768, 12, 3072
_WORDS = 256
_VOCABULARY = 30_522


def bert_rates() -> Mapping[str, float]:
    """Return the rate of BERT base on sequences of 256 words, sequences per second."""
    executable = compile_model(
        _bert(1), load_machine("c600"), partials=_PARTIALS["half"]
    ).executable
    return {"half, batch 1": _rate(executable, 1)}


def _bert(batch: int) -> Model:
    """Return BERT base for questions in half, with random weights."""
    made = _Encoder(batch)
    x = made.embedded()
    for layer in range(_LAYERS):
        x = made.layer(x, f"layer{layer}")
    logits = made.dense(x, _HIDDEN, 2, "logits")
    inputs = ("input_ids", "attention_mask", "token_type_ids")
    graph = helper.make_graph(
        made.nodes,
        "bert",
        [helper.make_tensor_value_info(i, TensorProto.INT64, [batch, _WORDS]) for i in inputs],
        [helper.make_tensor_value_info(logits, TensorProto.FLOAT16, [batch, _WORDS, 2])],
        made.weights,
    )
    return _loaded(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))


class _Encoder:
    """Collects the nodes and weights of an encoder."""

    def __init__(self, batch: int) -> None:
        self.batch = batch
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._random = np.random.default_rng(0)

    def embedded(self) -> str:
        """Add the sum of three embeddings, normalised, and the mask that every layer adds."""
        words = self.node(
            "Gather", [self.weight((_VOCABULARY, _HIDDEN), "words"), "input_ids"], "of_words"
        )
        types = self.node(
            "Gather", [self.weight((2, _HIDDEN), "types"), "token_type_ids"], "of_types"
        )
        places = self.weight((1, _WORDS, _HIDDEN), "places")
        both = self.node("Add", [words, types], "of_words_and_types")
        mask = self.node("Cast", ["attention_mask"], "mask/half", to=TensorProto.FLOAT16)
        mask = self.reshaped(mask, (self.batch, 1, 1, _WORDS))
        left_out = self.node("Sub", [self.constant(1, "mask/one"), mask], "mask/left_out")
        self.node("Mul", [left_out, self.constant(-10_000, "mask/least")], "mask")
        return self.norm(self.node("Add", [both, places], "embedded"), "embedded/norm")

    def layer(self, x: str, name: str) -> str:
        """Add attention and the two products after it; return the name of the result."""
        heads = [self.heads(self.dense(x, _HIDDEN, _HIDDEN, f"{name}/{part}")) for part in "qkv"]
        q, k, v = heads
        turned = self.node("Transpose", [k], f"{name}/turned", perm=[0, 1, 3, 2])
        scores = self.node("MatMul", [q, turned], f"{name}/scores")
        root = self.constant(np.sqrt(_HIDDEN / _HEADS), f"{name}/root")
        scaled = self.node("Div", [scores, root], f"{name}/scaled")
        masked = self.node("Add", [scaled, "mask"], f"{name}/masked")
        shares = self.node("Softmax", [masked], f"{name}/shares", axis=-1)
        context = self.node("MatMul", [shares, v], f"{name}/context")
        joined = self.reshaped(
            self.node("Transpose", [context], f"{name}/back", perm=[0, 2, 1, 3]),
            (self.batch, _WORDS, _HIDDEN),
        )
        attended = self.dense(joined, _HIDDEN, _HIDDEN, f"{name}/projected")
        x = self.norm(self.node("Add", [x, attended], f"{name}/sum"), f"{name}/norm")
        inner = self.gelu(self.dense(x, _HIDDEN, _INNER, f"{name}/inner"), f"{name}/gelu")
        outer = self.dense(inner, _INNER, _HIDDEN, f"{name}/outer")
        return self.norm(self.node("Add", [x, outer], f"{name}/sum2"), f"{name}/norm2")

    def heads(self, x: str) -> str:
        """Split the last dimension into heads."""
        shape = (self.batch, _WORDS, _HEADS, _HIDDEN // _HEADS)
        return self.node("Transpose", [self.reshaped(x, shape)], f"{x}/heads", perm=[0, 2, 1, 3])

    def dense(self, x: str, n_in: int, n_out: int, name: str) -> str:
        """Add a product with weights and a bias."""
        w = self.weight((n_in, n_out), f"{name}/w")
        product = self.node("MatMul", [x, w], f"{name}/product")
        return self.node("Add", [product, self.weight((n_out,), f"{name}/b")], name)

    def norm(self, x: str, name: str) -> str:
        """Add a layer normalisation."""
        scale, shift = (self.weight((_HIDDEN,), f"{name}/{part}") for part in ("scale", "shift"))
        return self.node("LayerNormalization", [x, scale, shift], name, axis=-1)

    def gelu(self, x: str, name: str) -> str:
        """Add x · (1 + erf(x / √2)) / 2, as exporters write it."""
        root, one, half = (
            self.constant(value, f"{name}/{what}")
            for what, value in (("root", np.sqrt(2)), ("one", 1), ("half", 0.5))
        )
        erf = self.node("Erf", [self.node("Div", [x, root], f"{name}/inside")], f"{name}/erf")
        both = self.node("Mul", [x, self.node("Add", [erf, one], f"{name}/plus")], f"{name}/times")
        return self.node("Mul", [both, half], name)

    def reshaped(self, x: str, shape: tuple[int, ...]) -> str:
        """Add a reshape."""
        name = f"{x}/shape"
        self.weights.append(numpy_helper.from_array(np.array(shape, np.int64), name))
        return self.node("Reshape", [x, name], f"{x}/reshaped")

    def weight(self, shape: tuple[int, ...], name: str) -> str:
        """Add random weights."""
        values = self._random.standard_normal(shape).astype(np.float16) / 32
        self.weights.append(numpy_helper.from_array(values.astype(np.float16), name))
        return name

    def constant(self, value: float, name: str) -> str:
        """Add a number."""
        self.weights.append(numpy_helper.from_array(np.array(value, np.float16), name))
        return name

    def node(self, kind: str, inputs: list[str], name: str, **attributes: Any) -> str:
        """Add a node; its result has its name."""
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name
