"""The catalogue of operators: for each its result's shape and type, and its value in numpy.

The numpy form folds constants at compile time and is what tests compare the machine with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadModel
from tilescope.engine.ir.graph import Value
from tilescope.engine.number.dtype import dtype_of

__all__ = ["BINARY_FUNCTIONS", "OPERATORS", "UNARY_FUNCTIONS", "OperatorSpec"]

Attributes = Mapping[str, Any]
Array = NDArray[Any]


@dataclass(frozen=True)
class OperatorSpec:
    """How an operator's result follows from its inputs.

    Parameters
    ----------
    infer
        Inputs and attributes to shape and dtype.
    evaluate
        The same on ndarrays.
    n_inputs
        Number of inputs.
    """

    infer: Callable[[Sequence[Value], Attributes], tuple[tuple[int, ...], str]]
    evaluate: Callable[[Sequence[Array], Attributes], Array]
    n_inputs: int


def _erf(x: Array) -> Array:
    from scipy import special  # heavy, and few models have constants of it

    return np.asarray(special.erf(x)).astype(x.dtype)


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e)).astype(x.dtype)


UNARY_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "inverse": lambda x: (1 / x).astype(x.dtype),
    "negate": np.negative,
    "absolute": np.abs,
    "square": np.square,
    "erf": _erf,
}


def _divide(a: Array, b: Array) -> Array:
    if np.issubdtype(a.dtype, np.integer):
        return np.trunc(np.asarray(a, np.float64) / b).astype(a.dtype)
    return np.divide(a, b)


BINARY_FUNCTIONS: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": _divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "power": np.power,
}


def _same(inputs: Sequence[Value], _: Attributes) -> tuple[tuple[int, ...], str]:
    return inputs[0].shape, inputs[0].dtype


def _broadcast(inputs: Sequence[Value], _: Attributes) -> tuple[tuple[int, ...], str]:
    a, b = inputs
    try:
        return np.broadcast_shapes(a.shape, b.shape), a.dtype
    except ValueError:
        raise BadModel(
            f"{a.name!r} of shape {a.shape} and {b.name!r} of shape {b.shape} do not broadcast"
        ) from None


def _matmul_shape(inputs: Sequence[Value], _: Attributes) -> tuple[tuple[int, ...], str]:
    a, b = inputs
    if len(a.shape) < 2 or len(b.shape) < 2 or a.shape[-1] != b.shape[-2]:
        raise BadModel(
            f"cannot multiply {a.name!r} of shape {a.shape} by {b.name!r} of shape {b.shape}"
        )
    try:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        raise BadModel(
            f"cannot multiply {a.name!r} of shape {a.shape} by {b.name!r} of shape {b.shape}"
        ) from None
    return (*batch, a.shape[-2], b.shape[-1]), a.dtype


def _window_shape(shape: Sequence[int], attributes: Attributes) -> tuple[int, ...]:
    sizes = []
    for d, size in enumerate(shape):
        extent = (attributes["kernel"][d] - 1) * attributes["dilation"][d] + 1
        before, after = attributes["padding_before"][d], attributes["padding_after"][d]
        out = (size + before + after - extent) // attributes["stride"][d] + 1
        if out < 1:
            raise BadModel(
                f"A window of {extent} does not fit a dimension of {size} with padding"
                f" {before} and {after}"
            )
        sizes.append(out)
    return tuple(sizes)


def _conv_shape(inputs: Sequence[Value], attributes: Attributes) -> tuple[tuple[int, ...], str]:
    x, w = inputs
    groups = attributes["groups"]
    if len(x.shape) != 4 or len(w.shape) != 4 or x.shape[1] != w.shape[1] * groups:
        raise BadModel(
            f"An input of shape {x.shape} does not go with weights of shape {w.shape} in"
            f" {groups} groups"
        )
    return (x.shape[0], w.shape[0], *_window_shape(x.shape[2:], attributes)), x.dtype


def _pool_shape(inputs: Sequence[Value], attributes: Attributes) -> tuple[tuple[int, ...], str]:
    (x,) = inputs
    return (*x.shape[:2], *_window_shape(x.shape[2:], attributes)), x.dtype


def _windows(x: Array, attributes: Attributes, fill: float) -> Array:
    """Return all windows: shape (images, channels, rows, columns, kernel rows, kernel columns)."""
    pads = list(zip(attributes["padding_before"], attributes["padding_after"], strict=True))
    padded = np.pad(x, [(0, 0), (0, 0), *pads], constant_values=fill)
    kernel, dilation, stride = (attributes[k] for k in ("kernel", "dilation", "stride"))
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    view = np.lib.stride_tricks.sliding_window_view(padded, extents, axis=(2, 3))
    return view[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]


def _convolve(inputs: Sequence[Array], attributes: Attributes) -> Array:
    x, w = inputs
    groups = attributes["groups"]
    windows = _windows(x, attributes, 0)
    parts = [
        np.einsum("nchwij,ocij->nohw", part, kernel, optimize=True)
        for part, kernel in zip(np.split(windows, groups, 1), np.split(w, groups, 0), strict=True)
    ]
    return np.concatenate(parts, axis=1).astype(x.dtype)


def _max_pool(inputs: Sequence[Array], attributes: Attributes) -> Array:
    lowest = (
        -np.inf if np.issubdtype(inputs[0].dtype, np.floating) else np.iinfo(inputs[0].dtype).min
    )
    result: Array = _windows(inputs[0], attributes, lowest).max(axis=(4, 5))
    return result


def _average_pool(inputs: Sequence[Array], attributes: Attributes) -> Array:
    total = _windows(inputs[0], attributes, 0).sum(axis=(4, 5))
    if attributes["counts_padding"]:
        count: Any = math.prod(attributes["kernel"])
    else:
        count = _windows(np.ones_like(inputs[0]), attributes, 0).sum(axis=(4, 5))
    return np.asarray(total / count).astype(inputs[0].dtype)


def _reduce_shape(inputs: Sequence[Value], attributes: Attributes) -> tuple[tuple[int, ...], str]:
    (x,) = inputs
    axes = set(attributes["axes"])
    return tuple(1 if d in axes else s for d, s in enumerate(x.shape)), x.dtype


_REDUCTIONS: dict[str, Any] = {
    "sum": np.sum,
    "maximum": np.max,
    "minimum": np.min,
    "product": np.prod,
}


def _reduce(inputs: Sequence[Array], attributes: Attributes) -> Array:
    axes = tuple(attributes["axes"])
    total = _REDUCTIONS[attributes["operation"]](inputs[0], axis=axes, keepdims=True)
    return np.asarray(total * attributes["scale"]).astype(inputs[0].dtype)


def _reshape_shape(inputs: Sequence[Value], attributes: Attributes) -> tuple[tuple[int, ...], str]:
    (x,) = inputs
    shape = tuple(attributes["shape"])
    if math.prod(shape) != math.prod(x.shape):
        raise BadModel(f"cannot reshape {x.name!r} of shape {x.shape} to {shape}")
    return shape, x.dtype


def _transpose_shape(
    inputs: Sequence[Value], attributes: Attributes
) -> tuple[tuple[int, ...], str]:
    (x,) = inputs
    order = attributes["order"]
    if sorted(order) != list(range(len(x.shape))):
        raise BadModel(f"{tuple(order)} does not order the {len(x.shape)} dimensions of {x.name!r}")
    return tuple(x.shape[d] for d in order), x.dtype


def _cast_shape(inputs: Sequence[Value], attributes: Attributes) -> tuple[tuple[int, ...], str]:
    return inputs[0].shape, attributes["dtype"]


def _cast(inputs: Sequence[Array], attributes: Attributes) -> Array:
    """Return the values in another type; what is too large for float8 becomes its largest."""
    x, dtype = inputs[0], attributes["dtype"]
    if dtype.startswith("float8"):
        grid = dtype_of(dtype).grid
        assert grid is not None
        x = grid.rounded(x)
    return x.astype(dtype)


OPERATORS: dict[str, OperatorSpec] = {
    "unary": OperatorSpec(
        _same, lambda x, a: np.asarray(UNARY_FUNCTIONS[a["function"]](x[0])).astype(x[0].dtype), 1
    ),
    "binary": OperatorSpec(
        _broadcast,
        lambda x, a: np.asarray(BINARY_FUNCTIONS[a["function"]](x[0], x[1])).astype(x[0].dtype),
        2,
    ),
    "matmul": OperatorSpec(_matmul_shape, lambda x, _: np.matmul(x[0], x[1]), 2),
    "convolution": OperatorSpec(_conv_shape, _convolve, 2),
    "max_pool": OperatorSpec(_pool_shape, _max_pool, 1),
    "average_pool": OperatorSpec(_pool_shape, _average_pool, 1),
    "reduce": OperatorSpec(_reduce_shape, _reduce, 1),
    "reshape": OperatorSpec(_reshape_shape, lambda x, a: x[0].reshape(a["shape"]), 1),
    "transpose": OperatorSpec(_transpose_shape, lambda x, a: x[0].transpose(a["order"]), 1),
    "cast": OperatorSpec(_cast_shape, _cast, 1),
}
