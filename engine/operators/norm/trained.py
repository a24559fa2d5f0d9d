"""Normalisations as training runs them: with what their gradients need as further results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadModel
from tilescope.engine.graph import Tensor
from tilescope.engine.ir import ENGINE_DOMAIN, Expansion, Node, Operation, Operator, Parts, Value
from tilescope.engine.library.popnn.norm import (
    batch_norm,
    group_norm,
    layer_norm,
    rms_norm,
)
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.movement.layout import full, reshape
from tilescope.engine.operators.parts import entries

__all__ = ["NORM", "RECORDS", "normalised", "rows_normalised"]

Array = NDArray[Any]
Type = tuple[tuple[int, ...], str]


def _statistics_shape(node: Node) -> tuple[int, ...]:
    x, kind = node.operand(0), node.attributes["kind"]
    if kind == "batch":
        return (x.shape[1],)
    return (x.shape[0] * node.attributes["n_groups"],)


def _types(node: Node) -> list[Type]:
    x, statistics = node.operand(0), (_statistics_shape(node), "float32")
    return [(x.shape, x.dtype), (x.shape, x.dtype), statistics, statistics]


def _by_statistic(node: Node, x: Array) -> Array:
    """Return elements in double precision: a row for each mean."""
    wide = x.astype(np.float64)
    if node.attributes["kind"] == "batch":
        return np.moveaxis(wide, 1, 0).reshape(x.shape[1], -1)
    return wide.reshape(x.shape[0] * node.attributes["n_groups"], -1)


def _in_place_of(node: Node, rows: Array, shape: tuple[int, ...]) -> Array:
    """Return rows of `_by_statistic` in their tensor's shape."""
    if node.attributes["kind"] != "batch":
        return rows.reshape(shape)
    return np.moveaxis(rows.reshape(shape[1], shape[0], *shape[2:]), 0, 1)


def _per_channel(values: Array, rank: int) -> Array:
    return values.reshape(-1, *(1,) * (rank - 2))


def _arrays(node: Node, arrays: Sequence[Array]) -> list[Array]:
    x, gamma, *beta = arrays
    rows = _by_statistic(node, x)
    mean = rows.mean(1) if node.attributes["kind"] != "rms" else np.zeros(rows.shape[0])
    variance = np.square(rows - mean[:, None]).mean(1)
    inverse = 1 / np.sqrt(variance + node.attributes["epsilon"])
    white = _in_place_of(node, (rows - mean[:, None]) * inverse[:, None], x.shape)
    out = white * _per_channel(gamma, x.ndim)
    if beta:
        out = out + _per_channel(beta[0], x.ndim)
    statistics = [mean.astype(np.float32), inverse.astype(np.float32)]
    return [out.astype(x.dtype), white.astype(x.dtype), *statistics]


def _lower(lowering: Lowering, op: Operation) -> tuple[Tensor, ...]:
    builder, kind = lowering.builder, op.attributes["kind"]
    x, gamma, *beta = (lowering.tensor(value) for value in op.operands)
    epsilon = op.attributes["epsilon"]
    if kind == "rms":
        inverse = rms_norm.rms_norm_statistics(builder, x, epsilon, statistics_type="float32")
        out, white = rms_norm.rms_normalise(builder, x, gamma, inverse)
        mean = inverse  # has no reader
    elif kind == "batch":
        mean, inverse = batch_norm.batch_norm_statistics(
            builder, x, epsilon, statistics_type="float32"
        )
        both = batch_norm.batch_normalise(builder, x, gamma, beta[0], mean, inverse)
        assert isinstance(both, tuple)
        out, white = both
    elif kind == "group":
        mean, inverse = group_norm.group_norm_statistics(
            builder, x, epsilon, op.attributes["n_groups"], statistics_type="float32"
        )
        out, white = group_norm.group_normalise(builder, x, gamma, beta[0], mean, inverse)
    else:
        mean, inverse = layer_norm.layer_norm_statistics(
            builder, x, epsilon, statistics_type="float32"
        )
        out, white = layer_norm.layer_normalise(builder, x, gamma, beta[0], mean, inverse)
    results = (out, white, mean, inverse)
    return tuple(t for value, t in zip(op.outputs, results, strict=True) if value is not None)


def _gradient(
    op: Operation, expansion: Expansion, gradients: Sequence[Value | None]
) -> Sequence[Value | None]:
    """Return the gradients of the operands.

    Raises
    ------
    BadModel
        When the loss depends on the statistics.
    """
    if any(gradient is not None for gradient in gradients[1:]):
        raise BadModel(f"{op}: the gradients of its statistics, further outputs, are not supported")
    _, white, _, inverse = op.outputs
    assert white is not None
    assert inverse is not None
    gradient = full(expansion, gradients[0], white.shape)
    attributes = {key: op.attributes[key] for key in ("kind", "n_groups")}
    of_x = expansion.emit(NORM_DATA_GRADIENT, white, gradient, inverse, op.operand(1), **attributes)
    of_parameters = expansion.emit_all(
        NORM_PARAMETER_GRADIENTS, len(op.inputs) - 1, white, gradient, **attributes
    )
    return of_x, *of_parameters


