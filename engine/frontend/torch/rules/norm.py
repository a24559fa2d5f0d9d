"""Normalisations and dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilescope.engine.frontend.torch.emission import Emission, Rules
from tilescope.engine.ir import Value

__all__ = ["RULES"]


def _scale(emit: Emission, x: Value, weight: Value | None, shape: int | Sequence[int]) -> Value:
    """Return what a normalised tensor is multiplied by, in the type of the tensor; ones if None."""
    if weight is None:
        return emit.constant(np.ones(shape), x.dtype)
    return emit.cast(weight, x.dtype)


def _shift(emit: Emission, x: Value, bias: Value | None, n: int) -> Value:
    """Return what a normalised tensor is added to, in the type of the tensor; zeros if None."""
    return emit.constant(np.zeros(n), x.dtype) if bias is None else emit.cast(bias, x.dtype)


def _batch_norm(
    emit: Emission,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value | None,
    variance: Value | None,
    is_training: bool,
    momentum: float,
    eps: float,
    *_: Any,
) -> Value:
    return _normalised(emit, x, weight, bias, mean, variance, is_training, momentum, eps)[0]


def _normalised(
    emit: Emission,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value | None,
    variance: Value | None,
    is_training: bool,
    momentum: float,
    eps: float,
) -> tuple[Value, Value | None, Value | None]:
    """Return a batch normalisation, and its running statistics if it has them."""
    n = x.shape[1]
    weight, bias = _scale(emit, x, weight, n), _shift(emit, x, bias, n)
    if not is_training:
        assert mean is not None
        assert variance is not None
        out = emit("BatchNormalization", x, weight, bias, mean, variance, epsilon=eps)
        return out, mean, variance
    if mean is None or variance is None:
        return _by_own_statistics(emit, x, weight, bias, eps), None, None
    return emit.results(  # type: ignore[return-value]  # three of them
        3,
        "ai.graphcore.BatchNormalization",  # whose variance is that of a sample, as PyTorch's
        *(x, weight, bias, mean, variance),
        epsilon=eps,
        momentum=1 - momentum,
        training_mode=1,
    )


def _by_own_statistics(emit: Emission, x: Value, weight: Value, bias: Value, eps: float) -> Value:
    """Return a batch normalisation without running statistics: one group per channel."""
    order = (1, 0, *range(2, len(x.shape)))
    n = x.shape[1]
    rows = emit.reshape(emit.permute(x, order), (1, n, _count(x) // n))
    out = emit("InstanceNormalization", rows, weight, bias, epsilon=eps)
    swapped = emit.reshape(out, tuple(x.shape[axis] for axis in order))
    return emit.permute(swapped, order)


def _count(x: Value) -> int:
    return int(np.prod(x.shape))


def _native_batch_norm_functional(emit: Emission, *given: Any) -> tuple[Any, ...]:
    """Return results, saved statistics that nobody reads, and running statistics."""
    out, mean, variance = _normalised(emit, *given)
    return out, None, None, mean, variance


def _native_batch_norm_no_stats(
    emit: Emission, x: Value, weight: Any, bias: Any, is_training: bool, momentum: float, eps: float
) -> tuple[Any, ...]:
    out = _normalised(emit, x, weight, bias, None, None, is_training, momentum, eps)[0]
    return out, None, None


def _native_batch_norm(emit: Emission, *given: Any) -> tuple[Any, ...]:
    x, weight, bias, mean, variance, *rest = given
    is_training, momentum, eps = rest if len(rest) == 3 else (False, *rest)
    out = _normalised(emit, x, weight, bias, mean, variance, is_training, momentum, eps)[0]
    return out, None, None


def _layer_norm(
    emit: Emission,
    x: Value,
    shape: Sequence[int],
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    *_: Any,
) -> Value:
    rank = len(shape)
    scale = _scale(emit, x, weight, shape)
    operands = [x, scale] if bias is None else [x, scale, emit.cast(bias, x.dtype)]
    return emit("LayerNormalization", *operands, axis=len(x.shape) - rank, epsilon=eps)


def _native_layer_norm(emit: Emission, *given: Any) -> tuple[Any, ...]:
    return _layer_norm(emit, *given), None, None


def _rms_norm(
    emit: Emission,
    x: Value,
    shape: Sequence[int],
    weight: Value | None = None,
    eps: float | None = None,
) -> Value:
    scale = _scale(emit, x, weight, shape)
    epsilon = float(np.finfo(x.dtype).eps) if eps is None else eps
    return emit("RMSNormalization", x, scale, axis=len(x.shape) - len(shape), epsilon=epsilon)


def _group_norm(
    emit: Emission,
    x: Value,
    n_groups: int,
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    *_: Any,
) -> Value:
    n = x.shape[1]
    weight, bias = _scale(emit, x, weight, n), _shift(emit, x, bias, n)
    if len(x.shape) == 2:
        image = emit.reshape(x, (*x.shape, 1))
        out = emit("GroupNormalization", image, weight, bias, num_groups=n_groups, epsilon=eps)
        return emit.reshape(out, x.shape)
    return emit("GroupNormalization", x, weight, bias, num_groups=n_groups, epsilon=eps)


def _native_group_norm(
    emit: Emission,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    n: int,
    n_channels: int,
    size: int,
    n_groups: int,
    eps: float,
) -> tuple[Any, ...]:
    return _group_norm(emit, x, n_groups, weight, bias, eps), None, None


def _instance_norm(
    emit: Emission,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value | None,
    variance: Value | None,
    uses_input_stats: bool,
    momentum: float,
    eps: float,
    *_: Any,
) -> Value:
    n = x.shape[1]
    if not uses_input_stats:
        return _normalised(emit, x, weight, bias, mean, variance, False, momentum, eps)[0]
    weight, bias = _scale(emit, x, weight, n), _shift(emit, x, bias, n)
    return emit("InstanceNormalization", x, weight, bias, epsilon=eps)


def _dropout(emit: Emission, x: Value, p: float, train: bool | None = True) -> Value:
    if not train or p == 0:
        return x
    if p == 1:
        return emit("Mul", x, emit.constant(0, x.dtype))
    ratio = emit.constant(p, "float32")
    return emit("Dropout", x, ratio, emit.constant(True))


def _native_dropout(emit: Emission, x: Value, p: float, train: bool | None) -> tuple[Value, Value]:
    if not train or p in (0, 1):
        whole = emit.constant(np.full(x.shape, not (train and p == 1)))
        return _dropout(emit, x, p, train), whole
    ratio = emit.constant(p, "float32")
    out, mask = emit.results(2, "Dropout", x, ratio, emit.constant(True))
    return out, mask


def _feature_dropout(emit: Emission, x: Value, p: float, train: bool) -> Value:
    if not train or p == 0:
        return x
    shape = (*x.shape[:2], *(1,) * (len(x.shape) - 2))
    return emit("ai.graphcore.ShapedDropout", x, shape=list(shape), ratio=float(p))


RULES: Rules = {
    "aten._native_batch_norm_legit": _native_batch_norm,
    "aten._native_batch_norm_legit.no_stats": _native_batch_norm_no_stats,
    "aten._native_batch_norm_legit_functional": _native_batch_norm_functional,
    "aten._native_batch_norm_legit_no_training": _native_batch_norm,
    "aten.batch_norm": _batch_norm,
    "aten.cudnn_batch_norm": _native_batch_norm,
    "aten.dropout": _dropout,
    "aten.feature_dropout": _feature_dropout,
    "aten.group_norm": _group_norm,
    "aten.instance_norm": _instance_norm,
    "aten.layer_norm": _layer_norm,
    "aten.native_batch_norm": _native_batch_norm,
    "aten.native_dropout": _native_dropout,
    "aten.native_group_norm": _native_group_norm,
    "aten.native_layer_norm": _native_layer_norm,
    "aten.rms_norm": _rms_norm,
}
