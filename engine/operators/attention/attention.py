"""Attention: products, masks and a softmax over the keys."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from onnx import helper

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Operator, Value
from tilescope.engine.operators.elementwise.cast import CAST
from tilescope.engine.operators.elementwise.choice import chosen
from tilescope.engine.operators.elementwise.elementwise import binary, scalar, unary
from tilescope.engine.operators.movement.layout import TRANSPOSE, reshape
from tilescope.engine.operators.movement.slicing import joined
from tilescope.engine.operators.norm.softmax import SOFTMAX
from tilescope.engine.operators.product.product import MATMUL
from tilescope.engine.operators.reduction import reduced

__all__ = ["RECORDS"]

#: Batch, heads, sequence, head size.
_RANK = 4
#: What the fourth result holds besides the raw scores: after the cap, the bias, the softmax.
_AFTER_CAP, _AFTER_BIAS, _AFTER_SOFTMAX = 1, 2, 3


@dataclass(frozen=True)
class _Operands:
    """Queries, keys and values: shape (batch, heads, sequence, head size) each."""

    q: Value
    k: Value
    v: Value
    n_past: int

    @property
    def n_repeats(self) -> int:
        """Heads of queries that share one of keys and values."""
        return self.q.shape[1] // self.k.shape[1]


def _in_heads(node: Node, into: Expansion, x: Value, key: str) -> Value:
    """Emit (batch, sequence, heads · size) with its heads apart.

    Raises
    ------
    BadModel
        When the number of heads is not given or does not divide the last dimension.
    """
    if len(x.shape) == _RANK:
        return x
    n = node.attributes.get(key, 0)
    if len(x.shape) != _RANK - 1 or not n or x.shape[2] % n:
        raise BadModel(f"{node}: {x.name!r} of shape {x.shape} does not divide into {key} = {n}")
    apart = reshape(into, x, (*x.shape[:2], n, x.shape[2] // n))
    return into.emit(TRANSPOSE, apart, order=(0, 2, 1, 3))


def _operands(node: Node, into: Expansion) -> _Operands:
    """Return the operands, keys and values after those of the past.

    Raises
    ------
    BadModel
        When their shapes do not fit.
    """
    q = _in_heads(node, into, node.operand(0), "q_num_heads")
    k = _in_heads(node, into, node.operand(1), "kv_num_heads")
    v = _in_heads(node, into, node.operand(2), "kv_num_heads")
    past_k, past_v = node.optional(4), node.optional(5)
    n_past = 0
    if past_k is not None and past_v is not None:
        n_past = past_k.shape[2]
        k, v = joined(into, [past_k, k], 2), joined(into, [past_v, v], 2)
    fits = q.shape[0] == k.shape[0] and q.shape[3] == k.shape[3] and k.shape[:3] == v.shape[:3]
    if not fits or q.shape[1] % k.shape[1]:
        raise BadModel(
            f"{node}: queries {q.shape}, keys {k.shape} and values {v.shape} do not fit: batch,"
            " head size and the sequences of keys and values agree, and the heads divide"
        )
    return _Operands(q, k, v, n_past)


def _allowed(node: Node, into: Expansion, operands: _Operands) -> list[Value]:
    """Return bools that broadcast to the scores: which keys a query may see."""
    n_queries, n_keys = operands.q.shape[2], operands.k.shape[2]
    ahead = np.arange(n_keys)[None, :] - np.arange(n_queries)[:, None]
    valid = node.optional(6)
    found: list[Value] = []
    below, above = _bounds(node)
    if valid is None:
        distance = ahead - operands.n_past
        mask = np.ones(distance.shape, np.bool_)
        mask &= (distance <= above) if above is not None else mask
        mask &= (distance >= -below) if below is not None else mask
        if not mask.all():
            found.append(into.constant(mask, "allowed"))
        return found
    per_batch = reshape(into, valid, (valid.shape[0], 1, 1, 1))

    def numbers(array: NDArray[np.int64]) -> Value:
        return into.constant(array.astype(valid.dtype), "distance")

    found.append(binary(into, "less", numbers(np.arange(n_keys)), per_batch))
    # The last query is the last valid key: distances count from it.
    offset = binary(into, "subtract", per_batch, scalar(into, n_queries, per_batch))
    if above is not None:
        found.append(binary(into, "less_equal", numbers(ahead - above), offset))
    if below is not None:
        found.append(binary(into, "greater_equal", numbers(ahead + below), offset))
    return found


def _bounds(node: Node) -> tuple[int | None, int | None]:
    """Return how many keys before and after its own position a query sees; None for all."""
    below = node.attributes.get("left_window_size", -1)
    above = node.attributes.get("right_window_size", -1)
    if node.attributes.get("is_causal", 0):
        above = 0
    return (None if below < 0 else below), (None if above < 0 else above)


def _mask(node: Node, into: Expansion, n_keys: int) -> Value | None:
    """Return the mask, lengthened to all keys; what is added may not be seen."""
    mask = node.optional(3)
    if mask is None or mask.shape[-1] == n_keys:
        return mask
    shape = (*mask.shape[:-1], n_keys - mask.shape[-1])
    fill = np.full(shape, False if mask.dtype == "bool" else -np.inf, mask.dtype)
    return joined(into, [mask, into.constant(fill, "padding")], len(shape) - 1)


def _grouped(into: Expansion, x: Value, operands: _Operands) -> Value:
    """Emit heads that share keys as more rows of one head."""
    batch, heads, rows, size = x.shape
    if operands.n_repeats == 1:
        return x
    shape = (batch, heads // operands.n_repeats, operands.n_repeats * rows, size)
    return reshape(into, x, shape)


def _scores(node: Node, into: Expansion, operands: _Operands) -> Value:
    """Emit the scaled products of queries and keys: (batch, heads, queries, keys)."""
    q, k = operands.q, operands.k
    scale = node.attributes.get("scale") or 1 / sqrt(q.shape[3])
    root = scalar(into, sqrt(scale), q)
    left = _grouped(into, binary(into, "multiply", q, root), operands)
    right = into.emit(TRANSPOSE, binary(into, "multiply", k, root), order=(0, 1, 3, 2))
    product = into.emit(MATMUL, left, right, **node.hints.stated())
    return reshape(into, product, (*q.shape[:3], k.shape[2]))


def _capped(node: Node, into: Expansion, scores: Value) -> Value:
    cap = node.attributes.get("softcap", 0)
    if not cap:
        return scores
    bound = scalar(into, cap, scores)
    return binary(
        into, "multiply", unary(into, "tanh", binary(into, "divide", scores, bound)), bound
    )


def _bias(node: Node, into: Expansion, operands: _Operands) -> Value | None:
    """Emit what is added to the scores: the mask, and −∞ for what may not be seen."""
    mask = _mask(node, into, operands.k.shape[2])
    conditions = _allowed(node, into, operands)
    if mask is not None and mask.dtype == "bool":
        conditions.append(mask)
        mask = None
    like = operands.q
    for condition in conditions:
        lowest = scalar(into, -np.inf, like)
        mask = chosen(into, condition, scalar(into, 0, like) if mask is None else mask, lowest)
    return mask


def _attention(node: Node, into: Expansion) -> tuple[Value, ...]:
    operands = _operands(node, into)
    scores = _scores(node, into, operands)
    capped = _capped(node, into, scores)
    bias = _bias(node, into, operands)
    biased = capped if bias is None else binary(into, "add", capped, bias)
    share = _softmax(node, into, biased, bias)
    dtype = operands.v.dtype
    share = share if share.dtype == dtype else into.emit(CAST, share, dtype=dtype)
    product = into.emit(MATMUL, _grouped(into, share, operands), operands.v, **node.hints.stated())
    out = reshape(into, product, (*operands.q.shape[:3], operands.v.shape[3]))
    if len(node.operand(0).shape) < _RANK:
        batch, heads, n, size = out.shape
        moved = into.emit(TRANSPOSE, out, order=(0, 2, 1, 3))
        out = reshape(into, moved, (batch, n, heads * size))
    mode = node.attributes.get("qk_matmul_output_mode", 0)
    shown = {_AFTER_CAP: capped, _AFTER_BIAS: biased, _AFTER_SOFTMAX: share}.get(mode, scores)
    return out, operands.k, operands.v, shown


def _softmax(node: Node, into: Expansion, scores: Value, bias: Value | None) -> Value:
    """Emit the softmax over the keys; zeros for a query that may see none."""
    precision = node.attributes.get("softmax_precision")
    if precision is not None:
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(precision)).name
        dtype = "float32" if dtype == "float64" else dtype
        if dtype != scores.dtype:
            scores = into.emit(CAST, scores, dtype=dtype)
    share = into.emit(SOFTMAX, scores, axis=_RANK - 1)
    if bias is None or (bias.known is not None and np.isfinite(bias.known.max(axis=-1)).all()):
        return share
    largest = reduced(into, "maximum", bias, [len(bias.shape) - 1])
    sees_none = binary(into, "equal", largest, scalar(into, -np.inf, largest))
    return chosen(into, sees_none, scalar(into, 0, share), share)


RECORDS = (Operator(name="Attention", decompose=_attention),)
