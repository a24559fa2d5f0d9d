"""Modules of several fields, small: with their arguments, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from tests.torch.frontend.cases import drawn, integers
from torch import nn
from torch.nn import functional

__all__ = ["MODULES"]


class Block(nn.Module):
    """A residual block of two convolutions, or of three with a narrow middle."""

    def __init__(self, n_in: int, n: int, stride: int, n_out: int, *, is_narrow: bool) -> None:
        super().__init__()
        if is_narrow:
            sizes = [(n_in, n, 1, 1), (n, n, 3, stride), (n, n_out, 1, 1)]
        else:
            sizes = [(n_in, n, 3, stride), (n, n_out, 3, 1)]
        layers: list[nn.Module] = []
        for a, b, kernel, step in sizes:
            layers += [nn.Conv2d(a, b, kernel, step, kernel // 2, bias=False), nn.BatchNorm2d(b)]
            layers += [nn.ReLU(inplace=True)]
        self.body = nn.Sequential(*layers[:-1])
        self.shortcut = nn.Sequential()
        if stride != 1 or n_in != n_out:
            conv = nn.Conv2d(n_in, n_out, 1, stride, bias=False)
            self.shortcut = nn.Sequential(conv, nn.BatchNorm2d(n_out))

    def forward(self, x):
        return functional.relu(self.body(x) + self.shortcut(x), inplace=True)


class ResNet(nn.Module):
    """The network of residual blocks, of a few channels."""

    def __init__(self, counts: tuple[int, ...], *, is_narrow: bool, width: int = 4) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
        )
        blocks, n_in = [], width
        for stage, count in enumerate(counts):
            for index in range(count):
                n = width * 2**stage
                n_out = n * (4 if is_narrow else 1)
                stride = 2 if stage and not index else 1
                blocks.append(Block(n_in, n, stride, n_out, is_narrow=is_narrow))
                n_in = n_out
        self.blocks = nn.Sequential(*blocks)
        self.pool, self.head = nn.AdaptiveAvgPool2d(1), nn.Linear(n_in, 5)

    def forward(self, x):
        return self.head(torch.flatten(self.pool(self.blocks(self.stem(x))), 1))


class Recurrent(nn.Module):
    """Words, two layers of LSTM, and the class of the last word."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 6, padding_idx=0)
        self.lstm = nn.LSTM(6, 8, num_layers=2, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, ids):
        out, (hidden, _) = self.lstm(self.words(ids))
        return self.head(out[:, -1]) + self.head(hidden[-1])


class UNet(nn.Module):
    """Down and up again, with joins."""

    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2 = self._pair(1, 4), self._pair(4, 8)
        self.middle = self._pair(8, 8)
        self.up = nn.ConvTranspose2d(8, 8, 2, 2)
        self.join1, self.join2 = self._pair(16, 4), self._pair(8, 4)
        self.head = nn.Conv2d(4, 2, 1)

    def _pair(self, a, b):
        return nn.Sequential(
            nn.Conv2d(a, b, 3, padding=1),
            nn.GroupNorm(2, b),
            nn.SiLU(),
            nn.Conv2d(b, b, 3, padding=1),
        )

    def forward(self, x):
        first = self.down1(x)
        second = self.down2(functional.max_pool2d(first, 2))
        middle = self.middle(functional.avg_pool2d(second, 2))
        x = self.join1(torch.cat([self.up(middle), second], 1))
        x = functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        return self.head(self.join2(torch.cat([x, first], 1)))


class Mobile(nn.Module):
    """Convolutions by channel, squeezes and hard functions."""

    def __init__(self) -> None:
        super().__init__()
        self.expand, self.bn = nn.Conv2d(3, 12, 1), nn.BatchNorm2d(12)
        self.deep = nn.Conv2d(12, 12, 3, stride=2, padding=1, groups=12)
        self.squeeze, self.excite = nn.Conv2d(12, 4, 1), nn.Conv2d(4, 12, 1)
        self.project = nn.Conv2d(12, 6, 1)

    def forward(self, x):
        x = functional.hardswish(self.deep(functional.relu6(self.bn(self.expand(x)))))
        scale = functional.relu(self.squeeze(x.mean((2, 3), keepdim=True)))
        return self.project(x * functional.hardsigmoid(self.excite(scale))).flatten(2).amax(2)


