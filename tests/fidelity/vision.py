"""C20: a vision transformer with weights in float8, computing in half."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from tests.fidelity.networks import HALF_PARTIALS, loaded
from tests.fidelity.read_off import kind_cycles, total_cycles
from tests.fidelity.transformer_nodes import TransformerNodes

from tilescope.engine import load_machine
from tilescope.engine.ir import Model
from tilescope.engine.session.compilation import compile_model

__all__ = ["encoder_figures"]

#: Source: osmarks/ipu-stack, SDK_ONNX_PROFILE_ANALYSIS and SIGLIP_VIT_BENCHMARK.
_LAYERS, _HIDDEN, _HEADS, _INNER = 27, 1152, 16, 4304
_SIDE, _PATCH = 384, 14
_TOKENS = (_SIDE // _PATCH) ** 2
_HEAD = _HIDDEN // _HEADS
_HALF = TensorProto.FLOAT16
#: Bytes of random weights: numbers without a sign.
_LARGEST_BYTE = 0x7F


def encoder_figures() -> Mapping[str, float]:
    """Return cycles without the copies from and to the host, and memory of a tile."""
    executable = compile_model(_encoder(), load_machine("c600"), partials=HALF_PARTIALS).executable
    assert not executable.overfull_tiles.size
    memory, host = executable.memory, ("StreamCopyBegin", "StreamCopyMid", "StreamCopyEnd")
    code = memory.categories["internalExchangeCode"]
    return {
        "device": total_cycles(executable) - sum(kind_cycles(executable, kind) for kind in host),
        "memory of a tile, mean": float(memory.excluding_gaps.mean()),
        "memory of a tile, most": float(memory.excluding_gaps.max()),
        "exchange code of a tile, mean": float(code.mean()),
        "exchange code of a tile, most": float(code.max()),
    }


def _encoder() -> Model:
    """Return the encoder with attention pooling, for one image in half."""
    built = _Vision()
    x = built.patches()
    for layer in range(_LAYERS):
        x = built.block(x, f"block{layer}")
    pooled = built.pooled(built.norm(x, "norm"))
    graph = helper.make_graph(
        built.nodes,
        "vision",
        [helper.make_tensor_value_info("image", _HALF, [1, 3, _SIDE, _SIDE])],
        [helper.make_tensor_value_info(pooled, _HALF, [1, _HIDDEN])],
        built.weights,
    )
    opset = helper.make_opsetid("", 19)
    return loaded(helper.make_model(graph, opset_imports=[opset], ir_version=9))


class _Vision(TransformerNodes):
    """Collects the nodes and weights of the encoder."""

    def patches(self) -> str:
        """Add the convolution of the patches, with its bias, and their positions."""
        weights = [self.weight((_HIDDEN, 3, _PATCH, _PATCH), "patch/w")]
        weights.append(self.weight((_HIDDEN,), "patch/b"))
        sizes = {name: [_PATCH, _PATCH] for name in ("kernel_shape", "strides")}
        image = self.node("Conv", ["image", *weights], "patch", **sizes)
        flat = self.reshaped(image, (1, _HIDDEN, _TOKENS))
        tokens = self.node("Transpose", [flat], "patch/tokens", perm=[0, 2, 1])
        places = self.weight((1, _TOKENS, _HIDDEN), "places")
        return self.node("Add", [tokens, places], "embedded")

    def block(self, x: str, name: str) -> str:
        """Add attention and the two products after it, both normalised before."""
        q, k, v = self.heads(self.norm(x, f"{name}/norm1"), f"{name}/qkv", 3)
        scaled = self.node("Mul", [q, self.root(f"{name}/q")], f"{name}/q/scaled")
        context = self.attended(scaled, k, v, _TOKENS, f"{name}/attention")
        x = self.node("Add", [x, context], f"{name}/sum1")
        return self.node("Add", [x, self.inner(x, f"{name}/mlp")], f"{name}/sum2")

    def pooled(self, x: str) -> str:
        """Add attention of one learned question to all tokens."""
        k, v = self.heads(x, "pool/kv", 2)
        question = self.weight((1, _HEADS, 1, _HEAD), "pool/q")
        x = self.attended(question, k, v, 1, "pool/attention")
        out = self.node("Add", [x, self.inner(x, "pool/mlp")], "pool/sum")
        return self.reshaped(out, (1, _HIDDEN))

    def heads(self, x: str, name: str, n_parts: int) -> list[str]:
        """Add one product for several parts, and split its result into these and into heads."""
        both = self.dense(x, _HIDDEN, n_parts * _HIDDEN, name)
        apart = self.reshaped(both, (1, _TOKENS, n_parts, _HEADS, _HEAD))
        turned = self.node("Transpose", [apart], f"{name}/turned", perm=[2, 0, 3, 1, 4])
        return [
            self.node("Gather", [turned, self.index(i, f"{name}/{i}")], f"{name}/part{i}", axis=0)
            for i in range(n_parts)
        ]

    def attended(self, q: str, k: str, v: str, n_questions: int, name: str) -> str:
        """Add scores, their softmax, its product with the values, and the projection of all heads.

        The root of the scale multiplies both operands of the scores, as exporters write it.
        """
        turned = self.node("Transpose", [k], f"{name}/k/turned", perm=[0, 1, 3, 2])
        scaled = self.node("Mul", [turned, self.root(f"{name}/k")], f"{name}/k/scaled")
        scores = self.node("MatMul", [q, scaled], f"{name}/scores")
        shares = self.node("Softmax", [scores], f"{name}/shares", axis=-1)
        context = self.node("MatMul", [shares, v], f"{name}/context")
        back = self.node("Transpose", [context], f"{name}/back", perm=[0, 2, 1, 3])
        joined = self.reshaped(back, (1, n_questions, _HIDDEN))
        return self.dense(joined, _HIDDEN, _HIDDEN, f"{name}/projected")

    def inner(self, x: str, name: str) -> str:
        """Add a normalisation and two products with GELU between them."""
        wide = self.dense(self.norm(x, f"{name}/norm"), _HIDDEN, _INNER, f"{name}/inner")
        curve = self.by_erf(wide, f"{name}/gelu")
        active = self.gated(wide, curve, f"{name}/gelu", f"{name}/gelu")
        return self.dense(active, _INNER, _HIDDEN, f"{name}/outer")

    def dense(self, x: str, n_in: int, n_out: int, name: str) -> str:
        """Add a product with weights that are cast from float8, and a bias."""
        kept = self.random.integers(0, _LARGEST_BYTE, n_in * n_out, np.uint8)
        shape, kind = (n_in, n_out), TensorProto.FLOAT8E4M3FNUZ
        self.weights.append(
            helper.make_tensor(f"{name}/kept", kind, shape, kept.tobytes(), raw=True)
        )
        w = self.node("Cast", [f"{name}/kept"], f"{name}/w", to=_HALF)
        product = self.node("MatMul", [x, w], f"{name}/product")
        return self.node("Add", [product, self.weight((n_out,), f"{name}/b")], name)

    def norm(self, x: str, name: str) -> str:
        """Add a layer normalisation."""
        parts = [self.weight((_HIDDEN,), f"{name}/{part}") for part in ("scale", "shift")]
        return self.node("LayerNormalization", [x, *parts], name, axis=-1)

    def root(self, name: str) -> str:
        """Add the root of the scale of scores."""
        return self.constant(_HEAD**-0.25, f"{name}/root")

    def index(self, value: int, name: str) -> str:
        """Add an index."""
        self.weights.append(numpy_helper.from_array(np.array(value, np.int64), name))
        return name
