"""Random numbers, drawn by the device: other numbers than PyTorch's, of the same distribution."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from tilescope.engine.frontend.torch.emission import Emission, Rules
from tilescope.engine.ir import Value

__all__ = ["RULES"]

#: float32 by ONNX's number.
_FLOAT = 1


def _uniform_numbers(emit: Emission, shape: Any, low: float = 0.0, high: float = 1.0) -> Value:
    sizes = list(shape) or [1]
    out = emit("RandomUniform", shape=sizes, low=float(low), high=float(high), dtype=_FLOAT)
    return emit.reshape(out, shape)


def _normal_numbers(emit: Emission, mean: float = 0.0, deviation: float = 1.0) -> Value:
    sizes = list(emit.shape) or [1]
    out = emit("RandomNormal", shape=sizes, mean=float(mean), scale=float(deviation), dtype=_FLOAT)
    return emit.cast(emit.reshape(out, emit.shape), emit.dtype)


def _rand(emit: Emission, *_: Any, **__: Any) -> Value:
    return emit.cast(_uniform_numbers(emit, emit.shape), emit.dtype)


def _randn(emit: Emission, *_: Any, **__: Any) -> Value:
    return _normal_numbers(emit)


def _uniform(emit: Emission, x: Any, low: float = 0.0, high: float = 1.0, **_: Any) -> Value:
    return emit.cast(_uniform_numbers(emit, emit.shape, low, high), emit.dtype)


def _between(emit: Emission, low: int, high: int) -> Value:
    numbers = emit("Floor", _uniform_numbers(emit, emit.shape, low, high))
    # The largest float below the end may round to it.
    last = emit.constant(high - 1, "float32")
    return emit.cast(emit("Min", numbers, last), emit.dtype)


def _randint(emit: Emission, high: int, *_: Any, **__: Any) -> Value:
    return _between(emit, 0, high)


def _randint_low(emit: Emission, low: int, high: int, *_: Any, **__: Any) -> Value:
    return _between(emit, low, high)


def _randint_like(emit: Emission, x: Value, high: int, **_: Any) -> Value:
    return _between(emit, 0, high)


def _randint_like_low(emit: Emission, x: Value, low: int, high: int, **_: Any) -> Value:
    return _between(emit, low, high)


def _randperm(emit: Emission, n: int, **_: Any) -> Value:
    keys = _uniform_numbers(emit, (n,))
    ranked = emit.results(2, "TopK", keys, emit.integers([n]), axis=0, largest=1, sorted=1)
    return emit.cast(ranked[1], emit.dtype)


def _chance(emit: Emission, probability: Value) -> Value:
    drawn = _uniform_numbers(emit, emit.shape)
    return emit.cast(emit("Less", drawn, emit.cast(probability, "float32")), emit.dtype)


def _bernoulli(emit: Emission, x: Value, p: Any = None, **_: Any) -> Value:
    if p is None:
        return _chance(emit, x)
    return _chance(emit, emit.value(p, "float32"))


def _normal(emit: Emission, mean: Any, deviation: Any = 1.0, *_: Any, **__: Any) -> Value:
    if not isinstance(mean, Value) and not isinstance(deviation, Value):
        return _normal_numbers(emit, mean, deviation)
    numbers = emit("Mul", _normal_numbers(emit), emit.value(deviation, emit.dtype))
    return emit("Add", numbers, emit.value(mean, emit.dtype))


def _normal_of_shape(
    emit: Emission, x: Value, mean: float = 0.0, deviation: float = 1.0, **_: Any
) -> Value:
    return _normal_numbers(emit, mean, deviation)


def _exponential(emit: Emission, x: Value, lambd: float = 1.0, **_: Any) -> Value:
    drawn = _uniform_numbers(emit, emit.shape, float(np.finfo(np.float32).tiny), 1.0)
    return emit.cast(emit.scaled(emit("Log", drawn), -1 / lambd), emit.dtype)


def _rrelu_with_noise(
    emit: Emission, x: Value, noise: Value, low: float, high: float, training: bool, *_: Any
) -> Any:
    if training:
        emit.refuse("draws its slopes in training, which is not supported: call .eval() on it")
    return emit("LeakyRelu", x, alpha=(low + high) / 2)


def _random(emit: Emission, x: Value, *bounds: Any, **options: Any) -> Value:
    numbers = [bound for bound in bounds if bound is not None]
    if len(numbers) == 2:
        return _between(emit, numbers[0], numbers[1])
    most = 1 << (24 if emit.dtype.startswith("float") else 31)
    return _between(emit, 0, numbers[0] if numbers else most)


def _multinomial(
    emit: Emission, x: Value, n_samples: int, replacement: bool = False, **_: Any
) -> Value:
    if replacement or prod(x.shape) == 0:
        emit.refuse("with replacement is not supported")
    # The largest of log(p) + Gumbel noise are a sample without replacement.
    drawn = _uniform_numbers(emit, x.shape, float(np.finfo(np.float32).tiny), 1.0)
    noise = emit("Neg", emit("Log", emit("Neg", emit("Log", drawn))))
    keys = emit("Add", emit("Log", emit.cast(x, "float32")), noise)
    axis = len(x.shape) - 1
    number = emit.integers([n_samples])
    return emit.results(2, "TopK", keys, number, axis=axis, largest=1, sorted=1)[1]


RULES: Rules = {
    "aten.bernoulli": _bernoulli,
    "aten.bernoulli.p": _bernoulli,
    "aten.exponential": _exponential,
    "aten.multinomial": _multinomial,
    "aten.normal": _normal,
    "aten.normal_functional": _normal_of_shape,
    "aten.rand": _rand,
    "aten.rand_like": _rand,
    "aten.randint": _randint,
    "aten.randint.low": _randint_low,
    "aten.randint_like": _randint_like,
    "aten.randint_like.low_dtype": _randint_like_low,
    "aten.randn": _randn,
    "aten.randn_like": _randn,
    "aten.random": _random,
    "aten.randperm": _randperm,
    "aten.rrelu_with_noise": _rrelu_with_noise,
    "aten.uniform": _uniform,
}
