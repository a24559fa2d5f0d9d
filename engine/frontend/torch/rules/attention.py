"""Attention."""

from __future__ import annotations

from math import prod, sqrt
from typing import Any

import numpy as np

from tilescope.engine.frontend.torch.emission import Emission, Rules
from tilescope.engine.ir import Value

__all__ = ["RULES"]

_RANK = 4


def _attention(
    emit: Emission,
    q: Value,
    k: Value,
    v: Value,
    mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    factor = 1 / sqrt(q.shape[-1]) if scale is None else scale
    if dropout_p:
        return _with_dropout(emit, q, k, v, mask, dropout_p, is_causal, factor)
    shape = (*q.shape[:-1], v.shape[-1])
    if len(q.shape) > _RANK or (len({x.shape[:-2] for x in (q, k, v)}) > 1 and not enable_gqa):
        outer = np.broadcast_shapes(*(x.shape[:-2] for x in (q, k, v)))
        q, k, v = (emit.expand(x, (*outer, *x.shape[-2:])) for x in (q, k, v))
        shape = (*outer, q.shape[-2], v.shape[-1])
        if mask is not None and len(outer) > 2:
            mask = emit.expand(mask, (*outer, *mask.shape[-2:]))
    q, k, v = (_with_heads(emit, x) for x in (q, k, v))
    if mask is not None and len(mask.shape) != 2:
        mask = _with_heads(emit, mask)
    operands = [q, k, v] if mask is None else [q, k, v, mask]
    out = emit("Attention", *operands, scale=float(factor), is_causal=int(is_causal))
    return emit.reshape(out, shape)


def _with_heads(emit: Emission, x: Value) -> Value:
    """Return a tensor as (batch, heads, rows, columns)."""
    if len(x.shape) == _RANK:
        return x
    if len(x.shape) < _RANK:
        return emit.reshape(x, (*(1,) * (_RANK - len(x.shape)), *x.shape))
    return emit.reshape(x, (prod(x.shape[:-3]), *x.shape[-3:]))


def _with_dropout(
    emit: Emission,
    q: Value,
    k: Value,
    v: Value,
    mask: Value | None,
    dropout_p: float,
    is_causal: bool,
    factor: float,
) -> Value:
    """Return attention whose shares drop out, part by part: the whole operator has no dropout."""
    n_groups = q.shape[-3] // k.shape[-3] if len(q.shape) > 2 else 1
    if n_groups > 1:
        places = emit.integers(np.arange(k.shape[-3]).repeat(n_groups))
        k, v = (emit("Gather", x, places, axis=len(x.shape) - 3) for x in (k, v))
    rank = len(k.shape)
    turned = emit.permute(k, (*range(rank - 2), rank - 1, rank - 2))
    scores = emit.scaled(emit("MatMul", q, turned), factor)
    if is_causal:
        mask = emit.constant(np.tri(q.shape[-2], k.shape[-2], dtype=bool))
    if mask is not None and mask.dtype == "bool":
        scores = emit("Where", mask, scores, emit.constant(-np.inf, scores.dtype))
    elif mask is not None:
        scores = emit("Add", scores, mask)
    shares = emit("Softmax", scores, axis=len(scores.shape) - 1)
    ratio = emit.constant(dropout_p, "float32")
    return emit("MatMul", emit("Dropout", shares, ratio, emit.constant(True)), v)


def _fused(emit: Emission, q: Value, k: Value, v: Value, *given: Any, **options: Any) -> Any:
    """Return the result of a fused form, and nothing of what its backward pass would read."""
    mask = given[0] if given and isinstance(given[0], Value) else None
    flags = [item for item in given if isinstance(item, bool)]
    out = _attention(
        emit, q, k, v, mask, is_causal=bool(flags and flags[-1]), scale=options.get("scale")
    )
    return (out, *(None,) * 8)


RULES: Rules = {
    "aten._scaled_dot_product_flash_attention_for_cpu": _fused,
    "aten.scaled_dot_product_attention": _attention,
}
