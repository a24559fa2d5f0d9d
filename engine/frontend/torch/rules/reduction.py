"""Reductions, running sums, sorting and largest entries."""

from __future__ import annotations

from math import inf, prod
from typing import Any

import numpy as np

from tilescope.engine.frontend.torch.emission import Emission, Rule, Rules
from tilescope.engine.ir import Value

__all__ = ["RULES"]


def _axes(x: Value, dim: Any) -> list[int]:
    """Return axes from the front; all of them where none, or an empty list, is given."""
    rank = len(x.shape)
    if dim is None or (isinstance(dim, list | tuple) and not dim):
        return list(range(rank))
    several = dim if isinstance(dim, list | tuple) else [dim]
    return [axis % rank for axis in several] if rank else []


def _fold(emit: Emission, key: str, x: Value, dim: Any) -> Value:
    """Return a reduction in the shape of the result."""
    return emit.reshape(emit.reduced(key, x, _axes(x, dim), keeps=False), emit.shape)


def _reduce(key: str) -> Rule:
    def rule(emit: Emission, x: Value, dim: Any = None, *_: Any, **__: Any) -> Value:
        return _fold(emit, key, emit.cast(x, emit.dtype), dim)

    return rule


def _extreme(key: str, index: str) -> Rule:
    """Return the rule of a largest or smallest entry: of all, along an axis with its place."""

    def rule(emit: Emission, x: Value, dim: int | None = None, *_: Any) -> Any:
        numbers = emit.cast(x, "int32") if x.dtype == "bool" else x
        if dim is None:
            return emit.cast(_fold(emit, key, numbers, None), x.dtype)
        if not x.shape:
            return x, emit.constant(0, "int64")
        best = emit.cast(_fold(emit, key, numbers, dim), x.dtype)
        return best, _place(emit, index, numbers, dim)

    return rule


def _pair_or_fold(key: str, fold: Rule) -> Rule:
    """Return the rule of `max`, which is elementwise where its second operand is a tensor."""

    def rule(emit: Emission, x: Value, other: Any = None, *rest: Any) -> Any:
        if isinstance(other, Value):
            return emit(key, emit.cast(x, emit.dtype), emit.cast(other, emit.dtype))
        return fold(emit, x, other, *rest)

    return rule


def _amax(key: str) -> Rule:
    def rule(emit: Emission, x: Value, dim: Any = (), *_: Any) -> Value:
        numbers = emit.cast(x, "int32") if x.dtype == "bool" else x
        return emit.cast(_fold(emit, key, numbers, dim), x.dtype)

    return rule


def _aminmax(emit: Emission, x: Value, *, dim: int | None = None, keepdim: bool = False) -> Any:
    return _fold(emit, "ReduceMin", x, dim), _fold(emit, "ReduceMax", x, dim)


def _place(emit: Emission, key: str, x: Value, dim: int) -> Value:
    found = emit(key, x, axis=dim % len(x.shape), keepdims=0)
    shape = emit.types[-1][0]
    return emit.reshape(found, shape)