class Mixer(nn.Module):
    """Layers over patches and over channels."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, 4)
        self.norms = nn.ModuleList([nn.LayerNorm(8) for _ in range(2)])
        self.tokens, self.channels = nn.Linear(4, 4), nn.Linear(8, 8)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = x + self.tokens(self.norms[0](x).mT).mT
        return (x + functional.gelu(self.channels(self.norms[1](x)))).mean(1)


class Seq2Seq(nn.Module):
    """A GRU that reads, cells that write, one after the other, and attention between them."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.GRU(4, 6, bidirectional=True, batch_first=True)
        self.cell, self.head = nn.GRUCell(12, 12), nn.Linear(24, 5)

    def forward(self, x):
        memory, _ = self.encoder(x)
        state, outputs = memory.new_zeros(x.shape[0], 12), []
        for _ in range(3):
            shares = torch.softmax(torch.einsum("bsh,bh->bs", memory, state), -1)
            context = (shares.unsqueeze(-1) * memory).sum(1)
            state = self.cell(context, state)
            outputs.append(self.head(torch.cat([state, context], -1)))
        return torch.stack(outputs, 1)


class Autoencoder(nn.Module):
    """A variational autoencoder without its draws, and its loss by parts."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(12, 8), nn.Linear(4, 12)

    def forward(self, x):
        mean, spread = self.encoder(x).chunk(2, -1)
        back = torch.sigmoid(self.decoder(mean + torch.exp(0.5 * spread) * 0.1))
        apart = -0.5 * torch.sum(1 + spread - mean.pow(2) - spread.exp(), dim=-1)
        return {"back": back, "loss": functional.mse_loss(back, x) + apart.mean()}


class Wavenet(nn.Module):
    """Dilated convolutions in time with gates, whose weights are normalised."""

    def __init__(self) -> None:
        super().__init__()
        norm = nn.utils.parametrizations.weight_norm
        self.filters = nn.ModuleList([norm(nn.Conv1d(4, 8, 2, dilation=2**i)) for i in range(3)])

    def forward(self, x):
        for i, layer in enumerate(self.filters):
            y = layer(functional.pad(x, (2**i, 0)))
            x = x + functional.glu(y, 1)
        return x


class Rotary(nn.Module):
    """Attention with rotated positions, groups of heads and a root-mean-square norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(16)
        self.q, self.kv = nn.Linear(16, 16, bias=False), nn.Linear(16, 16, bias=False)
        angles = torch.outer(torch.arange(5.0), 10000 ** (-torch.arange(0, 4, 2) / 4))
        self.register_buffer("cos", torch.cat([angles, angles], -1).cos(), persistent=False)
        self.register_buffer("sin", torch.cat([angles, angles], -1).sin(), persistent=False)

    def _turned(self, x):
        a, b = x.chunk(2, -1)
        return x * self.cos + torch.cat([-b, a], -1) * self.sin

    def forward(self, x):
        y = self.norm(x)
        n, length, _ = y.shape
        q = self.q(y).view(n, length, 4, 4).transpose(1, 2)
        k, v = (p.reshape(n, length, 2, 4).transpose(1, 2) for p in self.kv(y).split(8, -1))
        out = functional.scaled_dot_product_attention(
            self._turned(q), self._turned(k), v, is_causal=True, enable_gqa=True
        )
        return x + out.transpose(1, 2).reshape(n, length, 16)


class Dense(nn.Module):
    """Everything before is joined to what comes after."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv2d(3 + 4 * i, 4, 3, padding=1) for i in range(3)])
        self.norms = nn.ModuleList([nn.InstanceNorm2d(3 + 4 * i, affine=True) for i in range(3)])

    def forward(self, x):
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = torch.cat([x, layer(functional.elu(norm(x)))], 1)
        return functional.adaptive_max_pool2d(x, 2).flatten(1)


class Transducer(nn.Module):
    """A layer of PyTorch's own transformer, encoder and decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True)

    def forward(self, x, y):
        mask = nn.Transformer.generate_square_subsequent_mask(3)
        return self.net(x, y, tgt_mask=mask, tgt_is_causal=True)


