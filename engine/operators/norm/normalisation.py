"""Normalisations over batches, layers, groups and instances."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadModel
from tilescope.engine.graph import FLOAT32, Tensor
from tilescope.engine.ir import Expansion, Node, Operation, Operator, Value
from tilescope.engine.library.popnn.norm.group_norm import group_standardise
from tilescope.engine.library.popnn.norm.rms_norm import root_mean_square_normalise
from tilescope.engine.library.popops.elementwise.in_place import binary_in_place
from tilescope.engine.library.popops.elementwise.operations import binary as apply_binary
from tilescope.engine.library.popops.elementwise.operations import cast, rearranged
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.elementwise.cast import CAST
from tilescope.engine.operators.elementwise.elementwise import binary, scalar, unary
from tilescope.engine.operators.elementwise.gradients import SLOPE_AT_KINK
from tilescope.engine.operators.elementwise.mapped import mapped, operand
from tilescope.engine.operators.movement.layout import full, reshape
from tilescope.engine.operators.norm.trained import normalised, rows_normalised
from tilescope.engine.operators.parts import along_others, images
from tilescope.engine.operators.reduction import reduced

__all__ = [
    "GROUP_NORMALIZATION",
    "LAYER_NORMALIZATION",
    "RECORDS",
    "RMS_NORMALIZATION",
    "batch_normalised",
    "trains_batch",
]

#: The opset from which an attribute says whether a batch normalisation trains.
_TRAINING_MODE = 14

Array = NDArray[Any]
Type = tuple[tuple[int, ...], str]


def _batch_normalization(node: Node, expansion: Expansion) -> Value | tuple[Value, ...]:
    return batch_normalised(node, expansion)


def batch_normalised(
    node: Node, expansion: Expansion, *, is_of_sample: bool = False
) -> Value | tuple[Value, ...]:
    """Emit a batch normalisation.

    With `is_of_sample`, variances of a batch are divided by its size less one, and the saved one is
    a variance.
    """
    x = node.operand(0)
    if trains_batch(node):
        return _trained_batch(node, expansion, is_of_sample=is_of_sample)
    shape = (*node.operand(1).shape, *(1,) * (len(x.shape) - 1 - len(node.operand(1).shape)))
    if node.version < 9 and not node.attributes.get("spatial", 1):
        shape = x.shape[1:]  # statistics of every element, not of channels
    values = [node.operand(i) for i in range(1, 5)]
    if any(value.known is None for value in values):
        return _normalised(node, expansion, [reshape(expansion, value, shape) for value in values])
    scale, bias, mean, variance = (np.asarray(v.known, np.float64) for v in values)
    factor = scale / np.sqrt(variance + node.attributes["epsilon"])
    offset = bias - mean * factor
    largest = np.finfo(x.dtype).max
    if np.abs(factor).max(initial=0) > largest or np.abs(offset).max(initial=0) > largest:
        # Too large for a half: computed in single precision.
        wide = expansion.emit(CAST, x, dtype="float32")
        out = _scaled(expansion, wide, factor.reshape(shape), offset.reshape(shape))
        return expansion.emit(CAST, out, dtype=x.dtype)
    return _scaled(expansion, x, factor.reshape(shape), offset.reshape(shape))


def trains_batch(node: Node) -> bool:
    """Return whether a batch normalisation takes the statistics of its batch.

    Before opset 14, its further outputs say so.
    """
    return bool(node.attributes.get("training_mode", 0)) or (
        node.version < _TRAINING_MODE and node.n_outputs > 1
    )


def _trained_batch(
    node: Node, expansion: Expansion, *, is_of_sample: bool = False
) -> tuple[Value, ...]:
    """Emit the normalisation by the batch's own statistics, and the running mean and variance.

    Before opset 14, saved mean and variance follow; the latter is the inverse deviation, as in
    onnxruntime. Source: https://onnx.ai/onnx/operators/onnx__BatchNormalization.html
    """
    x, epsilon = node.operand(0), node.attributes["epsilon"]
    scale, bias = (_as_type(expansion, node.operand(i), x.dtype) for i in (1, 2))
    of_elements = node.version < 9 and not node.attributes.get("spatial", 1)
    shape, own = x.shape, scale.shape  # where every element of an image has its own statistics
    if of_elements:
        x = reshape(expansion, x, (shape[0], prod(shape[1:])))
        scale, bias = (reshape(expansion, value, (prod(own),)) for value in (scale, bias))
    out, _, mean, inverse = normalised(expansion, "batch", [x, scale, bias], epsilon)
    if of_elements:
        out = reshape(expansion, out, shape)
        mean, inverse = (reshape(expansion, value, own) for value in (mean, inverse))
    deviation = operand(0) * operand(0)
    found = 1.0 / deviation - float(epsilon)
    if is_of_sample:
        n = prod(x.shape) // x.shape[1]
        found = found * (n / max(1, n - 1))
    variance = mapped(expansion, found, inverse)
    momentum = float(node.attributes["momentum"])
    running = []
    for before, now in zip((node.operand(3), node.operand(4)), (mean, variance), strict=True):
        moved = operand(0) * momentum + operand(1) * (1 - momentum)
        running.append(mapped(expansion, moved, before, _as_type(expansion, now, before.dtype)))
    return out, *running, mean, variance if is_of_sample else inverse


def _as_type(expansion: Expansion, value: Value, dtype: str) -> Value:
    return value if value.dtype == dtype else expansion.emit(CAST, value, dtype=dtype)


def _scaled(expansion: Expansion, x: Value, factor: Array, offset: Array) -> Value:
    """Emit x · factor + offset."""
    factor_value = expansion.constant(factor.astype(x.dtype), "scale")
    offset_value = expansion.constant(offset.astype(x.dtype), "offset")
    return binary(expansion, "add", binary(expansion, "multiply", x, factor_value), offset_value)


def _normalised(node: Node, expansion: Expansion, values: Sequence[Value]) -> Value:
    """Emit (x − mean) · (scale / √(variance + epsilon)) + bias in the types of the statistics."""
    x, (scale, bias, mean, variance) = node.operand(0), values

    def as_x(value: Value) -> Value:
        return value if value.dtype == x.dtype else expansion.emit(CAST, value, dtype=x.dtype)

    above = binary(
        expansion, "add", variance, scalar(expansion, node.attributes["epsilon"], variance)
    )
    deviation = unary(expansion, "sqrt", above)
    if scale.dtype != deviation.dtype:
        scale = expansion.emit(CAST, scale, dtype=deviation.dtype)
    factor = as_x(binary(expansion, "divide", scale, deviation))
    centred = binary(expansion, "subtract", x, as_x(mean))
    return binary(expansion, "add", binary(expansion, "multiply", centred, factor), as_x(bias))


def _layer_axis(node: Node) -> int:
    return node.axis(node.attributes["axis"], len(node.operand(0).shape))


def _inner_axes(node: Node) -> range:
    return range(_layer_axis(node), len(node.operand(0).shape))


def _layer_types(node: Node) -> list[Type]:
    """Return the types of the result, the means and the inverse deviations.

    Raises
    ------
    BadModel
        When the scale or the bias does not broadcast, or statistics have an unsupported type.
    """
    x, axis = node.operand(0), _layer_axis(node)
    _check_stash(node)
    for index, subject in ((1, "scale"), (2, "bias")):
        value = node.optional(index)
        if value is not None and not _broadcasts(value.shape, x.shape[axis:]):
            raise BadModel(
                f"{node}: its {subject} {value.name!r} has shape {value.shape}, which does not"
                f" broadcast to the normalised shape {x.shape[axis:]}"
            )
    reduced_shape = (*x.shape[:axis], *(1,) * (len(x.shape) - axis))
    return [(x.shape, x.dtype), (reduced_shape, "float32"), (reduced_shape, "float32")]


def _check_stash(node: Node) -> None:
    if node.attributes.get("stash_type", 1) != 1:
        raise BadModel(f"{node}: stash_type is not float32; only statistics in float32 exist")


def _broadcasts(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    if len(shape) > len(target):
        return False
    tail = target[len(target) - len(shape) :]
    return all(size in (1, wide) for size, wide in zip(shape, tail, strict=True))


def _layer_arrays(node: Node, arrays: Sequence[Array | None]) -> list[Array]:
    x = np.asarray(arrays[0])
    axes = tuple(range(_layer_axis(node), x.ndim))
    wide = x.astype(np.float64)
    mean = wide.mean(axes, keepdims=True)
    inverse = 1 / np.sqrt(wide.var(axes, keepdims=True) + node.attributes["epsilon"])
    out = (wide - mean) * inverse * arrays[1]
    if len(arrays) > 2 and arrays[2] is not None:
        out = out + arrays[2]
    return [out.astype(x.dtype), mean.astype(np.float32), inverse.astype(np.float32)]


def _lower_layer(lowering: Lowering, op: Operation) -> tuple[Tensor, ...]:
    """Normalise rows: everything from the axis on is one."""
    x, axis = lowering.tensor(op.operand(0)), _layer_axis(op)
    outer, inner = prod(x.shape[:axis]), prod(x.shape[axis:])
    rows = rearranged(lowering.builder, x, (outer, inner), "rows")
    white, mean, inverse = group_standardise(lowering.builder, rows, op.attributes["epsilon"], 1)
    out = rearranged(lowering.builder, white, tuple(x.shape), "rows")
    if not _is_one(op.operand(1)):
        binary_in_place(lowering.builder, "multiply", out, lowering.tensor(op.operand(1)))
    bias = op.optional(2)
    if bias is not None:
        binary_in_place(lowering.builder, "add", out, lowering.tensor(bias))
    results = [out]
    for value, tensor in zip(op.outputs[1:], (mean, inverse), strict=False):
        if value is not None:
            wide = tensor if tensor.dtype == FLOAT32 else cast(lowering.builder, tensor, FLOAT32)
            results.append(wide.reshape(*value.shape))
    return tuple(results)


def _group_arrays(node: Node, arrays: Sequence[Array | None]) -> list[Array]:
    x, scale, bias = (np.asarray(array) for array in arrays)
    n_groups = _n_groups(node)
    rows = x.astype(np.float64).reshape(x.shape[0] * n_groups, -1)
    mean, variance = rows.mean(1, keepdims=True), rows.var(1, keepdims=True)
    white = ((rows - mean) / np.sqrt(variance + node.attributes["epsilon"])).reshape(x.shape)
    shape = (-1, *(1,) * (x.ndim - 2))
    per_channel = x.shape[1] // scale.size
    factor, offset = (np.repeat(v, per_channel).reshape(shape) for v in (scale, bias))
    return [(white * factor + offset).astype(x.dtype)]


def _n_groups(node: Node) -> int:
    """Return the number of groups; an instance normalisation has one per channel."""
    channels = node.operand(0).shape[1]
    return int(node.attributes.get("num_groups", channels))


def _group_types(node: Node) -> list[Type]:
    """Return the type of the result.

    Raises
    ------
    BadModel
        When the groups do not divide the channels, or the scale or bias has another size.
    """
    x, n_groups = node.operand(0), _n_groups(node)
    _check_stash(node)
    if len(x.shape) < 2 or n_groups < 1 or x.shape[1] % n_groups:
        raise BadModel(
            f"{node}: {n_groups} groups of {x.name!r} of shape {x.shape}: expected a divisor of its"
            " channels"
        )
    # Before opset 21, a group normalisation had one scale and bias per group.
    is_by_group = node.operator.name == "GroupNormalization" and node.version < 21
    expected = n_groups if is_by_group else x.shape[1]
    for index, subject in ((1, "scale"), (2, "bias")):
        value = node.operand(index)
        if value.shape != (expected,):
            raise BadModel(
                f"{node}: its {subject} {value.name!r} has shape {value.shape}: expected"
                f" ({expected},)"
            )
    return [(x.shape, x.dtype)]


def _lower_group(lowering: Lowering, op: Operation) -> Tensor:
    x, gamma, beta = (lowering.tensor(op.operand(i)) for i in range(3))
    n_groups, channels = _n_groups(op), x.shape[1]
    white, *_ = group_standardise(lowering.builder, x, op.attributes["epsilon"], n_groups)
    if gamma.n_elements != channels:  # one per group
        gamma, beta = (
            factor.reshape(n_groups, 1).broadcast_to((n_groups, channels // n_groups))
            for factor in (gamma, beta)
        )
        by_channel = (1, n_groups, channels // n_groups, *x.shape[2:])
        apart = rearranged(lowering.builder, white, (x.shape[0], *by_channel[1:]), "groups")
        shape = (1, n_groups, channels // n_groups, *(1,) * (len(x.shape) - 2))
        out = apply_binary(lowering.builder, "multiply", apart, gamma.reshape(*shape))
        binary_in_place(lowering.builder, "add", out, beta.reshape(*shape))
        return rearranged(lowering.builder, out, tuple(x.shape), "groups")
    for function, values in (("multiply", gamma), ("add", beta)):
        factors = values.reshape(1, channels, *(1,) * (len(x.shape) - 2))
        binary_in_place(lowering.builder, function, white, factors)
    return white


def _is_one(value: Value) -> bool:
    return value.known is not None and bool((np.asarray(value.known) == 1).all())


def _rms_types(node: Node) -> list[Type]:
    return _layer_types(node)[:1]


def _rms_arrays(node: Node, arrays: Sequence[Array | None]) -> list[Array]:
    x = np.asarray(arrays[0])
    wide = x.astype(np.float64)
    mean = np.square(wide).mean(tuple(range(_layer_axis(node), x.ndim)), keepdims=True)
    return [(wide / np.sqrt(mean + node.attributes["epsilon"]) * arrays[1]).astype(x.dtype)]


def _lower_rms(lowering: Lowering, op: Operation) -> Tensor:
    x, axis = lowering.tensor(op.operand(0)), _layer_axis(op)
    outer, inner = prod(x.shape[:axis]), prod(x.shape[axis:])
    rows = rearranged(lowering.builder, x, (outer, inner), "rows")
    out = root_mean_square_normalise(lowering.builder, rows, op.attributes["epsilon"])
    out = rearranged(lowering.builder, out, tuple(x.shape), "rows")
    if not _is_one(op.operand(1)):
        binary_in_place(lowering.builder, "multiply", out, lowering.tensor(op.operand(1)))
    return out


def _mean_variance_normalization(node: Node, expansion: Expansion) -> Value:
    """Emit (x − mean) / sqrt(variance + 1e-9), as ONNX defines the operator."""
    x = node.operand(0)
    axes = tuple(sorted(node.axis(a, len(x.shape)) for a in node.attributes["axes"]))
    scale = 1 / prod(x.shape[a] for a in axes)
    apart = binary(expansion, "subtract", x, reduced(expansion, "sum", x, axes, scale))
    variance = reduced(expansion, "sum", unary(expansion, "square", apart), axes, scale)
    deviation = binary(
        expansion,
        "add",
        unary(expansion, "sqrt", variance, **{SLOPE_AT_KINK: 0.0}),
        scalar(expansion, 1e-9, x),
    )
    return binary(expansion, "divide", apart, deviation)


def _lp_normalization(node: Node, expansion: Expansion) -> Value:
    """Emit x divided by its norm along an axis; zeros stay zeros.

    Raises
    ------
    BadModel
        When the norm is neither 1 nor 2.
    """
    x, power = node.operand(0), node.attributes["p"]
    if power not in (1, 2):
        raise BadModel(f"{node}: p is {power}: expected 1 or 2")
    axis = (node.axis(node.attributes["axis"], len(x.shape)),)
    sizes = unary(expansion, "absolute" if power == 1 else "square", x)
    norm = reduced(expansion, "sum", sizes, axis)
    norm = norm if power == 1 else unary(expansion, "sqrt", norm, **{SLOPE_AT_KINK: 0.0})
    tiny = scalar(expansion, float(np.finfo(x.dtype).tiny), x)
    return binary(expansion, "divide", x, binary(expansion, "maximum", norm, tiny))


def _trained_layer(node: Node, expansion: Expansion) -> tuple[Value, ...]:
    out, _, *statistics = rows_normalised(expansion, "layer", node, _layer_axis(node))
    x, axis = node.operand(0), _layer_axis(node)
    shape = (*x.shape[:axis], *(1,) * (len(x.shape) - axis))
    return (out, *(reshape(expansion, value, shape) for value in statistics))


def _trained_rms(node: Node, expansion: Expansion) -> Value:
    return rows_normalised(expansion, "rms", node, _layer_axis(node))[0]


def _trained_group(node: Node, expansion: Expansion) -> Value:
    x, n_groups = node.operand(0), _n_groups(node)
    channels = x.shape[1]
    factors = []
    for value in node.operands[1:]:
        per_group = reshape(expansion, value, (value.shape[0], 1))
        wide = full(expansion, per_group, (value.shape[0], channels // value.shape[0]))
        factors.append(reshape(expansion, wide, (channels,)))
    operands = [x, *factors]
    return normalised(expansion, "group", operands, node.attributes["epsilon"], n_groups)[0]


RMS_NORMALIZATION = Operator(
    name="RMSNormalization",
    infer=_rms_types,
    evaluate=_rms_arrays,
    lower=_lower_rms,
    decompose_for_training=_trained_rms,
    parts=along_others(_inner_axes),
)
LAYER_NORMALIZATION = Operator(
    name="LayerNormalization",
    infer=_layer_types,
    evaluate=_layer_arrays,
    lower=_lower_layer,
    decompose_for_training=_trained_layer,
    parts=along_others(_inner_axes, 3),
)


def _group_operator(name: str) -> Operator:
    return Operator(
        name=name,
        infer=_group_types,
        evaluate=_group_arrays,
        lower=_lower_group,
        decompose_for_training=_trained_group,
        parts=images,
    )


GROUP_NORMALIZATION = _group_operator("GroupNormalization")

RECORDS = (
    LAYER_NORMALIZATION,
    Operator(name="BatchNormalization", decompose=_batch_normalization),
    GROUP_NORMALIZATION,
    _group_operator("InstanceNormalization"),
    Operator(name="LpNormalization", decompose=_lp_normalization),
    Operator(name="MeanVarianceNormalization", decompose=_mean_variance_normalization),
    RMS_NORMALIZATION,
)
