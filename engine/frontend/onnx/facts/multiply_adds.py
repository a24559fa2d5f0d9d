"""Multiply-adds of the operators that need most of them, by definition of the operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

__all__ = ["multiply_adds"]

Shape = tuple[int, ...]
#: From the shapes of the operands, None for one left out, the first result's, and the attributes.
Count = Callable[[Sequence[Shape | None], Shape, Mapping[str, Any]], int]


def multiply_adds(
    op_type: str, operands: Sequence[Shape | None], result: Shape, attributes: Mapping[str, Any]
) -> int:
    """Return the multiply-adds of a node: 0 for operators that are no sums of products.

    Parameters
    ----------
    op_type
        ONNX operator.
    operands
        Shapes of the operands; None for one that is left out.
    result
        Shape of the first result.
    attributes
        Of the node.
    """
    count = _COUNTS.get(op_type)
    return count(operands, result, attributes) if count else 0


def _shape(operands: Sequence[Shape | None], index: int) -> Shape:
    """Return the shape of an operand; that of a scalar where it is left out."""
    return (operands[index] if index < len(operands) else None) or ()


def _convolution(input_index: int) -> Count:
    """Every result is a sum over the kernel and the input channels of its group."""
    return lambda x, y, _: prod(y) * prod(_shape(x, input_index)[1:])


def _transposed(x: Sequence[Shape | None], _: Shape, __: Mapping[str, Any]) -> int:
    """Every input takes part in a kernel of results, for the output channels of its group."""
    return prod(_shape(x, 0)) * prod(_shape(x, 1)[1:])


def _product(x: Sequence[Shape | None], y: Shape, _: Mapping[str, Any]) -> int:
    """Every result is a sum over the last dimension of the left operand."""
    return prod(y) * (_shape(x, 0) or (1,))[-1]


def _gemm(x: Sequence[Shape | None], y: Shape, attributes: Mapping[str, Any]) -> int:
    """As a product, whose left operand may be transposed."""
    inner = _shape(x, 0)[0 if attributes.get("transA") else -1]
    return prod(y) * inner


def _recurrent(x: Sequence[Shape | None], _: Shape, __: Mapping[str, Any]) -> int:
    """Every step multiplies the input and the state with all weights."""
    first, second = _shape(x, 0)[:2]
    return first * second * (prod(_shape(x, 1)) + prod(_shape(x, 2)))


def _attention(x: Sequence[Shape | None], _: Shape, attributes: Mapping[str, Any]) -> int:
    """Scores of all queries with all keys, and as many sums of values."""
    q, k, v = _shape(x, 0), _shape(x, 1), _shape(x, 2)
    heads = q[1] if len(q) == 4 else attributes.get("q_num_heads", 1)
    kv_heads = k[1] if len(k) == 4 else attributes.get("kv_num_heads", heads)
    size = q[-1] if len(q) == 4 else q[-1] // max(1, heads)
    value_size = v[-1] if len(v) == 4 else v[-1] // max(1, kv_heads)
    return q[0] * heads * q[-2] * k[-2] * (size + value_size)


def _einsum(x: Sequence[Shape | None], y: Shape, attributes: Mapping[str, Any]) -> int:
    """One for every combination of all indices; those behind dots are the leading ones of y."""
    left, _, right = str(attributes["equation"]).replace(" ", "").partition("->")
    sizes: dict[str, int] = {}
    for term, shape in zip(left.split(","), x, strict=False):
        before, _, after = term.partition("...")
        sizes.update(zip(before, shape or (), strict=False))
        sizes.update(zip(reversed(after), reversed(shape or ()), strict=False))
    named = len(right.replace("...", "")) if right else 0
    behind = prod(y[: len(y) - named]) if "..." in left else 1
    return prod(sizes.values()) * behind


_COUNTS: dict[str, Count] = {
    "Conv": _convolution(1),
    "ConvInteger": _convolution(1),
    "QLinearConv": _convolution(3),
    "DeformConv": _convolution(1),
    "ConvTranspose": _transposed,
    "MatMul": _product,
    "MatMulInteger": _product,
    "QLinearMatMul": _product,
    "Gemm": _gemm,
    "LSTM": _recurrent,
    "GRU": _recurrent,
    "RNN": _recurrent,
    "Attention": _attention,
    "Einsum": _einsum,
}