class Siamese(nn.Module):
    """One tower for two inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.tower = nn.Sequential(nn.Linear(6, 8), nn.PReLU(), nn.Linear(8, 4), nn.Softplus())

    def forward(self, a, b):
        a, b = self.tower(a), self.tower(b)
        return functional.cosine_similarity(a, b), torch.cdist(a, b), (a - b).norm(dim=1)


def _bert() -> Any:
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=40,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=16,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertForSequenceClassification(config)


def _gpt() -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=40,
        n_embd=16,
        n_layer=1,
        n_head=2,
        n_positions=16,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    return GPT2LMHeadModel(config)


class WithCache(nn.Module):
    """A block of GPT-2 that continues from the keys and values of the words before."""

    def __init__(self) -> None:
        super().__init__()
        self.model = _gpt()

    def forward(self, ids, keys, values):
        from transformers import DynamicCache

        cache = DynamicCache()
        cache.update(keys, values, 0)
        out = self.model(ids, past_key_values=cache, use_cache=True)
        return out.logits, out.past_key_values.layers[0].keys


def _vit() -> Any:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=8,
        patch_size=4,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return ViTForImageClassification(config)


def _t5() -> Any:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=40, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2, dropout_rate=0.0
    )
    return T5ForConditionalGeneration(config)


def _llama() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=40,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=16,
    )
    return LlamaForCausalLM(config)


class Gcn(nn.Module):
    """Two convolutions over a graph, which is known or an argument."""

    def __init__(self, kind: str, edges: torch.Tensor | None = None, **options: Any) -> None:
        super().__init__()
        from torch_geometric import nn as geometric

        layer = getattr(geometric, kind)
        self.first, self.second = layer(4, 8, **options), layer(8, 3, **options)
        self.register_buffer("known", edges)

    def forward(self, x, edges=None):
        edges = self.known if edges is None else edges
        return functional.log_softmax(self.second(self.first(x, edges).relu(), edges), 1)


_IMAGE = drawn(4, 3, 32, 32)
_IDS = integers(2, 6, low=1, high=20)
_EDGES = torch.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]])

#: Makes a module, and the arguments and keywords that it is called with.
MODULES: Mapping[str, tuple[Callable[[], nn.Module], tuple[Any, ...], Mapping[str, Any]]] = {
    "resnet-18": (lambda: ResNet((2, 2, 2, 2), is_narrow=False), (_IMAGE,), {}),
    "resnet-50": (lambda: ResNet((3, 4, 6, 3), is_narrow=True), (_IMAGE,), {}),
    "bottlenecks": (lambda: ResNet((1, 2, 2, 1), is_narrow=True), (_IMAGE,), {}),
    "bert": (_bert, (_IDS,), {"attention_mask": torch.tensor([[1] * 6, [1] * 4 + [0] * 2])}),
    "lstm": (Recurrent, (_IDS,), {}),
    "gpt-2 with cache": (
        WithCache,
        (_IDS[:, :2], drawn(2, 2, 3, 8), drawn(2, 2, 3, 8, seed=1)),
        {},
    ),
    "gpt-2": (_gpt, (_IDS,), {}),
    "u-net": (UNet, (drawn(1, 1, 8, 8),), {}),
    "gcn": (lambda: Gcn("GCNConv", _EDGES), (drawn(5, 4),), {}),
    "gcn of an argument": (lambda: Gcn("GCNConv", add_self_loops=False), (drawn(5, 4), _EDGES), {}),
    "gat": (lambda: Gcn("GATConv", _EDGES), (drawn(5, 4),), {}),
    "sage": (lambda: Gcn("SAGEConv"), (drawn(5, 4), _EDGES), {}),
    "vit": (_vit, (drawn(1, 3, 8, 8),), {}),
    "t5": (_t5, (), {"input_ids": _IDS, "decoder_input_ids": _IDS[:, :3]}),
    "llama": (_llama, (_IDS,), {}),
    "mobile": (Mobile, (drawn(2, 3, 8, 8),), {}),
    "mixer": (Mixer, (drawn(2, 3, 8, 8),), {}),
    "seq2seq": (Seq2Seq, (drawn(2, 5, 4),), {}),
    "autoencoder": (Autoencoder, (drawn(3, 12, low=0.1, high=0.9),), {}),
    "wavenet": (Wavenet, (drawn(2, 4, 9),), {}),
    "rotary": (Rotary, (drawn(2, 5, 16),), {}),
    "dense": (Dense, (drawn(2, 3, 6, 6),), {}),
    "transformer": (Transducer, (drawn(2, 4, 8), drawn(2, 3, 8)), {}),
    "siamese": (Siamese, (drawn(3, 6), drawn(3, 6, seed=1)), {}),
}
