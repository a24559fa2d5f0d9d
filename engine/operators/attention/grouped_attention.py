"""Attention of language models as onnxruntime fuses it: groups of heads that share keys, rotation.

Source: onnxruntime, docs/ContribOperators.md, domain com.microsoft: GroupQueryAttention and
RotaryEmbedding. Products, softmax and copies have the plans and cycles of ONNX's own operators.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Operator, Value
from tilescope.engine.operators.elementwise.choice import chosen
from tilescope.engine.operators.elementwise.elementwise import binary, scalar, unary
from tilescope.engine.operators.fused import MICROSOFT
from tilescope.engine.operators.indexing.indexing import GATHER
from tilescope.engine.operators.movement.layout import TRANSPOSE, reshape
from tilescope.engine.operators.movement.slicing import along, joined
from tilescope.engine.operators.norm.softmax import SOFTMAX
from tilescope.engine.operators.product.product import MATMUL

__all__ = ["RECORDS"]

#: Inputs of GroupQueryAttention by name.
_PAST_KEY, _PAST_VALUE, _LAST_KEY, _COSINES, _SINES, _PLACES, _BIAS = 3, 4, 5, 7, 8, 9, 10
_SINKS = 11


class _Turn(NamedTuple):
    """Cosines and sines, (1 or batch, 1, sequence, half of the rotated columns)."""

    cosines: Value
    sines: Value
    is_interleaved: bool


def _in_heads(node: Node, expansion: Expansion, x: Value, n: int) -> Value:
    """Emit (batch, sequence, heads · size) as (batch, heads, sequence, size).

    Raises
    ------
    BadModel
        When the heads do not divide the columns.
    """
    if len(x.shape) != 3 or n < 1 or x.shape[2] % n:
        raise BadModel(f"{node}: {x.name!r} of shape {x.shape} does not divide into {n} heads")
    apart = reshape(expansion, x, (*x.shape[:2], n, x.shape[2] // n))
    return expansion.emit(TRANSPOSE, apart, order=(0, 2, 1, 3))


def _in_columns(expansion: Expansion, x: Value) -> Value:
    """Emit (batch, heads, sequence, size) as (batch, sequence, heads · size)."""
    batch, heads, n, size = x.shape
    return reshape(
        expansion, expansion.emit(TRANSPOSE, x, order=(0, 2, 1, 3)), (batch, n, heads * size)
    )


def _rows(expansion: Expansion, table: Value, positions: Value | None, first: int, n: int) -> Value:
    """Emit the rows of a table at positions: (1 or batch, 1, sequence, columns)."""
    if positions is None:
        rows = along(expansion, table, 0, first, first + n)
        return reshape(expansion, rows, (1, 1, n, table.shape[1]))
    rows = expansion.emit(GATHER, table, positions, axis=0)
    return reshape(expansion, rows, (positions.shape[0], 1, n, table.shape[1]))


def _turned(expansion: Expansion, x: Value, turn: _Turn) -> Value:
    """Emit (batch, heads, sequence, size) with pairs of columns rotated; others stay."""
    half, size = turn.cosines.shape[3], x.shape[3]
    first = x if 2 * half == size else along(expansion, x, 3, 0, 2 * half)
    if turn.is_interleaved:
        pairs = reshape(expansion, first, (*x.shape[:3], half, 2))
        parts = [
            reshape(expansion, along(expansion, pairs, 4, i, i + 1), (*x.shape[:3], half))
            for i in range(2)
        ]
    else:
        parts = [along(expansion, first, 3, i * half, (i + 1) * half) for i in range(2)]
    item, second = parts
    real = binary(
        expansion,
        "subtract",
        binary(expansion, "multiply", item, turn.cosines),
        binary(expansion, "multiply", second, turn.sines),
    )
    imaginary = binary(
        expansion,
        "add",
        binary(expansion, "multiply", item, turn.sines),
        binary(expansion, "multiply", second, turn.cosines),
    )
    if turn.is_interleaved:
        wide = [reshape(expansion, part, (*x.shape[:3], half, 1)) for part in (real, imaginary)]
        out = reshape(expansion, joined(expansion, wide, 4), (*x.shape[:3], 2 * half))
    else:
        out = joined(expansion, [real, imaginary], 3)
    return (
        out
        if 2 * half == size
        else joined(expansion, [out, along(expansion, x, 3, 2 * half, size)], 3)
    )


def _rotary(node: Node, expansion: Expansion) -> Value:
    """Emit the rotation of queries or keys.

    Raises
    ------
    BadModel
        When sequences are packed, or the operands do not fit.
    """
    x, positions, cosines, sines = (node.operand(i) for i in range(4))
    if node.attributes.get("is_packed_batching", 0):
        raise BadModel(f"{node}: is_packed_batching is not supported yet; export without it")
    is_flat = len(x.shape) == 3
    if is_flat:
        width = 2 * cosines.shape[1]
        is_partial = node.attributes.get("rotary_embedding_dim", 0)
        n = node.attributes.get("num_heads", 0) if is_partial else x.shape[2] // width
        x = _in_heads(node, expansion, x, n)
    length = x.shape[2]
    if positions.shape == (1,):
        steps = expansion.constant(np.arange(length, dtype=positions.dtype), "steps")
        positions = reshape(expansion, binary(expansion, "add", positions, steps), (1, length))
    if len(x.shape) != 4 or positions.shape not in ((1, length), (x.shape[0], length)):
        raise BadModel(
            f"{node}: positions of shape {positions.shape} do not fit {node.operand(0).name!r} of"
            f" shape {node.operand(0).shape}: expected (1,) or a position per batch and step"
        )
    turn = _Turn(
        _rows(expansion, cosines, positions, 0, length),
        _rows(expansion, sines, positions, 0, length),
        bool(node.attributes.get("interleaved", 0)),
    )
    out = _turned(expansion, x, turn)
    return _in_columns(expansion, out) if is_flat else out


def _n_past(node: Node, length: int) -> int:
    """Return how many keys precede those of the node.

    Raises
    ------
    BadModel
        When earlier keys do not fill their tensor, or nobody says how many there are.
    """
    past = node.optional(_PAST_KEY)
    if past is None or not past.shape[2]:
        return 0
    last = node.known(_LAST_KEY, "the number of keys")
    n = past.shape[2]
    if (last.reshape(-1) != n + length - 1).any():
        raise BadModel(
            f"{node}: {past.name!r} holds {n} earlier keys and {length} are new, but seqlens_k is"
            f" {last.reshape(-1).tolist()}: expected {n + length - 1}; buffers with room for later"
            " keys are not supported yet"
        )
    return n


def _seen(node: Node, expansion: Expansion, n_past: int, n_queries: int, like: Value) -> Value:
    """Emit what is added to scores: −∞ for later keys, for padding and outside of the window."""
    n_keys = n_past + n_queries
    ahead = np.arange(n_keys)[None, :] - np.arange(n_queries)[:, None] - n_past
    is_seen = ahead <= 0
    window = node.attributes.get("local_window_size", -1)
    if window > 0:
        is_seen &= ahead > -window
    lowest = np.where(is_seen, 0, np.finfo(like.dtype).min).astype(like.dtype)
    bias: Value = expansion.constant(lowest, "seen")
    last = node.optional(_LAST_KEY)
    if n_past or last is None:
        return bias
    per_batch = reshape(expansion, last, (last.shape[0] if last.shape else 1, 1, 1, 1))
    positions = expansion.constant(np.arange(n_keys, dtype=last.dtype), "places")
    is_padding = binary(expansion, "greater", positions, per_batch)
    # The first key stays visible to padded queries, so that no row is empty.
    return chosen(
        expansion, is_padding, scalar(expansion, float(np.finfo(like.dtype).min), like), bias
    )


def _check(node: Node) -> None:
    """Refuse what is not supported.

    Raises
    ------
    BadModel
        Names the node and what it asks for.
    """
    options = [key for key in ("smooth_softmax", "qk_output", "k_quant_type", "v_quant_type")
               if node.attributes.get(key, 0) not in (0, -1, "NONE")]  # fmt: skip
    if node.optional(_SINKS) is not None:
        options.append("head_sink")
    if options:
        raise BadModel(f"{node}: {options[0]} is not supported yet; export the model without it")


def _grouped_query_attention(node: Node, expansion: Expansion) -> tuple[Value, ...]:
    _check(node)
    n, n_shared = node.attributes["num_heads"], node.attributes["kv_num_heads"]
    if n_shared < 1 or n % n_shared:
        raise BadModel(f"{node}: kv_num_heads = {n_shared} does not divide num_heads = {n}")
    x, key, value = node.operand(0), node.optional(1), node.optional(2)
    if key is None or value is None:
        size = x.shape[-1] // (n + 2 * n_shared)
        edges = [0, n * size, (n + n_shared) * size, (n + 2 * n_shared) * size]
        x, key, value = (along(expansion, x, 2, edges[i], edges[i + 1]) for i in range(3))
    q, k, v = (
        _in_heads(node, expansion, part, heads)
        for part, heads in ((x, n), (key, n_shared), (value, n_shared))
    )
    batch, _, length, size = q.shape
    n_past = _n_past(node, length)
    if node.attributes.get("do_rotary", 0):
        positions = node.optional(_PLACES)
        turn = _Turn(
            _rows(expansion, node.operand(_COSINES), positions, n_past, length),
            _rows(expansion, node.operand(_SINES), positions, n_past, length),
            bool(node.attributes.get("rotary_interleaved", 0)),
        )
        q, k = _turned(expansion, q, turn), _turned(expansion, k, turn)
    if n_past:
        k = joined(expansion, [node.operand(_PAST_KEY), k], 2)
        v = joined(expansion, [node.operand(_PAST_VALUE), v], 2)
    # Heads that share keys are more rows of one head.
    n_keys, rows = k.shape[2], n // n_shared * length
    scale = node.attributes.get("scale") or 1 / sqrt(size)
    left = reshape(expansion, q, (batch, n_shared, rows, size))
    left = binary(expansion, "multiply", left, scalar(expansion, scale, left))
    right = expansion.emit(TRANSPOSE, k, order=(0, 1, 3, 2))
    scores = expansion.emit(MATMUL, left, right, **node.hints.stated())
    scores = reshape(expansion, scores, (batch, n, length, n_keys))
    cap = node.attributes.get("softcap", 0)
    if cap:
        bound = scalar(expansion, cap, scores)
        scores = unary(expansion, "tanh", binary(expansion, "divide", scores, bound))
        scores = binary(expansion, "multiply", scores, bound)
    bias = node.optional(_BIAS)
    if bias is not None:
        scores = binary(expansion, "add", scores, bias)
    scores = binary(expansion, "add", scores, _seen(node, expansion, n_past, length, scores))
    share = reshape(
        expansion, expansion.emit(SOFTMAX, scores, axis=3), (batch, n_shared, rows, n_keys)
    )
    out = expansion.emit(MATMUL, share, v, **node.hints.stated())
    out = _in_columns(expansion, reshape(expansion, out, (batch, n, length, v.shape[3])))
    return out, k, v


RECORDS = (
    Operator(name="GroupQueryAttention", domain=MICROSOFT, decompose=_grouped_query_attention),
    Operator(name="RotaryEmbedding", domain=MICROSOFT, decompose=_rotary),
)