def _parts(node: Node, axes: Mapping[int, int], _: int) -> Parts | None:
    """Return the parts; a batch normalisation has none: its statistics are those of the batch."""
    if node.attributes["kind"] == "batch":
        return None
    return entries(node, axes, {0: 0}, (0, 0, 0, 0))


#: The result, what it was before scale and offset, the means and the inverse deviations.
NORM = Operator(
    name="norm",
    domain=ENGINE_DOMAIN,
    infer=_types,
    evaluate=_arrays,
    lower=_lower,
    gradient=_gradient,
    parts=_parts,
)


def _data_gradient_array(node: Node, arrays: Sequence[Array]) -> list[Array]:
    white, gradient, inverse, gamma = arrays
    scaled = gradient.astype(np.float64) * _per_channel(gamma, white.ndim)
    g, w = _by_statistic(node, scaled), _by_statistic(node, white)
    mean = g.mean(1, keepdims=True) if node.attributes["kind"] != "rms" else 0
    rest = g - mean - w * (g * w).mean(1, keepdims=True)
    return [_in_place_of(node, rest * inverse[:, None], white.shape).astype(white.dtype)]


def _lower_data_gradient(lowering: Lowering, op: Operation) -> Tensor:
    builder, kind = lowering.builder, op.attributes["kind"]
    white, gradient, inverse, gamma = (lowering.tensor(value) for value in op.operands)
    functions: dict[str, Callable[..., Tensor]] = {
        "batch": batch_norm.batch_norm_gradients,
        "group": group_norm.group_norm_gradients,
        "layer": layer_norm.layer_norm_gradients,
        "rms": rms_norm.rms_norm_gradients,
    }
    return functions[kind](builder, white, gradient, inverse, gamma)


NORM_DATA_GRADIENT = Operator(
    name="norm_data_gradient",
    domain=ENGINE_DOMAIN,
    infer=lambda node: [(node.operand(0).shape, node.operand(0).dtype)],
    evaluate=_data_gradient_array,
    lower=_lower_data_gradient,
)


def _parameter_types(node: Node) -> list[Type]:
    x = node.operand(0)
    return [((x.shape[1],), x.dtype)] * (1 if node.attributes["kind"] == "rms" else 2)


def _parameter_arrays(node: Node, arrays: Sequence[Array]) -> list[Array]:
    white, gradient = (np.moveaxis(a.astype(np.float64), 1, 0) for a in arrays)
    n = white.shape[0]
    sums = [(white * gradient).reshape(n, -1).sum(1), gradient.reshape(n, -1).sum(1)]
    return [s.astype(arrays[0].dtype) for s in sums[: len(_parameter_types(node))]]


def _lower_parameter_gradients(lowering: Lowering, op: Operation) -> tuple[Tensor, ...] | Tensor:
    builder, kind = lowering.builder, op.attributes["kind"]
    white, gradient = (lowering.tensor(value) for value in op.operands)
    if kind == "rms":
        return rms_norm.rms_norm_param_gradients(builder, white, gradient)
    functions: dict[str, Callable[..., tuple[Tensor, Tensor]]] = {
        "batch": batch_norm.batch_norm_param_gradients,
        "group": group_norm.group_norm_param_gradients,
        "layer": layer_norm.layer_norm_param_gradients,
    }
    both = functions[kind](builder, white, gradient)
    return tuple(t for value, t in zip(op.outputs, both, strict=True) if value is not None)


NORM_PARAMETER_GRADIENTS = Operator(
    name="norm_parameter_gradients",
    domain=ENGINE_DOMAIN,
    infer=_parameter_types,
    evaluate=_parameter_arrays,
    lower=_lower_parameter_gradients,
)


def normalised(
    expansion: Expansion, kind: str, operands: Sequence[Value], epsilon: float, n_groups: int = 1
) -> tuple[Value, ...]:
    """Emit a normalisation.

    Parameters
    ----------
    kind
        ``batch``, ``group``, ``layer`` or ``rms``: what has a mean and a deviation of its own, a
        channel, a group of channels of an image, or a row; the mean of a row of ``rms`` is 0.
    operands
        The input, shape (batch, channels, …), and scale and offset of every channel; ``rms`` has
        no offset.

    Returns
    -------
    tuple of Value
        The result, what it was before scale and offset, the means and the inverse deviations.
    """
    return expansion.emit_all(NORM, 4, *operands, kind=kind, epsilon=epsilon, n_groups=n_groups)


def rows_normalised(expansion: Expansion, kind: str, node: Node, axis: int) -> tuple[Value, ...]:
    """Emit a normalisation over the dimensions from an axis on, with a node's scale and offset."""
    x = node.operand(0)
    inner = x.shape[axis:]
    n = prod(inner)
    rows = reshape(expansion, x, (prod(x.shape[:axis]), n))
    factors = []
    for index, default in ((1, 1), (2, 0))[: 1 if kind == "rms" else 2]:
        value = node.optional(index)
        if value is None:
            value = expansion.constant(np.full(n, default, x.dtype), "factor")
        else:
            value = reshape(expansion, full(expansion, value, inner), (n,))
        factors.append(value)
    out, *rest = normalised(expansion, kind, [rows, *factors], node.attributes["epsilon"])
    return (reshape(expansion, out, x.shape), *rest)


RECORDS = (NORM, NORM_DATA_GRADIENT, NORM_PARAMETER_GRADIENTS)
