"""Attention as onnxruntime fuses it: with the projections of queries, keys and values inside.

Source: onnxruntime, docs/ContribOperators.md, domain com.microsoft.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Operator, Value
from tilescope.engine.operators.elementwise.elementwise import binary, scalar
from tilescope.engine.operators.fused import MICROSOFT
from tilescope.engine.operators.movement.layout import TRANSPOSE, reshape
from tilescope.engine.operators.movement.slicing import along, joined
from tilescope.engine.operators.norm.softmax import SOFTMAX
from tilescope.engine.operators.product.product import MATMUL, multiplied
from tilescope.engine.operators.quantisation import as_type
from tilescope.engine.operators.quantised.integer_product import of_matrices

__all__ = ["RECORDS"]


class _Heads(NamedTuple):
    """Queries, keys and values: shape (batch, heads, sequence, head size)."""

    q: Value
    k: Value
    v: Value


def _in_heads(node: Node, expansion: Expansion, x: Value, sizes: tuple[int, ...]) -> _Heads:
    """Emit the three parts of a projection with their heads apart.

    Raises
    ------
    BadModel
        When the number of heads does not divide them.
    """
    n = node.attributes["num_heads"]
    if sum(sizes) != x.shape[2] or n < 1 or any(size % n for size in sizes):
        raise BadModel(
            f"{node}: {x.shape[2]} columns do not divide into queries, keys and values of"
            f" {', '.join(map(str, sizes))} columns in {n} heads"
        )
    heads, start = [], 0
    for size in sizes:
        part = along(expansion, x, 2, start, start + size)
        apart = reshape(expansion, part, (*x.shape[:2], n, size // n))
        heads.append(expansion.emit(TRANSPOSE, apart, order=(0, 2, 1, 3)))
        start += size
    return _Heads(*heads)


def _with_past(expansion: Expansion, heads: _Heads, past: Value | None) -> _Heads:
    """Emit keys and values after those of earlier calls: past has shape (2, …)."""
    if past is None:
        return heads
    k, v = (
        reshape(expansion, along(expansion, past, 0, i, i + 1), past.shape[1:]) for i in range(2)
    )
    return _Heads(heads.q, joined(expansion, [k, heads.k], 2), joined(expansion, [v, heads.v], 2))


def _masked(node: Node, expansion: Expansion, mask: Value, heads: _Heads) -> Value:
    """Emit what a mask adds to scores, in a shape that broadcasts to them.

    Raises
    ------
    BadModel
        When the mask has another shape than lengths, keys, or queries and keys.
    """
    batch, _, n_queries, _ = heads.q.shape
    n_keys = heads.k.shape[2]
    if mask.shape == (batch,):  # lengths: what follows is padding
        positions = expansion.constant(np.arange(n_keys, dtype=mask.dtype), "places")
        is_kept = binary(expansion, "less", positions, reshape(expansion, mask, (batch, 1, 1, 1)))
        kept_share = as_type(expansion, is_kept, heads.q.dtype)
    elif mask.shape == (batch, n_keys):
        kept_share = as_type(
            expansion, reshape(expansion, mask, (batch, 1, 1, n_keys)), heads.q.dtype
        )
    elif mask.shape == (batch, n_queries, n_keys):
        kept_share = as_type(
            expansion, reshape(expansion, mask, (batch, 1, n_queries, n_keys)), heads.q.dtype
        )
    else:
        raise BadModel(
            f"{node}: its mask has shape {mask.shape}: expected ({batch},), ({batch}, {n_keys}) or"
            f" ({batch}, {n_queries}, {n_keys})"
        )
    dropped = binary(expansion, "subtract", scalar(expansion, 1, kept_share), kept_share)
    lowest = node.attributes.get("mask_filter_value", -10000.0)
    return binary(expansion, "multiply", dropped, scalar(expansion, lowest, kept_share))


def _attended(
    node: Node, expansion: Expansion, heads: _Heads, mask: Value | None, bias: Value | None
) -> Value:
    """Emit softmax(q · kᵀ · scale + masks) · v: shape (batch, sequence, columns)."""
    batch, n, n_queries, size = heads.q.shape
    scale = node.attributes.get("scale") or 1 / sqrt(size)
    q = binary(expansion, "multiply", heads.q, scalar(expansion, scale, heads.q))
    turned = expansion.emit(TRANSPOSE, heads.k, order=(0, 1, 3, 2))
    scores = expansion.emit(MATMUL, q, turned, **node.hints.stated())
    if mask is not None:
        scores = binary(expansion, "add", scores, _masked(node, expansion, mask, heads))
    if node.attributes.get("unidirectional", 0):
        n_keys = heads.k.shape[2]
        ahead = np.arange(n_keys)[None] > np.arange(n_queries)[:, None] + (n_keys - n_queries)
        lowest = np.where(ahead, np.finfo(scores.dtype).min, 0).astype(scores.dtype)
        scores = binary(expansion, "add", scores, expansion.constant(lowest, "ahead"))
    if bias is not None:
        scores = binary(expansion, "add", scores, bias)
    share = expansion.emit(SOFTMAX, scores, axis=3)
    out = expansion.emit(MATMUL, share, heads.v, **node.hints.stated())
    moved = expansion.emit(TRANSPOSE, out, order=(0, 2, 1, 3))
    return reshape(expansion, moved, (batch, n_queries, n * heads.v.shape[3]))


def _results(node: Node, expansion: Expansion, heads: _Heads, out: Value) -> tuple[Value, ...]:
    """Return the result, and keys and values for the next call where the node has them."""
    if node.n_outputs < 2:
        return (out,)
    parts = [reshape(expansion, part, (1, *part.shape)) for part in (heads.k, heads.v)]
    return out, joined(expansion, parts, 0)


def _check_options(node: Node, *options: str) -> None:
    """Refuse options that are not supported.

    Raises
    ------
    BadModel
        Names the node and the option.
    """
    for key in options:
        if node.attributes.get(key, 0):
            raise BadModel(f"{node}: {key} is not supported yet; export the model without it")


def _attention(node: Node, expansion: Expansion) -> tuple[Value, ...]:
    _check_options(node, "do_rotary", "past_present_share_buffer")
    x = multiplied(node, expansion, node.operand(0), node.operand(1))
    bias = node.optional(2)
    x = x if bias is None else binary(expansion, "add", x, bias)
    sizes = node.attributes.get("qkv_hidden_sizes") or (x.shape[2] // 3,) * 3
    heads = _with_past(expansion, _in_heads(node, expansion, x, tuple(sizes)), node.optional(4))
    out = _attended(node, expansion, heads, node.optional(3), node.optional(5))
    return _results(node, expansion, heads, out)


def _quantised_attention(node: Node, expansion: Expansion) -> tuple[Value, ...]:
    _check_options(node, "do_rotary", "past_present_share_buffer")
    x, weights, bias = (node.operand(i) for i in range(3))
    zeros = node.optional(6), node.optional(7)
    total = of_matrices(node, expansion, x, weights, zeros)
    scale = binary(expansion, "multiply", node.operand(3), node.operand(4))
    floats = binary(expansion, "multiply", as_type(expansion, total, scale.dtype), scale)
    x = binary(expansion, "add", floats, bias)
    sizes = (x.shape[2] // 3,) * 3
    heads = _with_past(expansion, _in_heads(node, expansion, x, sizes), node.optional(8))
    return _results(
        node, expansion, heads, _attended(node, expansion, heads, node.optional(5), None)
    )


def _multi_head_attention(node: Node, expansion: Expansion) -> tuple[Value, ...]:
    """Emit attention of queries, keys and values, and all keys and values for the next call.

    Raises
    ------
    BadModel
        When the buffers of earlier keys have room for later ones.
    """
    if any(node.optional(i) is not None for i in (8, 9)):
        raise BadModel(f"{node}: earlier keys and values in buffers with room are not supported")
    n, bias, start, parts = node.attributes["num_heads"], node.optional(3), 0, []
    for side in _sides(node, expansion):
        x = side
        if len(x.shape) == 4:  # heads come second already, as those of another sequence
            parts.append(x)
            continue
        size = x.shape[2]
        if size % n:
            raise BadModel(f"{node}: {n} heads do not divide {x.name!r} of shape {x.shape}")
        if bias is not None:
            x = binary(expansion, "add", x, along(expansion, bias, 0, start, start + size))
            start += size
        apart = reshape(expansion, x, (*x.shape[:2], n, size // n))
        parts.append(expansion.emit(TRANSPOSE, apart, order=(0, 2, 1, 3)))
    for i in (1, 2):
        past = node.optional(5 + i)
        if past is not None:
            parts[i] = joined(expansion, [past, parts[i]], 2)
    heads = _Heads(*parts)
    out = _attended(node, expansion, heads, node.optional(4), node.optional(5))
    return out, heads.k, heads.v


def _sides(node: Node, expansion: Expansion) -> list[Value]:
    """Emit queries, keys and values, which may be packed: (batch, sequence, heads, parts, size).

    Raises
    ------
    BadModel
        When they have other dimensions.
    """
    sides: list[Value] = []
    for x in (node.operand(0), node.optional(1), node.optional(2)):
        if x is None:
            continue
        if len(x.shape) != 5:
            sides.append(x)
            continue
        for i in range(x.shape[3]):
            side = along(expansion, x, 3, i, i + 1)
            sides.append(reshape(expansion, side, (*x.shape[:2], x.shape[2] * x.shape[4])))
    ranks = [len(x.shape) for x in sides]
    if ranks not in ([3, 3, 3], [3, 4, 4]):
        shapes = ", ".join(str(x.shape) for x in node.operands[:3])
        raise BadModel(
            f"{node}: expected queries, keys and values of three dimensions, packed ones of five,"
            f" or keys and values of four, got {shapes}"
        )
    return sides


RECORDS = (
    Operator(name="Attention", domain=MICROSOFT, decompose=_attention),
    Operator(name="MultiHeadAttention", domain=MICROSOFT, decompose=_multi_head_attention),
    Operator(name="QAttention", domain=MICROSOFT, decompose=_quantised_attention),
)
