"""What a node of a random graph may be: one function per form, which says whether it applied.

Functions with jumps are left out where a rounding decides which side of a jump a value is on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tests.onnx_fuzz.draw import Drawing, Drawn

__all__ = ["OPERATORS"]

_UNARY = (
    *("Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Softplus", "Softsign", "Erf", "LeakyRelu"),
    *("Elu", "Selu", "HardSigmoid", "HardSwish", "Identity", "Sin", "Cos", "Atan"),
)
_BINARY = ("Add", "Sub", "Mul", "Max", "Min", "Sum", "Mean", "PRelu")
_INTEGER = ("Add", "Sub", "Mul", "Max", "Min")
_REDUCE = (
    *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2"),
    *("ReduceSumSquare", "ReduceLogSumExp", "ReduceProd"),
)


def _unary(d: Drawing) -> bool:
    x = d.value()
    return x is not None and bool(d.emit(d.choice(_UNARY), [x.name]))


def _binary(d: Drawing) -> bool:
    x, y = d.value(), d.value()
    if x is None or y is None:
        return False
    if d.is_chosen(0.5):
        dims = tuple(n if d.is_chosen(0.6) else 1 for n in x.shape[d.integer(0, x.rank) :])
        return bool(d.emit(d.choice(_BINARY), [x.name, d.weight(dims)]))
    return bool(d.emit(d.choice(_BINARY[:-1]), [x.name, y.name]))


def _divide(d: Drawing) -> bool:
    x = d.value()
    if x is None:
        return False
    divisor = 1.5 + np.abs(d.random.standard_normal(x.shape[-1:])).astype(np.float32)
    return bool(d.emit("Div", [x.name, d.constant(divisor)]))


def _of_integers(d: Drawing) -> bool:
    x, y = d.value(is_float=False), d.value(is_float=False)
    if x is None or y is None:
        return False
    kind = d.choice(("arithmetic", "divide", "cast", "compare"))
    if kind == "arithmetic":
        return bool(d.emit(d.choice(_INTEGER), [x.name, y.name]))
    if kind == "divide":
        divisor = d.constant(d.random.integers(1, 5, x.shape[-1:]).astype(np.int32))
        return bool(d.emit(d.choice(("Div", "Mod")), [x.name, divisor]))
    if kind == "compare":
        flag = d.emit(d.choice(("Less", "Greater", "Equal")), [x.name, y.name])
        return bool(d.emit("Where", [*flag, x.name, y.name]))
    return bool(d.emit("Cast", [x.name], to=1))


def _softmax(d: Drawing) -> bool:
    x = d.value(1)
    if x is None:
        return False
    kind = d.choice(("Softmax", "LogSoftmax"))
    return bool(d.emit(kind, [x.name], axis=d.integer(-x.rank, x.rank - 1)))


def _product(d: Drawing) -> bool:
    x = d.value(1, 4)
    if x is None:
        return False
    lead = x.shape[:-2] if d.is_chosen(0.3) else ()
    w = d.weight((*lead, x.shape[-1], d.integer(1, 9)), 0.5)
    return bool(d.emit("MatMul", [x.name, w]))


def _gemm(d: Drawing) -> bool:
    x = d.value(2, 2)
    if x is None:
        return False
    turned, peer = d.integer(0, 1), d.integer(0, 1)
    inner, columns = x.shape[0 if turned else 1], d.integer(1, 8)
    w = d.weight((columns, inner) if peer else (inner, columns), 0.5)
    bias = [d.weight((columns,))] if d.is_chosen() else []
    scales: dict[str, Any] = {"alpha": 0.5, "beta": 2.0} if d.is_chosen(0.3) else {}
    return bool(d.emit("Gemm", [x.name, w, *bias], transA=turned, transB=peer, **scales))


def _window(d: Drawing, sizes: Sequence[int]) -> dict[str, Any]:
    """Return attributes of a window over dimensions of some sizes; it fits without padding."""
    results: dict[str, Any] = {"kernel_shape": [d.integer(1, min(3, n)) for n in sizes]}
    if d.is_chosen():
        results["strides"] = [d.integer(1, 3) for _ in sizes]
    if d.is_chosen(0.3):
        results["auto_pad"] = d.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    elif d.is_chosen():
        size = results["kernel_shape"]
        results["pads"] = [d.integer(0, k - 1) for k in (*size, *size)]
    return results


def _convolution(d: Drawing) -> bool:
    x = d.value(3, 5)
    if x is None:
        return False
    window = _window(d, x.shape[2:])
    if d.is_chosen(0.3):
        window["dilations"] = [d.integer(1, 1 + (n > 6)) for n in x.shape[2:]]
    channels = x.shape[1]
    groups = d.choice([g for g in range(1, channels + 1) if channels % g == 0])
    out = groups * d.integer(1, 3)
    w = d.weight((out, channels // groups, *window["kernel_shape"]), 0.5)
    bias = [d.weight((out,))] if d.is_chosen() else []
    return bool(d.emit("Conv", [x.name, w, *bias], group=groups, **window))


def _turned_convolution(d: Drawing) -> bool:
    x = d.value(3, 4)
    if x is None:
        return False
    n, channels = x.rank - 2, x.shape[1]
    groups = d.choice([g for g in range(1, channels + 1) if channels % g == 0])
    kernel = [d.integer(1, 3) for _ in range(n)]
    w = d.weight((channels, d.integer(1, 3), *kernel), 0.5)
    strides = [d.integer(1, 2) for _ in range(n)]
    return bool(d.emit("ConvTranspose", [x.name, w], group=groups, strides=strides))


def _pool(d: Drawing) -> bool:
    x = d.value(3, 5)
    if x is None:
        return False
    kind = d.choice(("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"))
    window = _window(d, x.shape[2:]) if kind in ("MaxPool", "AveragePool") else {}
    if kind == "AveragePool" and d.is_chosen():
        window["count_include_pad"] = 1
    return bool(d.emit(kind, [x.name], **window))


def _normalisation(d: Drawing) -> bool:
    x = d.value(2, 5)
    if x is None:
        return False
    kind = d.choice(("BatchNormalization", "LayerNormalization", "InstanceNormalization"))
    if kind == "LayerNormalization":
        if d.opset < 17:
            return False
        axis = d.integer(1, x.rank - 1)
        scales = [d.weight(x.shape[axis:]), d.weight(x.shape[axis:])]
        return bool(d.emit(kind, [x.name, *scales], axis=axis))
    if kind == "InstanceNormalization" and x.rank < 3:
        return False
    scales = [d.weight(x.shape[1:2]), d.weight(x.shape[1:2])]
    if kind == "BatchNormalization":
        variance = 0.5 + np.abs(d.random.standard_normal(x.shape[1:2])).astype(np.float32)
        scales += [d.weight(x.shape[1:2]), d.constant(variance)]
    return bool(d.emit(kind, [x.name, *scales]))


def _reduction(d: Drawing) -> bool:
    x = d.value(1)
    if x is None:
        return False
    kind, keep = d.choice(_REDUCE), d.integer(0, 1)
    axes = sorted(d.random.permutation(x.rank)[: d.integer(1, x.rank)].tolist())
    axes = [axis - x.rank if d.is_chosen(0.3) else axis for axis in axes]
    if d.opset >= 18 or kind == "ReduceSum":
        return bool(d.emit(kind, [x.name, d.constant(axes)], keepdims=keep))
    return bool(d.emit(kind, [x.name], keepdims=keep, axes=axes))


def _reshape(d: Drawing) -> bool:
    x = d.value(1)
    if x is None:
        return False
    kind = d.choice(("reshape", "flatten", "transpose", "squeeze", "unsqueeze"))
    if kind == "flatten":
        return bool(d.emit("Flatten", [x.name], axis=d.integer(-x.rank, x.rank)))
    if kind == "transpose":
        return bool(d.emit("Transpose", [x.name], perm=d.random.permutation(x.rank).tolist()))
    if kind == "squeeze":
        axes = [axis for axis, size in enumerate(x.shape) if size == 1]
        return bool(axes) and bool(d.emit("Squeeze", [x.name, d.constant(axes)]))
    if kind == "unsqueeze":
        return x.rank < 5 and bool(
            d.emit("Unsqueeze", [x.name, d.constant([d.integer(0, x.rank)])])
        )
    sizes = list(x.shape)
    if x.rank > 1:
        offset = d.integer(0, x.rank - 2)
        sizes[offset : offset + 2] = [sizes[offset] * sizes[offset + 1]]
    if d.is_chosen():
        sizes[d.integer(0, len(sizes) - 1)] = -1
    return bool(d.emit("Reshape", [x.name, d.constant(sizes)]))


def _slice(d: Drawing) -> bool:
    x = d.value(1)
    if x is None:
        return False
    axis = d.integer(0, x.rank - 1)
    size, step = x.shape[axis], d.choice((1, 1, 2, -1, -2))
    start, end = sorted((d.integer(0, size - 1), d.integer(0, size)))
    if step < 0:
        start, end = end - 1, start - 1 - size if start == 0 else start - 1
    operands = [d.constant([value]) for value in (start, end, axis, step)]
    return bool(d.emit("Slice", [x.name, *operands]))


def _split(d: Drawing) -> bool:
    x = d.value(1)
    if x is None:
        return False
    axis = d.integer(0, x.rank - 1)
    if x.shape[axis] < 2:
        return False
    first = d.integer(1, x.shape[axis] - 1)
    sizes = d.constant([first, x.shape[axis] - first])
    return bool(d.emit("Split", [x.name, sizes], n_outputs=2, axis=axis))


def _concat(d: Drawing) -> bool:
    x, y = d.value(1), d.value(1)
    if x is None or y is None or x.rank != y.rank:
        return False
    axes = [a for a in range(x.rank) if _agree_but(x, y, a)]
    return bool(axes) and bool(d.emit("Concat", [x.name, y.name, x.name], axis=d.choice(axes)))


def _agree_but(x: Drawn, y: Drawn, axis: int) -> bool:
    return x.shape[:axis] == y.shape[:axis] and x.shape[axis + 1 :] == y.shape[axis + 1 :]


def _extend(d: Drawing) -> bool:
    x = d.value(1, 4)
    if x is None:
        return False
    kind = d.choice(("pad", "tile", "expand", "resize"))
    if kind == "pad":
        mode = d.choice(("constant", "reflect", "edge"))
        pads = [d.integer(0, min(2, size - 1)) for size in (*x.shape, *x.shape)]
        return bool(d.emit("Pad", [x.name, d.constant(pads)], mode=mode))
    if kind == "tile":
        repeats = [d.integer(1, 2) for _ in x.shape]
        return bool(d.emit("Tile", [x.name, d.constant(repeats)]))
    if kind == "expand":
        sizes = [d.integer(2, 3), *(d.integer(2, 3) if n == 1 else n for n in x.shape)]
        return bool(d.emit("Expand", [x.name, d.constant(sizes)]))
    if x.rank not in (3, 4):
        return False
    sizes = [*x.shape[:2], *(d.integer(1, 2 * n) for n in x.shape[2:])]
    modes = ("nearest", "linear", "cubic") if x.rank == 4 else ("nearest", "linear")
    mapping = d.choice(("half_pixel", "asymmetric", "align_corners"))
    return bool(
        d.emit(
            "Resize",
            [x.name, "", "", d.constant(sizes)],
            mode=d.choice(modes),
            coordinate_transformation_mode=mapping,
        )
    )


def _choose(d: Drawing) -> bool:
    x = d.value(1, 4)
    if x is None:
        return False
    axis = d.integer(0, x.rank - 1)
    size = x.shape[axis]
    kind = d.choice(("Gather", "GatherElements", "ScatterElements", "CumSum", "TopK", "Clip"))
    if kind == "Gather":
        positions = d.random.integers(-size, size, tuple(d.integer(1, 3) for _ in range(2)))
        return bool(d.emit(kind, [x.name, d.constant(positions)], axis=axis))
    if kind == "GatherElements":
        positions = d.random.integers(-size, size, x.shape)
        return bool(d.emit(kind, [x.name, d.constant(positions)], axis=axis))
    if kind == "ScatterElements":
        shape = tuple(1 if a == axis else n for a, n in enumerate(x.shape))
        rows = d.constant(d.random.integers(0, size, shape))
        return bool(d.emit(kind, [x.name, rows, d.weight(shape)], axis=axis))
    if kind == "CumSum":
        flags = {"exclusive": d.integer(0, 1), "reverse": d.integer(0, 1)}
        return bool(d.emit(kind, [x.name, d.constant(np.array(axis))], **flags))
    if kind == "TopK":
        k = d.constant([d.integer(1, size)])
        return bool(d.emit(kind, [x.name, k], n_outputs=2, axis=axis, largest=d.integer(0, 1)))
    limits = [d.constant(np.array(value, np.float32)) for value in (-0.5, 1.25)]
    return bool(d.emit(kind, [x.name, *limits]))


def _recurrent(d: Drawing) -> bool:
    x = d.value(3, 3)
    if x is None:
        return False
    kind = d.choice(("LSTM", "GRU", "RNN"))
    gates, hidden = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind], d.integer(1, 5)
    direction = d.choice(("forward", "reverse", "bidirectional"))
    n = 2 if direction == "bidirectional" else 1
    operands = [
        d.weight((n, gates * hidden, x.shape[2]), 0.5),
        d.weight((n, gates * hidden, hidden), 0.5),
        d.weight((n, 2 * gates * hidden), 0.5),
    ]
    return bool(
        d.emit(kind, [x.name, *operands], n_outputs=2, hidden_size=hidden, direction=direction)
    )


OPERATORS: tuple[Callable[[Drawing], bool], ...] = (
    _unary,
    _unary,
    _binary,
    _binary,
    _divide,
    _of_integers,
    _softmax,
    _product,
    _gemm,
    _convolution,
    _convolution,
    _turned_convolution,
    _pool,
    _normalisation,
    _reduction,
    _reshape,
    _reshape,
    _slice,
    _split,
    _concat,
    _extend,
    _choose,
    _choose,
    _recurrent,
)