def _arg(key: str) -> Rule:
    def rule(emit: Emission, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
        numbers = emit.cast(x, "int32") if x.dtype == "bool" else x
        if not x.shape:
            return emit.constant(np.zeros(emit.shape), "int64")
        if dim is None:
            numbers, dim = emit.reshape(numbers, (prod(x.shape),)), 0
        return _place(emit, key, numbers, dim)

    return rule


def _any(emit: Emission, x: Value, dim: Any = None, *_: Any) -> Value:
    flags = emit.cast(emit.cast(x, "bool"), "int32")
    return emit.cast(_fold(emit, "ReduceMax", flags, dim), "bool")


def _all(emit: Emission, x: Value, dim: Any = None, *_: Any) -> Value:
    flags = emit.cast(emit.cast(x, "bool"), "int32")
    return emit.cast(_fold(emit, "ReduceMin", flags, dim), "bool")


def _count_nonzero(emit: Emission, x: Value, dim: Any = None) -> Value:
    flags = emit.cast(emit.cast(x, "bool"), "int64")
    return _fold(emit, "ReduceSum", flags, dim)


def _nansum(emit: Emission, x: Value, dim: Any = None, *_: Any, **__: Any) -> Value:
    if x.dtype.startswith("float"):
        x = emit("Where", emit("IsNaN", x), emit.constant(0, x.dtype), x)
    return _fold(emit, "ReduceSum", emit.cast(x, emit.dtype), dim)


def _prod(emit: Emission, x: Value, dim: Any = None, *_: Any, **__: Any) -> Value:
    return _fold(emit, "ReduceProd", emit.cast(x, emit.dtype), dim)


def _moments(emit: Emission, x: Value, dim: Any, correction: Any) -> tuple[Value, Value]:
    """Return variance and mean over axes, which stay with one entry."""
    axes = _axes(x, dim)
    count = prod(x.shape[axis] for axis in axes)
    mean = emit.reduced("ReduceMean", x, axes, keeps=True)
    apart = emit("Sub", x, mean)
    total = emit.reduced("ReduceSum", emit("Mul", apart, apart), axes, keeps=True)
    divisor = max(0.0, count - (1 if correction is None else correction))
    factor = 1 / divisor if divisor else inf if count > 1 else np.nan
    return emit("Mul", total, emit.constant(factor, x.dtype)), mean


def _var(*, is_root: bool, has_mean: bool) -> Rule:
    def rule(emit: Emission, x: Value, dim: Any = None, *given: Any, **options: Any) -> Any:
        correction = options.get("correction", 1)
        if isinstance(dim, bool):  # the overload without dimensions: whether it is unbiased
            correction, dim = int(dim), None
        elif given and isinstance(given[0], bool) and "correction" not in options:
            correction = int(given[0])
        variance, mean = _moments(emit, x, dim, correction)
        spread = emit.reshape(emit("Sqrt", variance) if is_root else variance, emit.shape)
        return (spread, emit.reshape(mean, emit.shape)) if has_mean else spread

    return rule


def _logsumexp(emit: Emission, x: Value, dim: Any, *_: Any) -> Value:
    return _fold(emit, "ReduceLogSumExp", emit.cast(x, emit.dtype), dim)


def _logcumsumexp(emit: Emission, x: Value, dim: int) -> Value:
    axis = dim % len(x.shape)
    most = emit.reduced("ReduceMax", x, [axis], keeps=True)
    total = emit("CumSum", emit("Exp", emit("Sub", x, most)), emit.integers(axis))
    return emit("Add", emit("Log", total), most)


def _vector_norm(
    emit: Emission, x: Value, order: Any = 2, dim: Any = None, *_: Any, **__: Any
) -> Value:
    x = emit.cast(x, emit.dtype)
    order = 2 if order is None else float(order)
    if order == 1:
        return _fold(emit, "ReduceL1", x, dim)
    if order == 2:
        return _fold(emit, "ReduceL2", x, dim)
    size = emit("Abs", x)
    if order == inf:
        return _fold(emit, "ReduceMax", size, dim)
    if order == -inf:
        return _fold(emit, "ReduceMin", size, dim)
    if order == 0:
        return _fold(emit, "ReduceSum", emit.cast(emit.cast(x, "bool"), x.dtype), dim)
    powers = emit("Pow", size, emit.constant(order, x.dtype))
    return emit("Pow", _fold(emit, "ReduceSum", powers, dim), emit.constant(1 / order, x.dtype))


def _norm(emit: Emission, x: Value, order: Any = 2, dim: Any = None, *_: Any, **__: Any) -> Value:
    if order in ("fro", None):
        return _fold(emit, "ReduceL2", x, dim)
    if isinstance(order, str):
        return emit.refuse(f"of order {order!r} needs singular values, which are not supported")
    return _vector_norm(emit, x, order, dim)


def _frobenius(emit: Emission, x: Value, dim: Any = None, *_: Any) -> Value:
    return _fold(emit, "ReduceL2", x, dim)


def _cumulative(key: str) -> Rule:
    def rule(emit: Emission, x: Value, dim: int, *, dtype: Any = None) -> Value:
        x = emit.cast(x, emit.dtype)
        if not x.shape:
            return x
        return emit(key, x, emit.integers(dim % len(x.shape)))

    return rule


def _topk(
    emit: Emission, x: Value, k: int, dim: int = -1, largest: bool = True, is_sorted: bool = True
) -> tuple[Value, ...]:
    return _sorted(emit, x, k, dim, largest)


def _sorted(emit: Emission, x: Value, k: int, dim: int, largest: bool) -> tuple[Value, ...]:
    if not x.shape:
        return x, emit.constant(0, "int64")
    numbers = emit.cast(x, "int32") if x.dtype == "bool" else x
    axis = dim % len(x.shape)
    values, places = emit.results(
        2, "TopK", numbers, emit.integers([k]), axis=axis, largest=int(largest), sorted=1
    )
    return emit.cast(values, x.dtype), places


def _sort(emit: Emission, x: Value, dim: Any = -1, descending: Any = False, **options: Any) -> Any:
    if "dim" in options or "stable" in options:
        dim, descending = options.get("dim", -1), options.get("descending", False)
    n = x.shape[dim] if x.shape else 1
    return _sorted(emit, x, n, dim, bool(descending))


def _sort_stable(
    emit: Emission, x: Value, *, stable: Any = None, dim: int = -1, descending: bool = False
) -> Any:
    return _sorted(emit, x, x.shape[dim] if x.shape else 1, dim, descending)


def _argsort(
    emit: Emission, x: Value, dim: Any = -1, descending: Any = False, **given: Any
) -> Value:
    dim, descending = given.get("dim", dim), given.get("descending", descending)
    return _sorted(emit, x, x.shape[dim] if x.shape else 1, dim, bool(descending))[1]


def _kthvalue(emit: Emission, x: Value, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    values, places = _sorted(emit, x, x.shape[dim], dim, False)
    axis = dim % len(x.shape)
    parts = [emit.slice(part, axis, k - 1, k) for part in (values, places)]
    return tuple(emit.reshape(part, emit.shape) for part in parts)


def _median(emit: Emission, x: Value, dim: int | None = None, keepdim: bool = False) -> Any:
    if dim is None:
        flat = emit.reshape(x, (prod(x.shape),))
        values, _ = _sorted(emit, flat, flat.shape[0], 0, False)
        middle = (flat.shape[0] - 1) // 2
        return emit.reshape(emit.slice(values, 0, middle, middle + 1), ())
    return _kthvalue(emit, x, (x.shape[dim] - 1) // 2 + 1, dim, keepdim)


def _renorm(emit: Emission, x: Value, p: float, dim: int, maxnorm: float) -> Value:
    axes = [axis for axis in range(len(x.shape)) if axis != dim % len(x.shape)]
    powers = emit("Pow", emit("Abs", x), emit.constant(p, x.dtype))
    total = emit.reduced("ReduceSum", powers, axes, keeps=True)
    length = emit("Pow", total, emit.constant(1 / p, x.dtype))
    most = emit.constant(maxnorm, x.dtype)
    share = emit("Div", most, emit("Add", length, emit.constant(1e-7, x.dtype)))
    factor = emit("Where", emit("Greater", length, most), share, emit.constant(1, x.dtype))
    return emit("Mul", x, factor)


_MAX, _MIN = _extreme("ReduceMax", "ArgMax"), _extreme("ReduceMin", "ArgMin")

RULES: Rules = {
    "aten.all": _all,
    "aten.amax": _amax("ReduceMax"),
    "aten.amin": _amax("ReduceMin"),
    "aten.aminmax": _aminmax,
    "aten.any": _any,
    "aten.argmax": _arg("ArgMax"),
    "aten.argmin": _arg("ArgMin"),
    "aten.argsort": _argsort,
    "aten.count_nonzero": _count_nonzero,
    "aten.cumprod": _cumulative("CumProd"),
    "aten.cumsum": _cumulative("CumSum"),
    "aten.frobenius_norm": _frobenius,
    "aten.kthvalue": _kthvalue,
    "aten.linalg_vector_norm": _vector_norm,
    "aten.logcumsumexp": _logcumsumexp,
    "aten.logsumexp": _logsumexp,
    "aten.max": _pair_or_fold("Max", _MAX),
    "aten.mean": _reduce("ReduceMean"),
    "aten.median": _median,
    "aten.min": _pair_or_fold("Min", _MIN),
    "aten.nansum": _nansum,
    "aten.norm": _norm,
    "aten.prod": _prod,
    "aten.renorm": _renorm,
    "aten.sort": _sort,
    "aten.sort.stable": _sort_stable,
    "aten.std": _var(is_root=True, has_mean=False),
    "aten.std_mean": _var(is_root=True, has_mean=True),
    "aten.sum": _reduce("ReduceSum"),
    "aten.topk": _topk,
    "aten.var": _var(is_root=False, has_mean=False),
    "aten.var_mean": _var(is_root=False, has_mean=True),
}
