"""Activations."""

from __future__ import annotations

from typing import Any

from tilescope.engine.frontend.torch.emission import Emission, Rule, Rules
from tilescope.engine.ir import Value

__all__ = ["RULES"]


def _whole(key: str, **attributes: Any) -> Rule:
    def rule(emit: Emission, x: Value, *_: Any, **__: Any) -> Value:
        return emit(key, x, **attributes)

    return rule


def _gelu(emit: Emission, x: Value, *, approximate: str) -> Value:
    return emit("Gelu", x, approximate=approximate)


def _leaky_relu(emit: Emission, x: Value, slope: float) -> Value:
    return emit("LeakyRelu", x, alpha=float(slope))


def _elu(emit: Emission, x: Value, alpha: float, scale: float, input_scale: float) -> Value:
    if scale == 1 and input_scale == 1:
        return emit("Elu", x, alpha=float(alpha))
    zero = emit.constant(0, x.dtype)
    positive = emit.scaled(emit("Relu", x), scale)
    below = emit("ai.graphcore.Expm1", emit.scaled(emit("Min", x, zero), input_scale))
    return emit("Add", positive, emit.scaled(below, alpha * scale))


def _celu(emit: Emission, x: Value, alpha: float) -> Value:
    return emit("Celu", x, alpha=float(alpha))


def _hardtanh(emit: Emission, x: Value, low: float, high: float) -> Value:
    return emit("Clip", x, emit.constant(low, x.dtype), emit.constant(high, x.dtype))


def _relu6(emit: Emission, x: Value) -> Value:
    return _hardtanh(emit, x, 0, 6)


def _softplus(emit: Emission, x: Value, beta: float, threshold: float) -> Value:
    scaled = emit.scaled(x, beta)
    smooth = emit.scaled(emit("Softplus", scaled), 1 / beta)
    if threshold >= 20 and x.dtype == "float32":
        return smooth  # the same in single precision
    return emit("Where", emit("Greater", scaled, emit.constant(threshold, x.dtype)), x, smooth)


def _softshrink(emit: Emission, x: Value, lambd: float) -> Value:
    return emit("Shrink", x, lambd=float(lambd), bias=float(lambd))


def _hardshrink(emit: Emission, x: Value, lambd: float) -> Value:
    return emit("Shrink", x, lambd=float(lambd), bias=0.0)


def _hardsigmoid(emit: Emission, x: Value) -> Value:
    return emit("HardSigmoid", x, alpha=1 / 6, beta=0.5)


def _threshold(emit: Emission, x: Value, threshold: float, value: float) -> Value:
    above = emit("Greater", x, emit.constant(threshold, x.dtype))
    return emit("Where", above, x, emit.constant(value, x.dtype))


def _glu(emit: Emission, x: Value, dim: int) -> Value:
    axis = dim % len(x.shape)
    half = x.shape[axis] // 2
    left, right = emit.slice(x, axis, 0, half), emit.slice(x, axis, half, 2 * half)
    return emit("Mul", left, emit("Sigmoid", right))


def _prelu(emit: Emission, x: Value, weight: Value) -> Value:
    if len(weight.shape) == 1 and weight.shape[0] > 1:
        weight = emit.reshape(weight, (weight.shape[0], *(1,) * max(0, len(x.shape) - 2)))
    elif len(x.shape) == 0:
        weight = emit.reshape(weight, ())
    return emit("PRelu", x, weight)


def _rrelu(emit: Emission, x: Value, low: float, high: float, training: bool, *_: Any) -> Value:
    if training:
        emit.refuse("draws its slopes in training, which is not supported: call .eval() on it")
    return emit("LeakyRelu", x, alpha=(low + high) / 2)


def _log_sigmoid(emit: Emission, x: Value) -> Value:
    return emit("Neg", emit("Softplus", emit("Neg", x)))


def _log_sigmoid_forward(emit: Emission, x: Value) -> tuple[Value, Any]:
    return _log_sigmoid(emit, x), None


def _softmax(key: str) -> Rule:
    def rule(emit: Emission, x: Value, dim: int, dtype: Any = None, **_: Any) -> Value:
        x = emit.cast(x, emit.dtype)
        if not x.shape:
            return emit.reshape(emit(key, emit.reshape(x, (1,)), axis=0), ())
        return emit(key, x, axis=dim % len(x.shape))

    return rule


RULES: Rules = {
    "aten._log_softmax": _softmax("LogSoftmax"),
    "aten._prelu_kernel": _prelu,
    "aten._softmax": _softmax("Softmax"),
    "aten.celu": _celu,
    "aten.elu": _elu,
    "aten.gelu": _gelu,
    "aten.glu": _glu,
    "aten.hardshrink": _hardshrink,
    "aten.hardsigmoid": _hardsigmoid,
    "aten.hardswish": _whole("HardSwish"),
    "aten.hardtanh": _hardtanh,
    "aten.leaky_relu": _leaky_relu,
    "aten.log_sigmoid": _log_sigmoid,
    "aten.log_sigmoid_forward": _log_sigmoid_forward,
    "aten.log_softmax": _softmax("LogSoftmax"),
    "aten.mish": _whole("Mish"),
    "aten.prelu": _prelu,
    "aten.relu": _whole("Relu"),
    "aten.relu6": _relu6,
    "aten.rrelu": _rrelu,
    "aten.selu": _whole("Selu"),
    "aten.silu": _whole("Swish"),
    "aten.softmax": _softmax("Softmax"),
    "aten.softplus": _softplus,
    "aten.softshrink": _softshrink,
    "aten.threshold": _threshold,
}
