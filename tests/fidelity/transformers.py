"""C19 and F18: BERT base, as it is described and in the forms that public texts suggest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto, helper
from tests.fidelity.networks import HALF_PARTIALS, loaded, rate
from tests.fidelity.transformer_nodes import TransformerNodes

from tilescope.engine import load_machine
from tilescope.engine.ir import Model
from tilescope.engine.options.available_memory import AvailableMemory
from tilescope.engine.session.compilation import compile_model

__all__ = ["bert_rates", "bert_rates_by_batch"]

#: Source: Devlin et al., BERT, arXiv 1810.04805: BERT base.
_LAYERS, _HIDDEN, _HEADS, _INNER = 12, 768, 12, 3072
_WORDS = 256
_VOCABULARY = 30_522
_HALF, _FLOAT = TensorProto.FLOAT16, TensorProto.FLOAT


@dataclass(frozen=True)
class _Form:
    """A form of the program.

    Parameters
    ----------
    share
        Of the available memory; None for what a compilation tests.
    n_tiles
        Tiles that compute; all of a C600 if 0.
    float_kinds
        Which of ``norm``, ``gelu`` and ``softmax`` are computed in float, between casts.
    gelu
        ``erf``, as exporters write it; ``tanh``, as in the published model.
    without
        Rewrites that are left out.
    """

    share: float | None = None
    n_tiles: int = 0
    float_kinds: tuple[str, ...] = ()
    gelu: str = "erf"
    without: tuple[str, ...] = ()


#: Source: graphcore/PopRT, examples/bert/test_bertsquad.py: num_io_tiles 32 of 1,472 tiles;
#: fp16_skip_op_types Gelu and GroupNormalization, to which its layer_norm_pattern rewrites;
#: gelu_pattern. benchmarks/bert/test_bert_base.py: available_memory_proportion 0.4.
_FORMS = {
    "half, batch 1": _Form(),
    "half, batch 1, a share of 0.4": _Form(share=0.4),
    "half, batch 1, 32 I/O tiles": _Form(n_tiles=1440),
    "half, batch 1, normalisation in float": _Form(float_kinds=("norm",)),
    "half, batch 1, softmax in float": _Form(float_kinds=("softmax",)),
    "half, batch 1, GELU by tanh in float": _Form(gelu="tanh", float_kinds=("gelu",)),
    "half, batch 1, GELU taken apart": _Form(gelu="tanh", without=("gelu_pattern",)),
    "half, batch 1, as in the example": _Form(
        n_tiles=1440, gelu="tanh", float_kinds=("norm", "gelu")
    ),
}


def bert_rates() -> Mapping[str, float]:
    """Return the rate of BERT base on sequences of 256 words by form, sequences per second."""
    return {name: _rate(form) for name, form in _FORMS.items()}


def bert_rates_by_batch() -> Mapping[str, float]:
    """Return the rate of the example's form, with GELU in one, by batch, sequences per second."""
    form = _FORMS["half, batch 1, as in the example"]
    return {f"half, batch {batch}": _rate(form, batch) for batch in (1, 2, 4, 8, 16)}


def _rate(form: _Form, batch: int = 1) -> float:
    n_tiles = form.n_tiles or load_machine("c600").tiles_per_ipu
    share = None if form.share is None else AvailableMemory(form.share, form.share)
    executable = compile_model(
        _bert(batch, form),
        load_machine("c600", tiles_per_ipu=n_tiles),
        partials=HALF_PARTIALS,
        available_memory=share,
        without=form.without,
    ).executable
    assert not executable.overfull_tiles.size
    return rate(executable, batch)


def _bert(batch: int, form: _Form) -> Model:
    """Return BERT base for questions in half, with random weights."""
    built = _Encoder(batch, form)
    x = built.embedded()
    for layer in range(_LAYERS):
        x = built.layer(x, f"layer{layer}")
    logits = built.dense(x, _HIDDEN, 2, "logits")
    inputs = ("input_ids", "attention_mask", "token_type_ids")
    graph = helper.make_graph(
        built.nodes,
        "bert",
        [helper.make_tensor_value_info(i, TensorProto.INT64, [batch, _WORDS]) for i in inputs],
        [helper.make_tensor_value_info(logits, _HALF, [batch, _WORDS, 2])],
        built.weights,
    )
    return loaded(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))


