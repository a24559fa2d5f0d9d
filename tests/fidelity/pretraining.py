"""F25: BERT in pretraining as a pipeline on several IPUs, as the public example has it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import TensorProto
from tests.fidelity.trained_nodes import TrainedNodes

from tilescope.engine.ir import Model, Recomputation
from tilescope.engine.training import Lamb, Loss, for_training
from tilescope.engine.transform.split import split
from tilescope.engine.transform.stages import pipelined

__all__ = ["BASE_128", "Pretraining", "pretraining_step"]

_HALF, _FLOAT, _INT = TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.INT32


@dataclass(frozen=True)
class Pretraining:
    """Sizes of a model and of its training.

    Parameters
    ----------
    hidden, n_heads, n_words, vocabulary
        Of the encoder and its embeddings.
    layers
        Encoder layers by IPU. The embeddings and the heads are on IPU 0.
    batch
        Sequences of a micro-batch.
    n_masked
        Words of a sequence that are predicted.
    n_rounds, n_replicas
        Micro-batches of a step, and replicas.
    """

    hidden: int
    n_heads: int
    layers: tuple[int, ...]
    batch: int
    n_words: int
    n_masked: int
    vocabulary: int
    n_rounds: int
    n_replicas: int


#: Source: graphcore/examples, nlp/bert/pytorch/configs_pretraining.yml: pretrain_base_128.
BASE_128 = Pretraining(768, 12, (0, 4, 4, 4), 32, 128, 20, 30_522, 512, 4)


def pretraining_step(of: Pretraining) -> Model:
    """Return a training step in half: two cross entropies, and LAMB.

    Stage 0 has the embeddings, and IPU 0 the heads, too, in the last stage; every layer's input is
    kept for the backward pass, and the rest of a stage computed again.
    Source: graphcore/examples, nlp/bert/pytorch/modeling.py.
    """
    net = _Bert(of)
    net.add()
    shape: tuple[int, ...] = (of.batch, of.n_words)
    inputs = {name: shape for name in ("words", "types", "mask")}
    inputs |= {"positions": (of.batch, of.n_masked), "labels": (of.batch, of.n_masked)}
    inputs |= {"follows": (of.batch,)}
    model = net.model("bert", {n: (_INT, s) for n, s in inputs.items()}, "heads/loss")
    used = [ipu for ipu, n in enumerate(of.layers) if n]
    stages = {"embedded*": 0} | {f"ipu{ipu}/*": i + 1 for i, ipu in enumerate(used)}
    ipus = {"embedded*": 0} | {f"ipu{ipu}/*": ipu for ipu in used} | {"heads/*": 0}
    model = split(model, ipus, stages | {"heads/*": len(used) + 1})
    return for_training(
        pipelined(model),
        Loss(kind="identity"),
        Lamb(lr=0.006, weight_decay=0.01, bias_correction=False, is_constant=True),
        of.n_rounds,
        n_replicas=of.n_replicas,
        recomputation=Recomputation("pipeline", kept=("*/checkpoint",)),
    )


class _Bert(TrainedNodes):
    """Collects nodes and weights."""

    def __init__(self, of: Pretraining) -> None:
        super().__init__()
        self.of = of

    def add(self) -> None:
        """Add the whole network."""
        of, layer = self.of, 0
        x = self.embedded()
        for ipu, n_layers in enumerate(of.layers):
            for _ in range(n_layers):
                x = self.layer(x, f"ipu{ipu}/layer{layer}")
                layer += 1
        both = [self.masked_loss(x), self.next_loss(x)]
        wide = [self.node("Cast", [loss], f"{loss}/wide", to=_FLOAT) for loss in both]
        self.node("Add", wide, "heads/loss")

    def embedded(self) -> str:
        """Add the sum of three embeddings, normalised, and the mask that every layer adds."""
        of = self.of
        words = self.node(
            "Gather",
            [self.weight((of.vocabulary, of.hidden), "w/words"), "words"],
            "embedded/words",
        )
        types = self.node(
            "Gather", [self.weight((2, of.hidden), "w/types"), "types"], "embedded/types"
        )
        places = self.weight((1, of.n_words, of.hidden), "w/places")
        both = self.node("Add", [words, types], "embedded/both")
        mask = self.node("Cast", ["mask"], "embedded/mask/half", to=_HALF)
        mask = self.reshaped(mask, (of.batch, 1, 1, of.n_words))
        left_out = self.node("Sub", [self.constant(1, "mask/one"), mask], "embedded/mask/left_out")
        self.node("Mul", [left_out, self.constant(-10_000, "mask/least")], "embedded/mask")
        x = self.node("Add", [both, places], "embedded/sum")
        return self.dropped(self.norm(x, of.hidden, "embedded/norm"), "embedded/end")

    def layer(self, x: str, name: str) -> str:
        """Add attention and the two products after it; return the name of the result."""
        of, size = self.of, self.of.hidden // self.of.n_heads
        fused = self.dense(x, of.hidden, 3 * of.hidden, f"{name}/qkv")
        parts = [f"{name}/{part}" for part in "qkv"]
        self.parted(fused, parts, -1)
        shape = (of.batch, of.n_words, of.n_heads, size)
        q, k, v = (
            self.node("Transpose", [self.reshaped(part, shape)], f"{part}/heads", perm=perm)
            for part, perm in zip(parts, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]), strict=True)
        )
        scores = self.node("MatMul", [q, k], f"{name}/scores")
        scale = self.constant(size**-0.5, f"{name}/scale")
        scaled = self.node("Mul", [scores, scale], f"{name}/scaled")
        masked = self.node("Add", [scaled, "embedded/mask"], f"{name}/masked")
        shares = self.node("Softmax", [masked], f"{name}/shares", axis=-1)
        context = self.node("MatMul", [shares, v], f"{name}/context")
        back = self.node("Transpose", [context], f"{name}/back", perm=[0, 2, 1, 3])
        joined = self.reshaped(back, (of.batch, of.n_words, of.hidden))
        attended = self.dense(joined, of.hidden, of.hidden, f"{name}/projected")
        attended = self.dropped(attended, f"{name}/kept")
        x = self.norm(self.node("Add", [x, attended], f"{name}/sum"), of.hidden, f"{name}/norm")
        inner = self.dense(x, of.hidden, 4 * of.hidden, f"{name}/inner")
        inner = self.node("Gelu", [inner], f"{name}/gelu")
        outer = self.dropped(
            self.dense(inner, 4 * of.hidden, of.hidden, f"{name}/outer"), f"{name}/kept2"
        )
        x = self.norm(self.node("Add", [x, outer], f"{name}/sum2"), of.hidden, f"{name}/norm2")
        return self.node("Identity", [x], f"{name}/checkpoint")

    def masked_loss(self, x: str) -> str:
        """Add the prediction of masked words, with the embedding's weights, and its loss."""
        of = self.of
        depth = self.stored(np.array(of.n_words), "heads/depth")
        marks = self.stored(np.array([0, 1], self.dtype), "heads/marks")
        marks = self.node("OneHot", ["positions", depth, marks], "heads/chosen", axis=-1)
        x = self.node("MatMul", [marks, x], "heads/masked")
        x = self.node("Gelu", [self.dense(x, of.hidden, of.hidden, "heads/dense")], "heads/gelu")
        x = self.reshaped(
            self.norm(x, of.hidden, "heads/norm"), (of.batch * of.n_masked, of.hidden)
        )
        decoder = self.node("Transpose", ["w/words"], "heads/turned", perm=[1, 0])
        x = self.node("MatMul", [x, decoder], "heads/product")
        x = self.node("Add", [x, self.weight((of.vocabulary,), "w/decoder/b")], "heads/logits")
        labels = self.reshaped("labels", (of.batch * of.n_masked,))
        kind = "SoftmaxCrossEntropyLoss"
        return self.node(kind, [x, labels], "heads/of_words", reduction="mean", ignore_index=0)

    def next_loss(self, x: str) -> str:
        """Add the prediction of whether the second sentence follows the first, and its loss."""
        of = self.of
        first = self.stored(np.array(0), "heads/first")
        x = self.node("Gather", [x, first], "heads/cls", axis=1)
        x = self.node("Tanh", [self.dense(x, of.hidden, of.hidden, "heads/pooler")], "heads/pooled")
        x = self.dense(x, of.hidden, 2, "heads/next")
        return self.node(
            "SoftmaxCrossEntropyLoss", [x, "follows"], "heads/of_next", reduction="mean"
        )
