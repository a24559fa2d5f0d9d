"""Products of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tilescope.engine.frontend.torch.emission import Emission, Rules
from tilescope.engine.ir import Value

__all__ = ["RULES"]


def _in_one_type(emit: Emission, *operands: Value) -> list[Value]:
    """Return operands in half where some are: PopTorch's programs mix them, PyTorch refuses it."""
    if "float16" not in {value.dtype for value in operands}:
        return [*operands]
    return [emit.cast(value, "float16") for value in operands]


def _matmul(emit: Emission, a: Value, b: Value, *_: Any, **__: Any) -> Value:
    return emit("MatMul", *_in_one_type(emit, a, b))


def _linear(emit: Emission, x: Value, weight: Value, bias: Value | None = None) -> Value:
    if "float16" in (x.dtype, weight.dtype):  # of a layer, what it is applied to decides
        weight = emit.cast(weight, x.dtype)
        bias = None if bias is None else emit.cast(bias, x.dtype)
    if len(weight.shape) == 1:
        out = emit("MatMul", x, weight)
    elif len(x.shape) == 2 and bias is not None:
        return emit("Gemm", x, weight, bias, transB=1)
    else:
        out = emit("MatMul", x, emit.permute(weight, (1, 0)))
    return out if bias is None else emit("Add", out, bias)


def _weighted(
    emit: Emission, product: Value, bias: Value, alpha: float, beta: float, *, keeps: bool = False
) -> Value:
    """Return alpha times a product, plus beta times a bias.

    Where a number is 0, the term does not count, even if it is not finite, as in BLAS; ``keeps``
    says that the product counts all the same.
    """
    if alpha == 0 and not keeps:
        if beta == 0:
            return emit.constant(np.zeros(emit.shape), product.dtype)
        return emit.expand(emit.scaled(bias, beta), emit.shape)
    product = emit.scaled(product, alpha)
    return product if beta == 0 else emit("Add", product, emit.scaled(bias, beta))


def _addmm(
    emit: Emission, bias: Value, a: Value, b: Value, *, beta: Any = 1, alpha: Any = 1, **_: Any
) -> Value:
    a, b, bias = _in_one_type(emit, a, b, bias)
    keeps = emit.source.startswith("aten.baddbmm")
    return _weighted(emit, emit("MatMul", a, b), bias, alpha, beta, keeps=keeps)


def _addbmm(
    emit: Emission, bias: Value, a: Value, b: Value, *, beta: Any = 1, alpha: Any = 1
) -> Value:
    a, b, bias = _in_one_type(emit, a, b, bias)
    product = emit.reduced("ReduceSum", emit("MatMul", a, b), [0], keeps=False)
    return _weighted(emit, product, bias, alpha, beta)


def _addr(
    emit: Emission, bias: Value, a: Value, b: Value, *, beta: Any = 1, alpha: Any = 1
) -> Value:
    return _weighted(emit, _outer(emit, a, b), bias, alpha, beta, keeps=True)


def _outer(emit: Emission, a: Value, b: Value) -> Value:
    return emit("Mul", emit.reshape(a, (a.shape[0], 1)), emit.reshape(b, (1, b.shape[0])))


def _einsum(emit: Emission, equation: str, operands: Sequence[Value], **_: Any) -> Value:
    return emit("Einsum", *operands, equation=equation.replace(" ", ""))


def _bilinear(
    emit: Emission, a: Value, b: Value, weight: Value, bias: Value | None = None
) -> Value:
    outer, n_a, n_b = a.shape[:-1], a.shape[-1], b.shape[-1]
    n_rows = prod(outer)
    flat = emit.reshape(emit.permute(weight, (1, 0, 2)), (n_a, weight.shape[0] * n_b))
    left = emit("MatMul", emit.reshape(a, (n_rows, n_a)), flat)
    left = emit.reshape(left, (n_rows, weight.shape[0], n_b))
    out = emit("MatMul", left, emit.reshape(b, (n_rows, n_b, 1)))
    out = emit.reshape(out, (*outer, weight.shape[0]))
    return out if bias is None else emit("Add", out, bias)


