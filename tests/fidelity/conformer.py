"""F26: Conformer in training as a pipeline of four IPUs, as the public example has it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import TensorProto, helper
from tests.fidelity.trained_nodes import TrainedNodes

from tilescope.engine.ir import Model, Recomputation
from tilescope.engine.training import Adam, Loss, for_training
from tilescope.engine.transform.split import split
from tilescope.engine.transform.stages import pipelined

__all__ = ["PUBLISHED", "Conformer", "conformer_step"]

_HALF, _INT = TensorProto.FLOAT16, TensorProto.INT32


@dataclass(frozen=True)
class Conformer:
    """Sizes of a model and of a micro-batch.

    Parameters
    ----------
    batch, n_frames, n_mels, n_labels
        Of a micro-batch.
    width, n_heads, inner, kernel, vocabulary
        Of all layers.
    encoders
        Encoder layers by stage; the last stage has the decoder and the losses, too.
    n_decoders
        Decoder layers.
    """

    batch: int
    n_frames: int
    n_mels: int
    n_labels: int
    width: int
    n_heads: int
    inner: int
    kernel: int
    vocabulary: int
    encoders: tuple[int, ...]
    n_decoders: int


#: Source: graphcore/examples, speech/conformer/pytorch/configs/train.yaml.
PUBLISHED = Conformer(4, 1220, 80, 48, 256, 4, 2048, 15, 4233, (2, 4, 5, 1), 6)


def conformer_step(of: Conformer, n_rounds: int, n_replicas: int) -> Model:
    """Return a training step in half: label smoothing and CTC, Adam with a limit of the norm.

    Parameters
    ----------
    of
        The model.
    n_rounds, n_replicas
        Micro-batches of a step, and replicas.

    Notes
    -----
    Lengths become masks on the host.
    Source: graphcore/examples, speech/conformer/pytorch/src.
    """
    net = _Network(of)
    net.add()
    shapes: dict[str, tuple[int, tuple[int, ...]]] = {
        "features": (_HALF, (of.batch, of.n_frames, of.n_mels)),
        "mask": (_HALF, (of.batch, 1, 1, net.n_steps)),
        "words": (_INT, (of.batch, of.n_labels)),
        "labels": (_INT, (of.batch, of.n_labels)),
        "label_mask": (_HALF, (of.batch, 1, of.n_labels, of.n_labels)),
        "counted": (_HALF, (of.batch, of.n_labels, 1)),
        "steps": (_INT, (of.batch,)),
        "lengths": (_INT, (of.batch,)),
    }
    model = net.model("conformer", shapes, "stage3/loss")
    model = split(model, {}, {f"stage{i}/*": i for i in range(len(of.encoders))})
    return for_training(
        pipelined(model),
        Loss(kind="identity"),
        Adam(lr=0.002, clip_norm=5.0, is_constant=True),
        n_rounds,
        n_replicas=n_replicas,
        recomputation=Recomputation("pipeline"),
    )


class _Network(TrainedNodes):
    """Collects nodes and weights."""

    def __init__(self, of: Conformer) -> None:
        super().__init__()
        self.of = of
        self.n_steps = ((of.n_frames - 1) // 2 - 1) // 2

    def add(self) -> None:
        """Add the whole network."""
        of, last = self.of, len(self.of.encoders) - 1
        x = self.subsampled()
        for stage, n_layers in enumerate(of.encoders):
            for layer in range(n_layers):
                x = self.encoder(x, f"stage{stage}/encoder{layer}")
        x = self.norm(x, of.width, f"stage{last}/encoded")
        losses = [self.aligned(x, f"stage{last}/ctc"), self.decoded(x, f"stage{last}")]
        losses = [
            self.node("Mul", [loss, self.constant(share, f"{loss}/share")], f"{loss}/shared")
            for loss, share in zip(losses, (0.3, 0.7), strict=True)
        ]
        total = self.node("Add", losses, f"stage{last}/total")
        self.node("Cast", [total], f"stage{last}/loss", to=TensorProto.FLOAT)

    def subsampled(self) -> str:
        """Add the two convolutions that leave a quarter of the frames, and a product."""
        of, name = self.of, "stage0/embed"
        x = self.scaled("features", self.stored(np.ones(of.n_mels, self.dtype), "scale"), name)
        x = self.reshaped(x, (of.batch, 1, of.n_frames, of.n_mels))
        for i, n_in in enumerate((1, of.width)):
            x = self.convolved(x, (of.width, n_in, 3, 3), f"{name}/conv{i}", strides=[2, 2])
            x = self.node("Relu", [x], f"{name}/relu{i}")
        n_bands = ((of.n_mels - 1) // 2 - 1) // 2
        x = self.node("Transpose", [x], f"{name}/turned", perm=[0, 2, 1, 3])
        x = self.reshaped(x, (of.batch, self.n_steps, of.width * n_bands))
        x = self.dense(x, of.width * n_bands, of.width, f"{name}/dense")
        root = self.constant(of.width**0.5, f"{name}/root")
        return self.dropped(self.scaled(x, root, f"{name}/scaled"), f"{name}/end")

    def encoder(self, x: str, name: str) -> str:
        """Add two products, attention, a convolution, two products, and a normalisation."""
        width = self.of.width
        inner = self.fed(self.norm(x, width, f"{name}/norm1"), "swish", f"{name}/macaron")
        x = self.added(x, inner, f"{name}/sum1", 0.5)
        inner = self.norm(x, width, f"{name}/norm2")
        x = self.added(x, self.relative(inner, f"{name}/attention"), f"{name}/sum2")
        inner = self.norm(x, width, f"{name}/norm3")
        x = self.added(x, self.convolution(inner, f"{name}/convolution"), f"{name}/sum3")
        inner = self.fed(self.norm(x, width, f"{name}/norm4"), "swish", f"{name}/fed")
        x = self.added(x, inner, f"{name}/sum4", 0.5)
        return self.norm(x, width, f"{name}/end")

    def convolution(self, x: str, name: str) -> str:
        """Add a gated product, a convolution of every channel, and a product, over the steps."""
        width = self.of.width
        x = self.node("Transpose", [x], f"{name}/turned", perm=[0, 2, 1])
        x = self.convolved(x, (2 * width, width, 1), f"{name}/gated")
        halves = [f"{name}/value", f"{name}/gate"]
        self.parted(x, halves, 1)
        gate = self.node("Sigmoid", [halves[1]], f"{name}/sigmoid")
        x = self.node("Mul", [halves[0], gate], f"{name}/glu")
        edge = self.of.kernel // 2
        shape = (width, 1, self.of.kernel)
        x = self.convolved(x, shape, f"{name}/depthwise", group=width, pads=[edge, edge])
        x = self.node("Transpose", [x], f"{name}/back", perm=[0, 2, 1])
        x = self.swish(self.norm(x, width, f"{name}/norm"), f"{name}/swish")
        x = self.node("Transpose", [x], f"{name}/again", perm=[0, 2, 1])
        x = self.convolved(x, (width, width, 1), f"{name}/pointwise")
        return self.node("Transpose", [x], name, perm=[0, 2, 1])

    def relative(self, x: str, name: str) -> str:
        """Add attention by contents and by places."""
        of = self.of
        q, k, v = self.heads(x, x, name)
        places = self.stored(np.zeros((1, self.n_steps, of.width), self.dtype), f"{name}/places")
        weight = self.weight((of.width, of.width), f"w/{name}/places")
        p = self.in_heads(self.node("MatMul", [places, weight], f"{name}/p"), 1)
        shape = (1, of.n_heads, 1, of.width // of.n_heads)
        scores = []
        for i, key in enumerate((k, p)):
            query = self.node("Add", [q, self.weight(shape, f"w/{name}/q{i}")], f"{name}/q{i}")
            turned = self.node("Transpose", [key], f"{key}/turned", perm=[0, 1, 3, 2])
            scores.append(self.node("MatMul", [query, turned], f"{name}/scores{i}"))
        both = self.node("Add", scores, f"{name}/scores")
        return self.attended(both, v, "mask", name)

    def attention(self, x: str, memory: str, mask: str, name: str) -> str:
        """Add attention by contents."""
        q, k, v = self.heads(x, memory, name)
        turned = self.node("Transpose", [k], f"{k}/turned", perm=[0, 1, 3, 2])
        return self.attended(self.node("MatMul", [q, turned], f"{name}/scores"), v, mask, name)

    def heads(self, x: str, memory: str, name: str) -> tuple[str, str, str]:
        """Add the products of queries, keys and values; the last two share their weights."""
        width = self.of.width
        q = self.dense(x, width, width, f"{name}/q")
        k = self.dense(memory, width, width, f"{name}/k")
        product = self.node("MatMul", [memory, f"w/{name}/k/w"], f"{name}/v/product")
        v = self.node("Add", [product, f"w/{name}/k/b"], f"{name}/v")
        batch = self.of.batch
        return self.in_heads(q, batch), self.in_heads(k, batch), self.in_heads(v, batch)

    def in_heads(self, x: str, batch: int) -> str:
        """Split the last dimension into heads."""
        of = self.of
        shape = (batch, -1, of.n_heads, of.width // of.n_heads)
        return self.node("Transpose", [self.reshaped(x, shape)], f"{x}/heads", perm=[0, 2, 1, 3])

    def attended(self, scores: str, v: str, mask: str, name: str) -> str:
        """Add masked softmax, the product with values, and the last one."""
        of = self.of
        root = self.constant((of.width // of.n_heads) ** -0.5, f"{name}/root")
        scores = self.scaled(self.scaled(scores, root, f"{name}/scaled"), mask, f"{name}/masked")
        out = self.node("Sub", [mask, self.constant(1, f"{name}/one")], f"{name}/out")
        far = self.scaled(out, self.constant(1000, f"{name}/far"), f"{name}/away")
        scores = self.node("Add", [scores, far], f"{name}/moved")
        shares = self.node("Softmax", [scores], f"{name}/softmax", axis=-1)
        shares = self.scaled(shares, mask, f"{name}/shares")
        context = self.node("MatMul", [shares, v], f"{name}/context")
        back = self.node("Transpose", [context], f"{name}/back", perm=[0, 2, 1, 3])
        joined = self.reshaped(back, (of.batch, -1, of.width))
        return self.dense(joined, of.width, of.width, name)

    def decoded(self, memory: str, stage: str) -> str:
        """Add the decoder and the divergence from smoothed labels."""
        of, name = self.of, f"{stage}/decoder"
        table = self.weight((of.vocabulary, of.width), f"w/{name}/words")
        x = self.node("Gather", [table, "words"], f"{name}/words")
        x = self.scaled(x, self.constant(of.width**0.5, f"{name}/root"), f"{name}/scaled")
        places = self.stored(np.zeros((1, of.n_labels, of.width), self.dtype), f"{name}/places")
        x = self.dropped(self.node("Add", [x, places], f"{name}/placed"), f"{name}/embedded")
        for layer in range(of.n_decoders):
            here = f"{name}/layer{layer}"
            own = self.norm(x, of.width, f"{here}/norm1")
            own = self.attention(own, own, "label_mask", f"{here}/own")
            x = self.added(x, own, f"{here}/sum1")
            of_memory = self.norm(x, of.width, f"{here}/norm2")
            of_memory = self.attention(of_memory, memory, "mask", f"{here}/memory")
            x = self.added(x, of_memory, f"{here}/sum2")
            inner = self.fed(self.norm(x, of.width, f"{here}/norm3"), "relu", f"{here}/fed")
            x = self.added(x, inner, f"{here}/end")
        x = self.dense(self.norm(x, of.width, f"{name}/norm"), of.width, of.vocabulary, name)
        logs = self.node("LogSoftmax", [x], f"{name}/logs", axis=-1)
        depth = self.stored(np.array(of.vocabulary), f"{name}/depth")
        other = 0.1 / (of.vocabulary - 1)
        marks = self.stored(np.array([other, 0.9], self.dtype), f"{name}/marks")
        wanted = self.node("OneHot", ["labels", depth, marks], f"{name}/wanted", axis=-1)
        apart = self.node("Sub", [self.node("Log", [wanted], f"{name}/log"), logs], f"{name}/apart")
        apart = self.scaled(
            self.scaled(wanted, apart, f"{name}/losses"), "counted", f"{name}/counted"
        )
        axes = self.stored(np.array([0, 1, 2]), f"{name}/axes")
        total = self.node("ReduceSum", [apart, axes], f"{name}/sum", keepdims=0)
        return self.scaled(total, self.constant(1 / of.batch, f"{name}/mean"), f"{name}/loss")

    def aligned(self, x: str, name: str) -> str:
        """Add the loss of alignments."""
        of = self.of
        x = self.dense(x, of.width, of.vocabulary, f"{name}/dense")
        logs = self.node("LogSoftmax", [x], f"{name}/logs", axis=-1)
        logs = self.node("Transpose", [logs], f"{name}/turned", perm=[1, 0, 2])
        inputs = [logs, "labels", "steps", "lengths"]
        self.nodes.append(
            helper.make_node(
                "Ctc", inputs, [name], name=name, domain="ai.graphcore", reduction="Sum", blank=0
            )
        )
        return self.scaled(name, self.constant(1 / of.batch, f"{name}/mean"), f"{name}/loss")

    def fed(self, x: str, curve: str, name: str) -> str:
        """Add two products with a non-linearity between them."""
        of = self.of
        inner = self.dense(x, of.width, of.inner, f"{name}/inner")
        if curve == "swish":
            inner = self.swish(inner, f"{name}/swish")
        else:
            inner = self.node("Relu", [inner], f"{name}/relu")
        return self.dense(self.dropped(inner, f"{name}/dropped"), of.inner, of.width, name)

    def added(self, x: str, branch: str, name: str, factor: float = 1.0) -> str:
        """Add the sum of a value and a branch with dropout."""
        branch = self.dropped(branch, f"{name}/dropped")
        if factor != 1:
            branch = self.scaled(branch, self.constant(factor, f"{name}/factor"), f"{name}/scaled")
        return self.node("Add", [x, branch], name)

    def swish(self, x: str, name: str) -> str:
        """Add x · sigmoid(x)."""
        return self.scaled(x, self.node("Sigmoid", [x], f"{name}/sigmoid"), name)

    def scaled(self, x: str, factor: str, name: str) -> str:
        """Add a product by elements."""
        return self.node("Mul", [x, factor], name)

    def convolved(self, x: str, shape: tuple[int, ...], name: str, **attributes: object) -> str:
        """Add a convolution; those over two dimensions have a bias."""
        inputs = [x, self.weight(shape, f"w/{name}/w")]
        if len(shape) == 4:
            inputs.append(self.weight(shape[:1], f"w/{name}/b"))
        return self.node("Conv", inputs, name, **attributes)
