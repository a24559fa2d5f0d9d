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


def _in_heads(node: Node, expansion: Expansion, x: Value, key: str) -> Value:
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
    apart = reshape(expansion, x, (*x.shape[:2], n, x.shape[2] // n))
    return expansion.emit(TRANSPOSE, apart, order=(0, 2, 1, 3))


def _operands(node: Node, expansion: Expansion) -> _Operands:
    """Return the operands, keys and values after those of the past.

    Raises
    ------
    BadModel
        When their shapes do not fit.
    """
    q = _in_heads(node, expansion, node.operand(0), "q_num_heads")
    k = _in_heads(node, expansion, node.operand(1), "kv_num_heads")
    v = _in_heads(node, expansion, node.operand(2), "kv_num_heads")
    past_k, past_v = node.optional(4), node.optional(5)
    n_past = 0
    if past_k is not None and past_v is not None:
        n_past = past_k.shape[2]
        k, v = joined(expansion, [past_k, k], 2), joined(expansion, [past_v, v], 2)
    fits = q.shape[0] == k.shape[0] and q.shape[3] == k.shape[3] and k.shape[:3] == v.shape[:3]
    if not fits or q.shape[1] % k.shape[1]:
        raise BadModel(
            f"{node}: queries {q.shape}, keys {k.shape} and values {v.shape} do not fit: batch,"
            " head size and the sequences of keys and values agree, and the heads divide"
        )
    return _Operands(q, k, v, n_past)


def _allowed(node: Node, expansion: Expansion, operands: _Operands) -> list[Value]:
    """Return bools that broadcast to the scores: which keys a query may see."""
    n_queries, n_keys = operands.q.shape[2], operands.k.shape[2]
    ahead = np.arange(n_keys)[None, :] - np.arange(n_queries)[:, None]
    valid = node.optional(6)
    masks: list[Value] = []
    below, above = _bounds(node)
    if valid is None:
        distance = ahead - operands.n_past
        mask = np.ones(distance.shape, np.bool_)
        mask &= (distance <= above) if above is not None else mask
        mask &= (distance >= -below) if below is not None else mask
        if not mask.all():
            masks.append(expansion.constant(mask, "allowed"))
        return masks
    per_batch = reshape(expansion, valid, (valid.shape[0], 1, 1, 1))

    def numbers(array: NDArray[np.int64]) -> Value:
        return expansion.constant(array.astype(valid.dtype), "distance")

    masks.append(binary(expansion, "less", numbers(np.arange(n_keys)), per_batch))
    # The last query is the last valid key: distances count from it.
    offset = binary(expansion, "subtract", per_batch, scalar(expansion, n_queries, per_batch))
    if above is not None:
        masks.append(binary(expansion, "less_equal", numbers(ahead - above), offset))
    if below is not None:
        masks.append(binary(expansion, "greater_equal", numbers(ahead + below), offset))
    return masks


def _bounds(node: Node) -> tuple[int | None, int | None]:
    """Return how many keys before and after its own position a query sees; None for all."""
    below = node.attributes.get("left_window_size", -1)
    above = node.attributes.get("right_window_size", -1)
    if node.attributes.get("is_causal", 0):
        above = 0
    return (None if below < 0 else below), (None if above < 0 else above)


def _mask(node: Node, expansion: Expansion, n_keys: int) -> Value | None:
    """Return the mask, lengthened to all keys; what is added may not be seen."""
    mask = node.optional(3)
    if mask is None or mask.shape[-1] == n_keys:
        return mask
    shape = (*mask.shape[:-1], n_keys - mask.shape[-1])
    fill = np.full(shape, False if mask.dtype == "bool" else -np.inf, mask.dtype)
    return joined(expansion, [mask, expansion.constant(fill, "padding")], len(shape) - 1)


def _grouped(expansion: Expansion, x: Value, operands: _Operands) -> Value:
    """Emit heads that share keys as more rows of one head."""
    batch, heads, rows, size = x.shape
    if operands.n_repeats == 1:
        return x
    shape = (batch, heads // operands.n_repeats, operands.n_repeats * rows, size)
    return reshape(expansion, x, shape)


def _scores(node: Node, expansion: Expansion, operands: _Operands) -> Value:
    """Emit the scaled products of queries and keys: (batch, heads, queries, keys)."""
    q, k = operands.q, operands.k
    scale = node.attributes.get("scale") or 1 / sqrt(q.shape[3])
    root = scalar(expansion, sqrt(scale), q)
    left = _grouped(expansion, binary(expansion, "multiply", q, root), operands)
    right = expansion.emit(TRANSPOSE, binary(expansion, "multiply", k, root), order=(0, 1, 3, 2))
    product = expansion.emit(MATMUL, left, right, **node.hints.stated())
    return reshape(expansion, product, (*q.shape[:3], k.shape[2]))


def _capped(node: Node, expansion: Expansion, scores: Value) -> Value:
    cap = node.attributes.get("softcap", 0)
    if not cap:
        return scores
    bound = scalar(expansion, cap, scores)
    return binary(
        expansion,
        "multiply",
        unary(expansion, "tanh", binary(expansion, "divide", scores, bound)),
        bound,
    )


def _bias(node: Node, expansion: Expansion, operands: _Operands) -> Value | None:
    """Emit what is added to the scores: the mask, and −∞ for what may not be seen."""
    mask = _mask(node, expansion, operands.k.shape[2])
    conditions = _allowed(node, expansion, operands)
    if mask is not None and mask.dtype == "bool":
        conditions.append(mask)
        mask = None
    like = operands.q
    for condition in conditions:
        lowest = scalar(expansion, -np.inf, like)
        mask = chosen(
            expansion, condition, scalar(expansion, 0, like) if mask is None else mask, lowest
        )
    return mask


def _attention(node: Node, expansion: Expansion) -> tuple[Value, ...]:
    operands = _operands(node, expansion)
    scores = _scores(node, expansion, operands)
    capped = _capped(node, expansion, scores)
    bias = _bias(node, expansion, operands)
    share = _softmax(node, expansion, capped, bias)
    dtype = operands.v.dtype
    share = share if share.dtype == dtype else expansion.emit(CAST, share, dtype=dtype)
    product = expansion.emit(
        MATMUL, _grouped(expansion, share, operands), operands.v, **node.hints.stated()
    )
    out = reshape(expansion, product, (*operands.q.shape[:3], operands.v.shape[3]))
    if len(node.operand(0).shape) < _RANK:
        batch, heads, n, size = out.shape
        moved = expansion.emit(TRANSPOSE, out, order=(0, 2, 1, 3))
        out = reshape(expansion, moved, (batch, n, heads * size))
    mode = node.attributes.get("qk_matmul_output_mode", 0)
    results = {_AFTER_CAP: capped, _AFTER_SOFTMAX: share}.get(mode, scores)
    if mode == _AFTER_BIAS:
        results = _biased(expansion, capped, bias)
    return out, operands.k, operands.v, results


def _biased(expansion: Expansion, scores: Value, bias: Value | None) -> Value:
    return scores if bias is None else binary(expansion, "add", scores, bias)


def _softmax(node: Node, expansion: Expansion, scores: Value, bias: Value | None) -> Value:
    """Emit the softmax over the keys of scores and bias; zeros for a query that may see none.

    Its scores get no bias, so that its softmax, and the gradient of that, are numbers.
    """
    sees_none = None if bias is None else _sees_none(expansion, bias)
    if bias is not None and sees_none is not None:
        bias = chosen(expansion, sees_none, scalar(expansion, 0, bias), bias)
    scores = _biased(expansion, scores, bias)
    precision = node.attributes.get("softmax_precision")
    if precision is not None:
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(precision)).name
        dtype = "float32" if dtype == "float64" else dtype
        if dtype != scores.dtype:
            scores = expansion.emit(CAST, scores, dtype=dtype)
    share = expansion.emit(SOFTMAX, scores, axis=_RANK - 1)
    if sees_none is None:
        return share
    return chosen(expansion, sees_none, scalar(expansion, 0, share), share)


def _sees_none(expansion: Expansion, bias: Value) -> Value | None:
    """Emit which queries may see no key; None where all may see one."""
    if bias.known is not None and np.isfinite(bias.known.max(axis=-1)).all():
        return None
    largest = reduced(expansion, "maximum", bias, [len(bias.shape) - 1])
    return binary(expansion, "equal", largest, scalar(expansion, -np.inf, largest))


RECORDS = (Operator(name="Attention", decompose=_attention),)