class _Encoder(TransformerNodes):
    """Collects the nodes and weights of an encoder."""

    def __init__(self, batch: int, form: _Form) -> None:
        super().__init__()
        self.batch = batch
        self.form = form

    def embedded(self) -> str:
        """Add the sum of three embeddings, normalised, and the mask that every layer adds."""
        words = self.node(
            "Gather", [self.weight((_VOCABULARY, _HIDDEN), "words"), "input_ids"], "of_words"
        )
        types = self.node(
            "Gather", [self.weight((2, _HIDDEN), "types"), "token_type_ids"], "of_types"
        )
        positions = self.weight((1, _WORDS, _HIDDEN), "places")
        both = self.node("Add", [words, types], "of_words_and_types")
        mask = self.node("Cast", ["attention_mask"], "mask/half", to=_HALF)
        mask = self.reshaped(mask, (self.batch, 1, 1, _WORDS))
        left_out = self.node("Sub", [self.constant(1, "mask/one"), mask], "mask/left_out")
        self.node("Mul", [left_out, self.constant(-10_000, "mask/least")], "mask")
        return self.norm(self.node("Add", [both, positions], "embedded"), "embedded/norm")

    def layer(self, x: str, name: str) -> str:
        """Add attention and the two products after it; return the name of the result."""
        heads = [self.heads(self.dense(x, _HIDDEN, _HIDDEN, f"{name}/{part}")) for part in "qkv"]
        q, k, v = heads
        turned = self.node("Transpose", [k], f"{name}/turned", perm=[0, 1, 3, 2])
        scores = self.node("MatMul", [q, turned], f"{name}/scores")
        root = self.constant(np.sqrt(_HIDDEN / _HEADS), f"{name}/root")
        scaled = self.node("Div", [scores, root], f"{name}/scaled")
        masked = self.node("Add", [scaled, "mask"], f"{name}/masked")
        shares = self.softmax(masked, f"{name}/shares")
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
        with self.typed("norm", x, name) as (inside, out):
            scale, shift = (
                self.weight((_HIDDEN,), f"{name}/{part}") for part in ("scale", "shift")
            )
            self.node("LayerNormalization", [inside, scale, shift], out, axis=-1)
        return name

    def softmax(self, x: str, name: str) -> str:
        """Add a softmax of the last axis."""
        with self.typed("softmax", x, name) as (inside, out):
            self.node("Softmax", [inside], out, axis=-1)
        return name

    def gelu(self, x: str, name: str) -> str:
        """Add x · (1 + erf(x / √2)) / 2, as exporters write it, or the same by tanh."""
        with self.typed("gelu", x, name) as (inside, out):
            curve = (self._tanh if self.form.gelu == "tanh" else self.by_erf)(inside, name)
            self.gated(inside, curve, name, out)
        return name

    def _tanh(self, x: str, name: str) -> str:
        """Add tanh(√(2 / π) (x + 0.044715 x³))."""
        cube = self.node("Pow", [x, self.constant(3, f"{name}/three")], f"{name}/cube")
        small = self.constant(0.044715, f"{name}/small")
        bent = self.node("Mul", [cube, small], f"{name}/bent")
        inner = self.node("Add", [x, bent], f"{name}/sum")
        root = self.constant(np.sqrt(2 / np.pi), f"{name}/root")
        scaled = self.node("Mul", [inner, root], f"{name}/inside")
        return self.node("Tanh", [scaled], f"{name}/tanh")

    @contextmanager
    def typed(self, kind: str, x: str, name: str) -> Iterator[tuple[str, str]]:
        """Give an operand and the name of a result, both in float between casts if asked for."""
        if kind not in self.form.float_kinds:
            yield x, name
            return
        wide = self.node("Cast", [x], f"{name}/wide", to=_FLOAT)
        self.dtype = np.float32
        yield wide, f"{name}/float"
        self.dtype = np.float16
        self.node("Cast", [f"{name}/float"], name, to=_HALF)
