"""Gradients of attention and of a transformer's layer, compared with PyTorch."""

from __future__ import annotations

from math import sqrt
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.torch.compared import Case, agree, case, drawn, ids, single
from torch.nn import functional

_BATCH, _HEADS, _LENGTH, _SIZE = 2, 2, 5, 4
_WIDTH = _HEADS * _SIZE

_QKV = {name: (_BATCH, _HEADS, _LENGTH, _SIZE) for name in ("q", "k", "v")}


def _by_hand(x, wq, wk, wv, wo):
    def heads(y):
        return y.reshape(_BATCH, _LENGTH, _HEADS, _SIZE).transpose(1, 2)

    q, k, v = (heads(x @ w) for w in (wq, wk, wv))
    out = functional.scaled_dot_product_attention(q, k, v)
    return out.transpose(1, 2).reshape(_BATCH, _LENGTH, _WIDTH) @ wo


#: Keys that queries may see; the second query none.
_SOME_ROWS = np.tri(_LENGTH, dtype=bool) & (np.arange(_LENGTH)[:, None] != 1)


def _without_keys(q, k, v, mask):
    """Return zeros for a query that may see no key; its softmax is one of numbers all the same."""
    scores = q @ k.transpose(2, 3) / sqrt(_SIZE)
    sees_any = mask.any(1, keepdim=True)
    share = (scores + torch.where(mask | ~sees_any, 0.0, -torch.inf)).softmax(-1)
    return (share * sees_any) @ v


_TO_HEADS = np.array([0, 0, _HEADS, _SIZE])
_FROM_HEADS = np.array([0, 0, _WIDTH])

_HAND = [
    *(
        node
        for name in "qkv"
        for node in (
            ("MatMul", f"x,w{name}", f"{name}0"),
            ("Reshape", f"{name}0,heads", f"{name}1"),
            (
                "Transpose",
                f"{name}1",
                name,
                {"perm": [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]},
            ),
        )
    ),
    ("MatMul", "q,k", "s"),
    ("Div", "s,root", "s1"),
    ("Softmax", "s1", "p", {"axis": -1}),
    ("MatMul", "p,v", "o"),
    ("Transpose", "o", "o1", {"perm": [0, 2, 1, 3]}),
    ("Reshape", "o1,flat", "o2"),
    ("MatMul", "o2,wo", "y"),
]
_KNOWN = {
    "heads": _TO_HEADS,
    "flat": _FROM_HEADS,
    "root": np.array(sqrt(_SIZE), np.float32),
}
_PROJECTIONS = {f"w{name}": (_WIDTH, _WIDTH) for name in ("q", "k", "v", "o")}


def _layer(x, wq, wk, wv, wo, g1, b1, w1, c1, w2, c2):
    attended = functional.layer_norm(x + _by_hand(x, wq, wk, wv, wo), (_WIDTH,), g1, b1, eps=1e-5)
    return attended + functional.gelu(attended @ w1 + c1) @ w2 + c2


_CASES = [
    case(
        "by-hand",
        _HAND,
        {"x": (_BATCH, _LENGTH, _WIDTH), **_PROJECTIONS},
        _by_hand,
        known=_KNOWN,
    ),
    case(
        "layer",
        [
            *_HAND[:-1],
            ("MatMul", "o2,wo", "o3"),
            ("Add", "x,o3", "r"),
            ("LayerNormalization", "r,g1,b1", "n", {"axis": -1}),
            ("MatMul", "n,w1", "f"),
            ("Add", "f,c1", "f1"),
            ("Gelu", "f1", "f2"),
            ("MatMul", "f2,w2", "f3"),
            ("Add", "f3,c2", "f4"),
            ("Add", "n,f4", "y"),
        ],
        {
            "x": (_BATCH, _LENGTH, _WIDTH),
            **_PROJECTIONS,
            "g1": (_WIDTH,),
            "b1": (_WIDTH,),
            "w1": (_WIDTH, 12),
            "c1": (12,),
            "w2": (12, _WIDTH),
            "c2": (_WIDTH,),
        },
        _layer,
        known=_KNOWN,
    ),
    single("attention", "Attention", _QKV, functional.scaled_dot_product_attention, opset=23),
    single(
        "attention-causal",
        "Attention",
        _QKV,
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        opset=23,
        is_causal=1,
    ),
    single(
        "attention-scale",
        "Attention",
        _QKV,
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, scale=0.3),
        opset=23,
        scale=0.3,
    ),
    single(
        "attention-mask",
        "Attention",
        _QKV,
        lambda q, k, v, mask: functional.scaled_dot_product_attention(q, k, v, attn_mask=mask),
        data={"mask": drawn((_LENGTH, _LENGTH), 9)},
        opset=23,
    ),
    single(
        "attention-mask-trained",
        "Attention",
        {**_QKV, "mask": (_LENGTH, _LENGTH)},
        lambda q, k, v, mask: functional.scaled_dot_product_attention(q, k, v, attn_mask=mask),
        opset=23,
    ),
    single(
        "attention-mask-bool",
        "Attention",
        _QKV,
        lambda q, k, v, mask: functional.scaled_dot_product_attention(q, k, v, attn_mask=mask),
        data={"mask": np.tri(_LENGTH, dtype=bool)},
        opset=23,
    ),
    *(
        single(
            f"attention-rows-without-keys-{mode}",
            "Attention",
            _QKV,
            _without_keys,
            data={"mask": _SOME_ROWS},
            opset=23,
            qk_matmul_output_mode=mode,
        )
        for mode in (0, 3)
    ),
    single(
        "attention-grouped",
        "Attention",
        {
            "q": (_BATCH, 4, _LENGTH, _SIZE),
            "k": (_BATCH, 2, _LENGTH, _SIZE),
            "v": (_BATCH, 2, _LENGTH, _SIZE),
        },
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        opset=23,
    ),
    single(
        "attention-flat",
        "Attention",
        {name: (_BATCH, _LENGTH, _WIDTH) for name in ("q", "k", "v")},
        lambda *qkv: (
            functional.scaled_dot_product_attention(
                *(y.reshape(_BATCH, _LENGTH, _HEADS, _SIZE).transpose(1, 2) for y in qkv)
            )
            .transpose(1, 2)
            .reshape(_BATCH, _LENGTH, _WIDTH)
        ),
        opset=23,
        q_num_heads=_HEADS,
        kv_num_heads=_HEADS,
    ),
]


@pytest.mark.parametrize("given_case", _CASES, ids=ids(_CASES))
def test_gradients(given_case: Case, tmp_path: Path):
    agree(given_case, tmp_path)