def _weight_norm(emit: Emission, v: Value, g: Value, dim: int = 0) -> Value:
    axes = [axis for axis in range(len(v.shape)) if dim in (-1,) or axis != dim % len(v.shape)]
    length = emit.reduced("ReduceL2", v, axes, keeps=True)
    return emit("Mul", v, emit("Div", g, length))


def _weight_norm_interface(emit: Emission, v: Value, g: Value, dim: int = 0) -> tuple[Value, Value]:
    axes = [axis for axis in range(len(v.shape)) if axis != dim % len(v.shape)]
    length = emit.reduced("ReduceL2", v, axes, keeps=True)
    return emit("Mul", v, emit("Div", g, length)), length


def _cross(emit: Emission, a: Value, b: Value, dim: int | None = None, **options: Any) -> Value:
    dim = options.get("dim", dim)
    rank = len(emit.shape)
    a, b = emit.expand(a, emit.shape), emit.expand(b, emit.shape)
    axis = emit.shape.index(3) if dim is None else dim % rank

    def turned(x: Value, *order: int) -> Value:
        return emit("Gather", x, emit.integers(list(order)), axis=axis)

    forward = emit("Mul", turned(a, 1, 2, 0), turned(b, 2, 0, 1))
    return emit("Sub", forward, emit("Mul", turned(a, 2, 0, 1), turned(b, 1, 2, 0)))


def _cdist(emit: Emission, a: Value, b: Value, p: float, *_: Any) -> Value:
    axis = len(a.shape) - 1
    left = emit.reshape(a, (*a.shape[:-1], 1, a.shape[-1]))
    right = emit.reshape(b, (*b.shape[:-2], 1, *b.shape[-2:]))
    apart = emit("Sub", left, right)
    if p == 1:
        return emit.reduced("ReduceL1", apart, [axis + 1], keeps=False)
    if p == 2:
        return emit.reduced("ReduceL2", apart, [axis + 1], keeps=False)
    size = emit("Abs", apart)
    if p == float("inf"):
        return emit.reduced("ReduceMax", size, [axis + 1], keeps=False)
    total = emit.reduced(
        "ReduceSum", emit("Pow", size, emit.constant(p, a.dtype)), [axis + 1], keeps=False
    )
    return emit("Pow", total, emit.constant(1 / p, a.dtype))


def _tril(upper: int) -> Any:
    def rule(emit: Emission, x: Value, diagonal: int = 0) -> Value:
        if x.dtype == "bool":
            keep = np.triu if upper else np.tril
            return emit("And", x, emit.constant(keep(np.ones(x.shape[-2:], bool), diagonal)))
        return emit("Trilu", x, emit.integers(diagonal), upper=upper)

    return rule


RULES: Rules = {
    "aten._cdist_forward": _cdist,
    "aten._weight_norm": _weight_norm,
    "aten._weight_norm_interface": _weight_norm_interface,
    "aten.addbmm": _addbmm,
    "aten.addmm": _addmm,
    "aten.addmv": _addmm,
    "aten.addr": _addr,
    "aten.baddbmm": _addmm,
    "aten.bilinear": _bilinear,
    "aten.bmm": _matmul,
    "aten.cdist": _cdist,
    "aten.cross": _cross,
    "aten.dot": _matmul,
    "aten.einsum": _einsum,
    "aten.linalg_cross": _cross,
    "aten.linear": _linear,
    "aten.matmul": _matmul,
    "aten.mm": _matmul,
    "aten.mv": _matmul,
    "aten.outer": _outer,
    "aten.tril": _tril(0),
    "aten.triu": _tril(1),
    "aten.vdot": _matmul,
}
