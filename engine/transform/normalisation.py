"""Finds normalisations that exporters took apart: layer, instance and root mean square."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isclose, prod

import numpy as np

from tilescope.engine.ir import Expansion, Model, Operation, Value
from tilescope.engine.operators.movement.layout import reshape
from tilescope.engine.operators.reduction import REDUCE
from tilescope.engine.operators.table import OPERATORS
from tilescope.engine.transform.polynomial import Algebra, Polynomial, Term, agrees, term
from tilescope.engine.transform.uses import Mapped, Match, Uses, function_of, rewritten

__all__ = ["find_layer_norm", "find_rms_norm"]

Emit = Callable[[Expansion, Mapped], Value]

_SQUARED_DIFFERENCE = {term(x=2): 1.0, term(x=1, m=1): -2.0, term(m=2): 1.0}
_WHITE = {term(x=1, d=-1): 1.0, term(m=1, d=-1): -1.0}
_SQUARE = {term(x=2): 1.0}
_ROOTED = {term(x=1, d=-1): 1.0}


def find_layer_norm(model: Model) -> Model:
    """Return the model with one operator for (x − mean) / √(variance + epsilon) · scale + bias.

    Over the last dimensions it is a layer normalisation; over all after the second one, with a
    scale and a bias per channel, an instance normalisation. Scale and bias may be missing.
    """
    uses = Uses(model)
    return rewritten(model, _matches(uses, has_mean=True))


def find_rms_norm(model: Model) -> Model:
    """Return the model with one operator for x / √(mean of the squares + epsilon) · scale."""
    uses = Uses(model)
    return rewritten(model, _matches(uses, has_mean=False))


@dataclass(frozen=True, eq=False)
class _Deviation:
    """The root of a mean square: √(mean + epsilon).

    Parameters
    ----------
    root, mean
        The operation of the root, and the one of the mean.
    epsilon
        What is added.
    inner
        Operations between them, both included.
    """

    root: Operation
    mean: Operation
    epsilon: float
    inner: frozenset[Operation]

    @property
    def axes(self) -> tuple[int, ...]:
        """The dimensions of the mean."""
        return tuple(sorted(self.mean.attributes["axes"]))


@dataclass(frozen=True, eq=False)
class _Norm:
    """A match: the operand, its deviation, and what multiplies and adds."""

    x: Value
    deviation: _Deviation
    scale: Value | None
    bias: Value | None


def _matches(uses: Uses, *, has_mean: bool) -> Iterator[Match]:
    for operation in uses.of_function("sqrt"):
        deviation = _deviation(uses, operation)
        if deviation is None:
            continue
        for x, symbols in _operands(uses, deviation, has_mean=has_mean):
            inner = _squares(uses, deviation, x, symbols, has_mean=has_mean)
            match = None if inner is None else _match(uses, deviation, x, symbols, inner)
            if match is not None:
                yield match
                break


def _deviation(uses: Uses, root: Operation) -> _Deviation | None:
    """Return what a root is the deviation of; None if it is not one."""
    inner = {root, *_casts(uses, root.operand(0))}
    added = uses.producer.get(uses.bare(root.operand(0)))
    if added is None or function_of(added) != "add":
        return None
    numbers = [v for v in added.operands if v.known is not None and np.size(v.known) == 1]
    values = [v for v in added.operands if v.known is None]
    if len(numbers) != 1 or len(values) != 1:
        return None
    epsilon = float(np.asarray(numbers[0].known).reshape(-1)[0])
    mean = uses.producer.get(uses.bare(values[0]))
    if mean is None or not _is_mean(mean, ("sum", "square_sum")) or not epsilon >= 0:
        return None
    if root.output.shape != mean.output.shape:
        return None
    inner |= {added, mean, *_casts(uses, values[0])}
    return _Deviation(root, mean, epsilon, frozenset(inner))


def _casts(uses: Uses, value: Value, until: Value | None = None) -> list[Operation]:
    """Return the casts between a value and its bare form, or another one in between."""
    casts, bare = [], uses.bare(value)
    while value is not bare and value is not until:
        operation = uses.producer[value]
        casts.append(operation)
        value = operation.operand(0)
    return casts


def _is_mean(operation: Operation, kinds: Sequence[str] = ("sum",)) -> bool:
    if operation.operator is not REDUCE or operation.attributes["operation"] not in kinds:
        return False
    shape = operation.operand(0).shape
    n = prod(shape[axis] for axis in operation.attributes["axes"])
    return isclose(operation.attributes["scale"] * n, 1)


def _operands(
    uses: Uses, deviation: _Deviation, *, has_mean: bool
) -> Iterator[tuple[Value, dict[Value, str]]]:
    """Return what may be normalised, each with the symbols of itself and of its means."""
    above = uses.above(deviation.mean.operand(0))
    if not has_mean:
        for value in above:
            yield value, {value: "x"}
        return
    means = [op for value in above if (op := uses.producer.get(value)) and _is_mean(op)]
    for mean in means:
        bare = uses.bare(mean.operand(0))
        symbols = {
            reader.output: "m"
            for reader in _readers(uses, bare)
            if _is_mean(reader) and tuple(sorted(reader.attributes["axes"])) == deviation.axes
        }
        for x in dict.fromkeys((mean.operand(0), bare)):
            yield x, {**symbols, x: "x"}


def _readers(uses: Uses, value: Value) -> Iterator[Operation]:
    """Return the operations that read a value, or a cast of it."""
    for operation in uses.readers[value]:
        yield operation
        if function_of(operation) == "cast":
            yield from _readers(uses, operation.output)


def _squares(
    uses: Uses,
    deviation: _Deviation,
    x: Value,
    symbols: Mapping[Value, str],
    *,
    has_mean: bool,
) -> set[Operation] | None:
    """Return the operations up to the mean square; None if it is of something else."""
    algebra = Algebra(uses, symbols)
    value = deviation.mean.operand(0)
    polynomial = algebra.polynomial(value)
    if polynomial is None or value.shape != x.shape:
        return None
    if deviation.mean.attributes["operation"] == "square_sum":
        terms = {term(x=1): 1.0, term(m=1): -1.0} if has_mean else {term(x=1): 1.0}
    else:
        terms = _SQUARED_DIFFERENCE if has_mean else _SQUARE
    if not agrees(polynomial, terms):
        return None
    return {*deviation.inner, *_expanded(algebra, x)}


def _expanded(algebra: Algebra, x: Value) -> set[Operation]:
    """Return the operations of an expansion: with the means, and their casts of the operand."""
    uses = algebra.uses
    means = {uses.producer[v] for v in algebra.reached if algebra.symbols[v] == "m"}
    casts = {cast for mean in means for cast in _casts(uses, mean.operand(0), x)}
    return {*algebra.inner, *means, *casts}


def _match(
    uses: Uses,
    deviation: _Deviation,
    x: Value,
    symbols: Mapping[Value, str],
    inner: set[Operation],
) -> Match | None:
    """Return the longest normalisation that a deviation is part of."""
    best: Match | None = None
    has_mean = "m" in symbols.values()
    for root in uses.below(deviation.root.output):
        if (root.output.shape, root.output.dtype) != (x.shape, x.dtype):
            continue
        algebra = Algebra(uses, {**symbols, deviation.root.output: "d"})
        polynomial = algebra.polynomial(root.output)
        factors = (
            None if polynomial is None else _factors(polynomial, _WHITE if has_mean else _ROOTED)
        )
        members = _expanded(algebra, x) | inner
        if factors is None or not uses.is_closed(root, members):
            continue
        replacement = _made(_Norm(x, deviation, *factors), has_mean=has_mean)
        if replacement is not None and (best is None or len(members) > len(best.inner)):
            best = Match(root, frozenset(members), replacement[0], replacement[1])
    return best


def _factors(
    polynomial: Polynomial, white: Mapping[Term, float]
) -> tuple[Value | None, Value | None] | None:
    """Return the scale and the bias of a polynomial; None if it is not a normalisation."""
    rest, bias = dict(polynomial), None
    if len(polynomial) == len(white) + 1:
        sums = [key for key in polynomial if _only(key) is not None]
        if len(sums) != 1 or not agrees({sums[0]: rest.pop(sums[0])}, {sums[0]: 1.0}):
            return None
        bias = _only(sums[0])
    if agrees(rest, white):
        return None, bias
    scales = {symbol for key in rest for symbol, _ in key if isinstance(symbol, Value)}
    if len(scales) != 1:
        return None
    (scale,) = scales
    scaled = {key | {(scale, 1)}: value for key, value in white.items()}
    return (scale, bias) if agrees(rest, scaled) else None


def _only(key: Term) -> Value | None:
    """Return the value that a term consists of; None for other terms."""
    if len(key) != 1:
        return None
    ((symbol, power),) = key
    return symbol if power == 1 and isinstance(symbol, Value) else None


def _made(norm: _Norm, *, has_mean: bool) -> tuple[str, Emit] | None:
    """Return the operator of a normalisation, and what emits it; None if there is none."""
    x, axes = norm.x, norm.deviation.axes
    rank, epsilon = len(x.shape), norm.deviation.epsilon
    factors = [value for value in (norm.scale, norm.bias) if value is not None]
    if axes != tuple(range(axes[0], rank)) or any(v.dtype != x.dtype for v in factors):
        return None
    target = x.shape[axes[0] :]
    if all(_fits(value.shape, target) for value in factors):
        name = "LayerNormalization" if has_mean else "RMSNormalization"
        if not has_mean and norm.bias is not None:
            return None
    elif has_mean and axes[0] == 2 and [_is_by_channel(v, x) for v in factors] == [True, True]:
        name, target = "InstanceNormalization", (x.shape[1],)
    else:
        return None
    known = {} if name == "InstanceNormalization" else {"axis": axes[0]}

    def emit(expansion: Expansion, mapped: Mapped) -> Value:
        scale = (
            expansion.constant(np.ones(1, x.dtype), "scale") if norm.scale is None else norm.scale
        )
        values = [scale] if norm.bias is None else [scale, norm.bias]
        shaped = [_last_dims(expansion, mapped(value), len(target)) for value in values]
        return expansion.emit(OPERATORS[name], mapped(x), *shaped, epsilon=epsilon, **known)

    return name, emit


def _fits(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Return whether a shape broadcasts to the last dimensions of another."""
    kept_shape = _shortened(shape, len(target))
    if len(kept_shape) > len(target):
        return False
    last = target[len(target) - len(kept_shape) :]
    return all(size in (1, wide) for size, wide in zip(kept_shape, last, strict=True))


def _is_by_channel(value: Value, x: Value) -> bool:
    """Return whether a value has one number per channel, in its place."""
    rank = len(x.shape)
    shape = (1,) * (rank - len(value.shape)) + value.shape
    return shape == (1, x.shape[1], *(1,) * (rank - 2))


def _shortened(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Return a shape without leading dimensions of size 1 beyond a rank."""
    while len(shape) > rank and shape[0] == 1:
        shape = shape[1:]
    return shape


def _last_dims(expansion: Expansion, value: Value, rank: int) -> Value:
    shape = _shortened(value.shape, rank)
    if len(shape) > rank:  # one number per channel, then dimensions of size 1
        shape = shape[:rank]
    return reshape(expansion, value, shape)
