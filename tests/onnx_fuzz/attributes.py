"""Draws models of one node whose attributes and sizes are those that random graphs rarely have.

Equal sizes, odd paddings, empty axes, empty operands, one element, negative axes, every attribute
at values other than its default, optional operands present and absent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

__all__ = ["DRAWERS", "Case", "drawn_case", "model_of_case"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Operand:
    """An operand of the node; one that is a constant is an initializer."""

    array: Array
    is_constant: bool = False


@dataclass(frozen=True)
class Case:
    """A node with its operands; None stands for an operand that is left out."""

    op_type: str
    opset: int
    operands: tuple[Operand | None, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    n_outputs: int = 1

    @property
    def text(self) -> str:
        """The case in one line."""
        shapes = [
            "-" if o is None else f"{o.array.dtype}{list(o.array.shape)}{'c' * o.is_constant}"
            for o in self.operands
        ]
        return f"{self.op_type}-{self.opset} {' '.join(shapes)} {self.attributes}"


@dataclass
class Chance:
    """Where all choices of a case come from."""

    random: np.random.Generator

    def integer(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`, both included."""
        return int(self.random.integers(low, high + 1))

    def choice(self, options: Sequence[Any]) -> Any:
        """Return one of the options."""
        return options[self.integer(0, len(options) - 1)]

    def happens(self, share: float = 0.5) -> bool:
        """Return whether something happens that happens in a share of cases."""
        return bool(self.random.random() < share)

    def sizes(self, rank: int, most: int = 6, *, least: int = 1) -> tuple[int, ...]:
        """Return a shape: in a third of cases of equal sizes, else some of the least one."""
        if self.happens(0.3):
            return (self.integer(max(least, 1), most),) * rank
        return tuple(
            least if self.happens(0.15) else self.integer(max(least, 1), most) for _ in range(rank)
        )

    def shape(self, low: int = 1, high: int = 4, most: int = 6) -> tuple[int, ...]:
        """Return a shape of a rank in a range, in a tenth of cases with an empty dimension."""
        return self.sizes(self.integer(low, high), most, least=0 if self.happens(0.1) else 1)

    def floats(self, shape: Sequence[int], scale: float = 1.0) -> Array:
        """Return normal numbers."""
        return (self.random.standard_normal(tuple(shape)) * scale).astype(np.float32)

    def integers(
        self, shape: Sequence[int], low: int = -9, high: int = 9, dtype: Any = np.int32
    ) -> Array:
        """Return integers in a range, both ends included."""
        return self.random.integers(low, high + 1, tuple(shape)).astype(dtype)

    def axis(self, rank: int) -> int:
        """Return an axis, in half of cases counted from the end."""
        integer = self.integer(0, rank - 1)
        return integer - rank if self.happens() else integer

    def axes(self, rank: int, *, least: int = 0) -> list[int]:
        """Return different axes in any order."""
        n = self.integer(min(least, rank), rank)
        picked = [int(a) for a in self.random.permutation(rank)[:n]]
        return [a - rank if self.happens(0.4) else a for a in picked]

    def opset(self, *options: int) -> int:
        """Return one of the versions."""
        return int(self.choice(options))

    def some(self, **options: Callable[[], Any]) -> dict[str, Any]:
        """Return attributes, each of them in most cases."""
        return {name: make() for name, make in options.items() if self.happens(0.7)}


def _x(array: Array) -> Operand:
    return Operand(array)


def _c(array: Array | Sequence[Any], dtype: Any = np.int64) -> Operand:
    value = array if isinstance(array, np.ndarray) else None
    value = np.asarray(array, dtype) if value is None else value
    return Operand(value, True)


# Sums, products and equations


def _einsum(d: Chance) -> Case:
    labels = "ijkl"
    sizes = {label: 0 if d.happens(0.04) else d.integer(1, 4) for label in labels}
    if d.happens(0.3):
        sizes = dict.fromkeys(labels, 3)
    terms = [
        "".join(d.choice(labels) for _ in range(d.integer(0, 3)))
        for _ in range(d.choice((1, 1, 2, 2, 3, 3, 4)))
    ]
    every = "".join(terms)
    spread = d.sizes(d.integer(0, 2), 3) if d.happens(0.25) else None
    shapes = [tuple(sizes[c] for c in term) for term in terms]
    if spread is not None:
        for start in range(len(terms)):
            if d.happens(0.8) or start == 0:
                n = d.integer(0, len(spread)) if d.happens(0.3) and start else len(spread)
                value = tuple(
                    1 if d.happens(0.2) and start else s for s in spread[len(spread) - n :]
                )
                terms[start] = "..." + terms[start]
                shapes[start] = value + shapes[start]
    equation = (", " if d.happens(0.2) else ",").join(terms)
    if d.happens(0.75):
        selected = [c for c in dict.fromkeys(every) if d.happens(0.5)]
        order = "".join(selected[i] for i in d.random.permutation(len(selected)))
        equation += (
            ("-> " if d.happens(0.2) else "->") + ("..." if spread is not None else "") + order
        )
    return Case("Einsum", 12, tuple(_x(d.floats(s)) for s in shapes), {"equation": equation})


_REDUCES = (
    *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceProd"),
    *("ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"),
)


def _reduce(d: Chance) -> Case:
    name = d.choice(_REDUCES)
    shape = d.shape(0, 4)
    x = d.floats(shape)
    if name == "ReduceLogSum":
        x = np.abs(x) + np.float32(0.1)
    if d.happens(0.15) and name in {
        "ReduceSum",
        "ReduceMax",
        "ReduceMin",
        "ReduceL1",
        "ReduceSumSquare",
    }:
        x = d.integers(shape)
    attributes = d.some(keepdims=lambda: d.integer(0, 1))
    axes = d.axes(len(shape))
    by_operand = 13 if name == "ReduceSum" else 18
    opset = d.opset(11, 13, 18, 20)
    if opset < by_operand:
        if d.happens(0.8) and axes:
            attributes["axes"] = axes
        return Case(name, opset, (_x(x),), attributes)
    attributes |= d.some(noop_with_empty_axes=lambda: d.integer(0, 1))
    operands: tuple[Operand | None, ...] = (_x(x),)
    if d.happens(0.75):
        operands = (_x(x), _c([] if d.happens(0.3) else axes))
    return Case(name, opset, operands, attributes)


def _gemm(d: Chance) -> Case:
    m, k, n = d.sizes(3, least=0 if d.happens(0.1) else 1)
    attributes = d.some(alpha=lambda: 0.5, beta=lambda: -2.0, transA=lambda: 1, transB=lambda: 1)
    a = d.floats((k, m) if attributes.get("transA") else (m, k))
    b = d.floats((n, k) if attributes.get("transB") else (k, n))
    bias = d.choice(((), (n,), (1, n), (m, 1), (m, n), (1,), (1, 1)))
    opset = d.opset(7, 11, 13)
    third = None if opset > 7 and d.happens(0.3) else _x(d.floats(bias))
    return Case("Gemm", opset, (_x(a), _x(b), third), attributes)


def _matmul(d: Chance) -> Case:
    m, k, n = d.sizes(3, least=0 if d.happens(0.1) else 1)
    lead = d.sizes(d.integer(0, 2), 3)
    a = d.floats((*(1 if d.happens(0.3) else s for s in lead), m, k))
    b = d.floats((*lead[d.integer(0, len(lead)) :], k, n))
    if d.happens(0.15):
        a = d.floats((k,))
    elif d.happens(0.15):
        b = d.floats((k,))
    return Case("MatMul", d.opset(9, 13), (_x(a), _x(b)))


# Convolutions and pools


def _window(d: Chance, rank: int, kernel: Sequence[int]) -> dict[str, Any]:
    """Return strides, dilations and paddings of a window; odd and unequal ones, too."""
    some = d.some(
        strides=lambda: [d.integer(1, 3) for _ in range(rank)],
        dilations=lambda: [d.integer(1, 2) for _ in range(rank)],
    )
    strides = some.get("strides", [1] * rank)
    is_plain = set(some.get("dilations", [1])) == {1}
    is_plain &= all(k >= s for k, s in zip(kernel, strides, strict=True))
    if d.happens(0.35) and is_plain:
        # onnxruntime and the reference leave dilations out of the padding, and the reference takes
        # elements away where a window is smaller than its stride.
        some["auto_pad"] = d.choice(("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"))
    if some.get("auto_pad", "NOTSET") == "NOTSET" and d.happens(0.7):
        some["pads"] = [d.integer(0, max(kernel[i % rank] - 1, 0)) for i in range(2 * rank)]
    return some


def _conv(d: Chance) -> Case:
    rank = d.choice((1, 2, 2, 2, 3))
    groups = d.choice((1, 1, 2, 3))
    ins, outs = groups * d.integer(1, 3), groups * d.integer(1, 3)
    sizes = d.sizes(rank, 7 if rank < 3 else 5)
    kernel = d.sizes(rank, 3)
    attributes = _window(d, rank, kernel) | {"group": groups}
    attributes |= d.some(kernel_shape=lambda: list(kernel))
    operands = [
        _x(d.floats((d.integer(1, 2), ins, *sizes))),
        _c(d.floats((outs, ins // groups, *kernel))),
    ]
    if d.happens():
        operands.append(_c(d.floats((outs,))))
    return Case("Conv", d.opset(8, 11), tuple(operands), attributes)


def _conv_transpose(d: Chance) -> Case:
    rank = d.choice((1, 2, 2, 2))
    groups = d.choice((1, 1, 2))
    ins, outs = groups * d.integer(1, 3), d.integer(1, 3)
    sizes, kernel = d.sizes(rank, 5), d.sizes(rank, 4)
    attributes = _window(d, rank, kernel) | {"group": groups}
    attributes |= d.some(kernel_shape=lambda: list(kernel))
    strides = attributes.get("strides", [1] * rank)
    dilations = attributes.get("dilations", [1] * rank)
    if d.happens(0.5):
        full = [
            (n - 1) * s + (k - 1) * gap + 1
            for n, k, s, gap in zip(sizes, kernel, strides, dilations, strict=True)
        ]
        attributes["output_shape"] = [max(1, n - d.integer(0, 3)) for n in full]
        attributes.pop("pads", None)
    if d.happens(0.4):
        attributes["output_padding"] = [
            d.integer(0, max(s, gap) - 1) for s, gap in zip(strides, dilations, strict=True)
        ]
    operands = [_x(d.floats((d.integer(1, 2), ins, *sizes))), _c(d.floats((ins, outs, *kernel)))]
    if d.happens():
        operands.append(_c(d.floats((outs * groups,))))
    return Case("ConvTranspose", d.opset(8, 11), tuple(operands), attributes)


def _pool(d: Chance) -> Case:
    name = d.choice(("MaxPool", "AveragePool", "LpPool"))
    rank = d.choice((1, 2, 2, 3))
    sizes, kernel = d.sizes(rank, 7 if rank < 3 else 5), d.sizes(rank, 3)
    attributes = _window(d, rank, kernel) | {"kernel_shape": list(kernel)}
    opset = d.opset(8, 10, 11, 12, 19, 22)
    if opset < {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[name]:
        attributes.pop("dilations", None)
    if opset >= {"MaxPool": 10, "AveragePool": 10, "LpPool": 18}[name]:
        attributes |= d.some(ceil_mode=lambda: d.integer(0, 1))
    if name == "AveragePool":
        attributes |= d.some(count_include_pad=lambda: d.integer(0, 1))
    if name == "LpPool":
        attributes |= d.some(p=lambda: d.integer(1, 3))
    return Case(
        name, opset, (_x(d.floats((d.integer(1, 2), d.integer(1, 3), *sizes))),), attributes
    )


def _global_pool(d: Chance) -> Case:
    name = d.choice(("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"))
    attributes = d.some(p=lambda: d.integer(1, 3)) if name == "GlobalLpPool" else {}
    return Case(name, 11, (_x(d.floats(d.sizes(d.integer(3, 5), 4))),), attributes)


# Normalisations


def _batch_norm(d: Chance) -> Case:
    shape = d.sizes(d.integer(2, 5), 4)
    parts = [_x(d.floats((shape[1],))) for _ in range(3)]
    variance = _x(np.abs(d.floats((shape[1],))) + np.float32(0.2))
    attributes = d.some(epsilon=lambda: 0.1, momentum=lambda: 0.5)
    opset, n_outputs = d.opset(7, 9, 13, 14, 15), 1
    if opset >= 14 and d.happens(0.4):
        attributes["training_mode"], n_outputs = 1, 3
    if opset < 14 and d.happens(0.2):
        n_outputs = 5
    return Case(
        "BatchNormalization", opset, (_x(d.floats(shape)), *parts, variance), attributes, n_outputs
    )


def _instance_norm(d: Chance) -> Case:
    shape = d.sizes(d.integer(3, 5), 4)
    scale, bias = _x(d.floats((shape[1],))), _x(d.floats((shape[1],)))
    return Case(
        "InstanceNormalization",
        d.opset(6, 22),
        (_x(d.floats(shape)), scale, bias),
        d.some(epsilon=lambda: 0.1),
    )


def _layer_norm(d: Chance) -> Case:
    shape = d.sizes(d.integer(1, 4), 5)
    axis = d.axis(len(shape))
    inner = shape[axis:]
    operands = [_x(d.floats(shape)), _x(d.floats(inner))]
    if d.happens():
        operands.append(_x(d.floats(inner)))
    attributes = d.some(epsilon=lambda: 0.1) | {"axis": axis}
    return Case("LayerNormalization", 17, tuple(operands), attributes, d.choice((1, 1, 3)))


def _group_norm(d: Chance) -> Case:
    groups, per = d.integer(1, 3), d.integer(1, 3)
    shape = (d.integer(1, 2), groups * per, *d.sizes(d.integer(1, 3), 4))
    opset = d.opset(21)
    scale, bias = _x(d.floats((shape[1],))), _x(d.floats((shape[1],)))
    attributes = d.some(epsilon=lambda: 0.1) | {"num_groups": groups}
    return Case("GroupNormalization", opset, (_x(d.floats(shape)), scale, bias), attributes)


def _other_norm(d: Chance) -> Case:
    name = d.choice(("LRN", "LpNormalization", "MeanVarianceNormalization", "RMSNormalization"))
    if name == "LRN":
        shape = d.sizes(4, 5)
        attributes = d.some(alpha=lambda: 0.3, beta=lambda: 0.6, bias=lambda: 1.5)
        return Case(name, 13, (_x(d.floats(shape)),), attributes | {"size": d.integer(1, 6)})
    if name == "LpNormalization":
        shape = d.sizes(d.integer(1, 4), 5)
        return Case(
            name,
            1,
            (_x(d.floats(shape)),),
            d.some(axis=lambda: d.axis(len(shape)), p=lambda: d.integer(1, 2)),
        )
    if name == "MeanVarianceNormalization":
        return Case(
            name, d.opset(9, 13), (_x(d.floats(d.sizes(4, 4))),), d.some(axes=lambda: [0, 2])
        )
    shape = d.sizes(d.integer(1, 4), 5)
    axis = d.axis(len(shape))
    attributes = d.some(epsilon=lambda: 0.1) | {"axis": axis}
    return Case(name, 23, (_x(d.floats(shape)), _x(d.floats(shape[axis:]))), attributes)


def _softmax(d: Chance) -> Case:
    shape = d.shape(1, 4)
    name = d.choice(("Softmax", "LogSoftmax", "Hardmax"))
    axis = d.integer(0, len(shape) - 1) if (old := d.happens(0.3)) else d.axis(len(shape))
    opset = d.opset(8, 11) if old else 13
    return Case(name, opset, (_x(d.floats(shape)),), d.some(axis=lambda: axis))


# Layout


def _transpose(d: Chance) -> Case:
    shape = d.shape(0, 5, 4)
    perm = [int(a) for a in d.random.permutation(len(shape))]
    return Case("Transpose", 13, (_x(d.floats(shape)),), d.some(perm=lambda: perm) if shape else {})


def _reshape(d: Chance) -> Case:
    shape = d.shape(1, 4, 4)
    total = int(np.prod(shape))
    expected = [int(n) for n in d.random.permutation(np.array(shape))]
    kind = d.choice(("permuted", "flat", "minus", "copy", "scalar", "zero"))
    attributes: dict[str, Any] = {}
    opset = d.opset(13, 14, 19)
    if kind == "flat":
        expected = [total]
    elif kind == "minus" and total:
        expected[d.integer(0, len(expected) - 1)] = -1
    elif kind == "copy":
        expected = [0 if d.happens() else n for n in shape]
    elif kind == "scalar" and total == 1:
        expected = []
    elif kind == "zero" and opset >= 14 and not total:
        attributes, expected = {"allowzero": 1}, [0, *expected]
    return Case("Reshape", opset, (_x(d.floats(shape)), _c(expected)), attributes)


def _flatten(d: Chance) -> Case:
    shape = d.shape(1, 4)
    axis = d.integer(-len(shape), len(shape))
    return Case("Flatten", d.opset(11, 13), (_x(d.floats(shape)),), d.some(axis=lambda: axis))


def _squeeze(d: Chance) -> Case:
    shape = tuple(1 if d.happens() else n for n in d.shape(1, 5))
    if d.happens():
        units = [a - len(shape) * d.happens() for a, n in enumerate(shape) if n == 1]
        operands = (
            (_x(d.floats(shape)), _c(units)) if units and d.happens(0.7) else (_x(d.floats(shape)),)
        )
        return Case("Squeeze", 13, operands)
    axes = d.axes(len(shape) + 2, least=1)[:2]
    rank = len(shape) + len(axes)
    axes = sorted({a % rank for a in axes})
    rank = len(shape) + len(axes)
    axes = [a for a in axes if a < rank]
    return Case("Unsqueeze", 13, (_x(d.floats(shape)), _c([a - rank * d.happens() for a in axes])))


def _expand(d: Chance) -> Case:
    shape = d.shape(0, 4, 4)
    value = tuple(1 if d.happens(0.4) else n for n in shape[d.integer(0, len(shape)) :])
    expected = [1 if d.happens(0.2) else n for n in shape]
    return Case("Expand", d.opset(8, 13), (_x(d.floats(value)), _c(expected)))


def _tile(d: Chance) -> Case:
    shape = d.shape(1, 4, 4)
    repeats = [d.choice((1, 1, 2, 3, 0) if d.happens(0.1) else (1, 1, 2, 3)) for _ in shape]
    return Case("Tile", d.opset(6, 13), (_x(d.floats(shape)), _c(repeats)))


def _slice(d: Chance) -> Case:
    shape = d.shape(1, 4)
    axes = d.axes(len(shape), least=1)
    starts = [d.integer(-8, 8) for _ in axes]
    ends = [d.choice((d.integer(-9, 9), 2**62, -(2**62))) for _ in axes]
    steps = [d.choice((1, 2, 3, -1, -1, -2)) for _ in axes]
    if d.happens(0.2):
        return Case(
            "Slice", 9, (_x(d.floats(shape)),), {"axes": axes, "starts": starts, "ends": ends}
        )
    operands: list[Operand | None] = [_x(d.floats(shape)), _c(starts), _c(ends), _c(axes)]
    if d.happens(0.7):
        operands.append(_c(steps))
    if len(axes) == len(shape) and d.happens():
        operands[3:] = [None, _c(steps)] if d.happens() else []
    return Case("Slice", d.opset(11, 13), tuple(operands))


def _concat(d: Chance) -> Case:
    shape = list(d.shape(1, 4))
    axis = d.axis(len(shape))
    operands = []
    for _ in range(d.integer(1, 4)):
        shape[axis] = d.integer(0 if d.happens(0.2) else 1, 4)
        operands.append(_x(d.floats(shape)))
    return Case("Concat", d.opset(4, 13), tuple(operands), {"axis": axis})


def _split(d: Chance) -> Case:
    shape = list(d.shape(1, 4))
    axis = d.axis(len(shape))
    parts = [d.integer(0 if d.happens(0.2) else 1, 3) for _ in range(d.integer(1, 4))]
    opset = d.opset(11, 13, 18)
    attributes = {"axis": axis}
    if d.happens(0.3):
        n = d.integer(1, 3)
        shape[axis] = n * d.integer(1, 3) - (d.integer(0, n - 1) if opset == 18 else 0)
        if opset == 18:
            attributes["num_outputs"] = n
        return Case("Split", opset, (_x(d.floats(shape)),), attributes, n)
    shape[axis] = sum(parts)
    if opset == 11:
        return Case("Split", 11, (_x(d.floats(shape)),), attributes | {"split": parts}, len(parts))
    return Case("Split", opset, (_x(d.floats(shape)), _c(parts)), attributes, len(parts))


def _pad(d: Chance) -> Case:
    shape = d.shape(1, 4)
    mode = d.choice(("constant", "constant", "reflect", "edge", "wrap"))
    opset = 19 if mode == "wrap" else d.opset(11, 13, 18)
    low = -2 if d.happens(0.3) else 0
    pads = [
        d.integer(low, min(2, max(n - 1, 0)) if mode != "constant" else 3) for n in (*shape, *shape)
    ]
    operands: list[Operand | None] = [_x(d.floats(shape)), _c(pads)]
    if mode == "constant" and d.happens():
        operands.append(_c(np.asarray(1.5, np.float32)))
    if opset >= 18 and d.happens(0.4):
        axes = d.axes(len(shape), least=1)
        picked = [pads[a % len(shape)] for a in axes] + [
            pads[a % len(shape) + len(shape)] for a in axes
        ]
        operands = [operands[0], _c(picked), operands[2] if len(operands) > 2 else None, _c(axes)]
    return Case(
        "Pad",
        opset,
        tuple(operands),
        d.some(mode=lambda: mode) if mode == "constant" else {"mode": mode},
    )


def _blocks(d: Chance) -> Case:
    n, c, h, w = d.sizes(4, 3)
    block = d.integer(1, 3)
    if d.happens():
        attributes = d.some(mode=lambda: d.choice(("DCR", "CRD"))) | {"blocksize": block}
        return Case(
            "DepthToSpace", d.opset(11, 13), (_x(d.floats((n, c * block**2, h, w))),), attributes
        )
    return Case(
        "SpaceToDepth", 13, (_x(d.floats((n, c, h * block, w * block))),), {"blocksize": block}
    )


def _resize(d: Chance) -> Case:
    shape = d.sizes(4, 4)
    mode = d.choice(("nearest", "linear", "cubic"))
    attributes: dict[str, Any] = {"mode": mode}
    attributes |= d.some(
        coordinate_transformation_mode=lambda: d.choice(
            ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
        )
    )
    if mode == "nearest":
        attributes |= d.some(
            nearest_mode=lambda: d.choice(
                ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
            )
        )
    if mode == "cubic":
        attributes |= d.some(cubic_coeff_a=lambda: -0.5, exclude_outside=lambda: d.integer(0, 1))
    scale = [1.0, 1.0, d.choice((1.0, 2.0, 0.5, 1.5)), d.choice((1.0, 2.0, 3.0, 0.6))]
    if d.happens(0.4):
        sizes = [shape[0], shape[1], d.integer(1, 7), d.integer(1, 7)]
        return Case(
            "Resize", d.opset(13, 19), (_x(d.floats(shape)), None, None, _c(sizes)), attributes
        )
    return Case(
        "Resize", d.opset(13, 19), (_x(d.floats(shape)), None, _c(scale, np.float32)), attributes
    )


# Indices


def _gather(d: Chance) -> Case:
    shape = d.sizes(d.integer(1, 4), 5)
    axis = d.axis(len(shape))
    n = shape[axis]
    index = d.integers(d.shape(0, 3, 4), -n, n - 1, d.choice((np.int64, np.int32)))
    return Case(
        "Gather",
        d.opset(11, 13),
        (_x(d.floats(shape)), Operand(index, d.happens())),
        d.some(axis=lambda: axis) if axis in (0, -len(shape)) else {"axis": axis},
    )


def _gather_elements(d: Chance) -> Case:
    shape = d.sizes(d.integer(1, 4), 5)
    axis = d.axis(len(shape))
    n = shape[axis]
    smaller = [d.integer(1, s) if d.happens(0.4) else s for s in shape]
    smaller[axis] = d.integer(1, 6)
    index = d.integers(smaller, -n, n - 1, np.int64)
    return Case(
        "GatherElements",
        d.opset(11, 13),
        (_x(d.floats(shape)), Operand(index, d.happens())),
        {"axis": axis},
    )


def _scatter_elements(d: Chance) -> Case:
    shape = d.sizes(d.integer(1, 3), 5)
    axis = d.axis(len(shape))
    n = shape[axis]
    opset = d.opset(11, 13, 16, 18)
    smaller = [d.integer(1, s) if d.happens(0.4) else s for s in shape]
    smaller[axis] = d.integer(1, n)
    rows = d.random.permuted(
        np.broadcast_to(
            np.arange(n).reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))]),
            shape,
        ),
        axis=axis % len(shape),
    )
    index = rows[tuple(slice(s) for s in smaller)].astype(np.int64)
    index = np.where(d.random.random(index.shape) < 0.3, index - n, index)
    attributes: dict[str, Any] = {"axis": axis}
    if opset >= 16:
        modes = ("none", "add", "mul") if opset < 18 else ("none", "add", "mul", "max", "min")
        attributes |= d.some(reduction=lambda: d.choice(modes))
    return Case(
        "ScatterElements",
        opset,
        (_x(d.floats(shape)), Operand(index, d.happens()), _x(d.floats(smaller))),
        attributes,
    )


def _gather_nd(d: Chance) -> Case:
    shape = d.sizes(d.integer(1, 4), 4)
    batch = d.integer(0, len(shape) - 1) if d.happens(0.4) else 0
    depth = d.integer(1, len(shape) - batch)
    lead = (*shape[:batch], *d.sizes(d.integer(0 if batch else 1, 2), 3))
    columns = [d.integers(lead, -n, n - 1, np.int64) for n in shape[batch : batch + depth]]
    index = np.stack(columns, axis=-1)
    return Case(
        "GatherND",
        d.opset(12, 13),
        (_x(d.floats(shape)), Operand(index, d.happens())),
        {"batch_dims": batch} if batch or d.happens() else {},
    )


def _arg(d: Chance) -> Case:
    shape = d.sizes(d.integer(1, 4), 5)
    x = np.round(d.floats(shape) * 2).astype(np.float32)
    attributes = d.some(
        axis=lambda: d.axis(len(shape)),
        keepdims=lambda: d.integer(0, 1),
        select_last_index=lambda: d.integer(0, 1),
    )
    return Case(d.choice(("ArgMax", "ArgMin")), d.opset(12, 13), (_x(x),), attributes)


def _top_k(d: Chance) -> Case:
    shape = d.sizes(d.integer(1, 4), 5)
    axis = d.axis(len(shape))
    k = d.integer(1, shape[axis])
    attributes = d.some(largest=lambda: d.integer(0, 1)) | {"axis": axis, "sorted": 1}
    return Case("TopK", 11, (_x(d.floats(shape)), _c([k])), attributes, 2)


def _cum_sum(d: Chance) -> Case:
    shape = d.shape(1, 4)
    axis = _c(np.asarray(d.axis(len(shape)), np.int64))
    attributes = d.some(exclusive=lambda: d.integer(0, 1), reverse=lambda: d.integer(0, 1))
    return Case("CumSum", d.opset(11, 14), (_x(d.floats(shape)), axis), attributes)


def _one_hot(d: Chance) -> Case:
    shape = d.sizes(d.integer(1, 3), 4)
    depth = d.integer(1, 5)
    index = d.integers(shape, -depth, depth - 1, np.int64)
    values = _c(d.floats((2,)))
    attributes = d.some(axis=lambda: d.integer(-len(shape) - 1, len(shape)))
    return Case("OneHot", 11, (_x(index), _c([depth]), values), attributes)


def _trilu(d: Chance) -> Case:
    shape = d.shape(2, 4)
    operands = (
        (_x(d.floats(shape)),)
        if d.happens(0.3)
        else (_x(d.floats(shape)), _c(np.asarray(d.integer(-7, 7))))
    )
    return Case("Trilu", 14, operands, d.some(upper=lambda: d.integer(0, 1)))


def _reverse_sequence(d: Chance) -> Case:
    shape = d.sizes(d.integer(2, 4), 5)
    time = d.integer(0, 1)
    lengths = d.integers((shape[1 - time],), 1, shape[time], np.int64)
    attributes = {"time_axis": time, "batch_axis": 1 - time}
    return Case("ReverseSequence", 10, (_x(d.floats(shape)), _c(lengths)), attributes)


# Element by element


_FLOAT_ATTRIBUTES: dict[str, dict[str, float]] = {
    "LeakyRelu": {"alpha": 0.3},
    "Elu": {"alpha": 1.7},
    "Selu": {"alpha": 1.2, "gamma": 0.7},
    "Celu": {"alpha": 1.6},
    "HardSigmoid": {"alpha": 0.3, "beta": 0.4},
    "ThresholdedRelu": {"alpha": 0.4},
    "Shrink": {"lambd": 0.6, "bias": 0.2},
}


def _activation(d: Chance) -> Case:
    name = d.choice(tuple(_FLOAT_ATTRIBUTES))
    attributes = {key: value for key, value in _FLOAT_ATTRIBUTES[name].items() if d.happens(0.7)}
    return Case(
        name,
        {"Celu": 12, "ThresholdedRelu": 10, "Shrink": 9}.get(name, 6),
        (_x(d.floats(d.shape(0, 4))),),
        attributes,
    )


def _gelu(d: Chance) -> Case:
    return Case(
        "Gelu",
        20,
        (_x(d.floats(d.shape(0, 3))),),
        d.some(approximate=lambda: d.choice(("none", "tanh"))),
    )


def _clip(d: Chance) -> Case:
    x = _x(d.floats(d.shape(0, 4)))
    low, high = (np.float32(d.floats(())) for _ in range(2))
    if d.happens(0.3):
        return Case(
            "Clip",
            6,
            (x,),
            d.some(min=lambda: float(min(low, high)), max=lambda: float(max(low, high))),
        )
    bounds = [None if d.happens(0.3) else _c(np.asarray(b)) for b in (low, high)]
    return Case("Clip", d.opset(12, 13), (x, *bounds))


def _mod(d: Chance) -> Case:
    shape = d.shape(0, 3)
    if d.happens():
        divisor = d.floats(shape)
        divisor = np.where(np.abs(divisor) < 0.2, np.float32(0.7), divisor)
        return Case("Mod", 13, (_x(d.floats(shape, 4)), _x(divisor)), {"fmod": 1})
    numbers = d.integers(shape, 1, 5) * d.choice((-1, 1))
    return Case(
        "Mod",
        13,
        (_x(d.integers(shape)), _x(numbers.astype(np.int32))),
        d.some(fmod=lambda: d.integer(0, 1)),
    )


def _binary(d: Chance) -> Case:
    shape = d.shape(0, 4, 4)
    sides = []
    for _ in range(2):
        part = shape[d.integer(0, len(shape)) :] if d.happens(0.4) else shape
        sides.append(_x(d.floats(tuple(1 if d.happens(0.3) else n for n in part))))
    return Case(
        d.choice(("Add", "Sub", "Mul", "Max", "Min", "PRelu", "Less", "GreaterOrEqual")),
        16,
        tuple(sides),
    )


def _many(d: Chance) -> Case:
    shape = d.shape(0, 3, 4)
    sides = [
        _x(d.floats(tuple(1 if d.happens(0.3) else n for n in shape[d.integer(0, len(shape)) :])))
        for _ in range(d.integer(1, 4))
    ]
    return Case(d.choice(("Sum", "Mean", "Max", "Min")), 13, tuple(sides))


def _where(d: Chance) -> Case:
    shape = d.shape(0, 4, 4)
    sides = [tuple(1 if d.happens(0.3) else n for n in shape) for _ in range(3)]
    flag = d.integers(sides[0], 0, 1).astype(bool)
    return Case("Where", 16, (_x(flag), _x(d.floats(sides[1])), _x(d.floats(sides[2]))))


def _shape(d: Chance) -> Case:
    ends = d.some(start=lambda: d.integer(-5, 5), end=lambda: d.integer(-5, 5))
    return Case("Shape", 15, (_x(d.floats(d.shape(0, 4))),), ends)


def _dropout(d: Chance) -> Case:
    x = _x(d.floats(d.shape(0, 3)))
    if d.happens():
        return Case("Dropout", d.opset(7, 10), (x,), d.some(ratio=lambda: 0.4))
    ratio = None if d.happens() else _c(np.asarray(0.3, np.float32))
    mode = () if d.happens() else (_c(np.asarray(False)),)
    return Case("Dropout", d.opset(12, 13), (x, ratio, *mode))


# Recurrent layers and losses


def _recurrent(d: Chance) -> Case:
    name = d.choice(("LSTM", "GRU", "RNN"))
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[name]
    steps, batch, ins, hidden = d.integer(1, 4), d.integer(1, 3), d.integer(1, 4), d.integer(1, 4)
    direction = d.choice(("forward", "reverse", "bidirectional"))
    n = 2 if direction == "bidirectional" else 1
    attributes: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    if name == "GRU":
        attributes |= d.some(linear_before_reset=lambda: d.integer(0, 1))
    attributes |= d.some(clip=lambda: 0.8) if d.happens(0.3) else {}
    if d.happens(0.3):
        every = {
            "LSTM": ["Sigmoid", "Tanh", "Relu"],
            "GRU": ["HardSigmoid", "Softsign"],
            "RNN": ["Relu"],
        }[name]
        attributes["activations"] = every * n
    operands: list[Operand | None] = [
        _x(d.floats((steps, batch, ins))),
        _c(d.floats((n, gates * hidden, ins), 0.5)),
        _c(d.floats((n, gates * hidden, hidden), 0.5)),
        _c(d.floats((n, 2 * gates * hidden), 0.5)) if d.happens(0.7) else None,
        Operand(d.integers((batch,), 1, steps, np.int32), d.happens()) if d.happens(0.4) else None,
        _x(d.floats((n, batch, hidden))) if d.happens() else None,
    ]
    if name == "LSTM":
        operands.append(_x(d.floats((n, batch, hidden))) if d.happens() else None)
        operands.append(_c(d.floats((n, 3 * hidden), 0.5)) if d.happens(0.3) else None)
    return Case(name, d.opset(7, 14), tuple(operands), attributes, 3 if name == "LSTM" else 2)


def _loss(d: Chance) -> Case:
    n, c = d.integer(1, 4), d.integer(2, 4)
    rest = d.sizes(d.integer(0, 2), 3)
    labels = d.integers((n, *rest), 0, c - 1, np.int64)
    attributes = d.some(reduction=lambda: d.choice(("mean", "sum", "none")))
    if d.happens(0.3):
        attributes["ignore_index"] = d.integer(0, c - 1)
    name = d.choice(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"))
    weight = (_x(np.abs(d.floats((c,))) + np.float32(0.1)),) if d.happens() else ()
    return Case(name, 13, (_x(d.floats((n, c, *rest))), _x(labels), *weight), attributes)


DRAWERS: dict[str, Callable[[Chance], Case]] = {
    drawer.__name__.strip("_"): drawer
    for drawer in (
        *(_einsum, _reduce, _gemm, _matmul, _conv, _conv_transpose, _pool, _global_pool),
        *(_batch_norm, _instance_norm, _layer_norm, _group_norm, _other_norm, _softmax),
        *(_transpose, _reshape, _flatten, _squeeze, _expand, _tile, _slice, _concat, _split, _pad),
        *(_blocks, _resize, _gather, _gather_elements, _scatter_elements, _gather_nd, _arg),
        *(_top_k, _cum_sum, _one_hot, _trilu, _reverse_sequence, _activation, _gelu, _clip, _mod),
        *(_binary, _many, _where, _shape, _dropout, _recurrent, _loss),
    )
}


def drawn_case(name: str, seed: int) -> Case:
    """Return the case of a drawer and a seed."""
    key = sum(ord(c) * 31**i for i, c in enumerate(name)) % 2**32
    chance = Chance(np.random.default_rng([seed, key]))
    case = DRAWERS[name](chance)
    if chance.happens(0.12):  # folded, not computed
        constants = [None if o is None else Operand(o.array, True) for o in case.operands]
        return replace(case, operands=tuple(constants))
    return case


def model_of_case(case: Case) -> onnx.ModelProto:
    """Return a model of the node; operands that are constants are initializers."""
    names = ["" if o is None else f"x{i}" for i, o in enumerate(case.operands)]
    while names and not names[-1]:
        names.pop()
    outputs = [f"y{i}" for i in range(case.n_outputs)]
    node = helper.make_node(case.op_type, names, outputs, "node", **case.attributes)
    values = [(name, o) for name, o in zip(names, case.operands, strict=False) if o is not None]
    infos = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(o.array.dtype), o.array.shape
        )
        for name, o in values
        if not o.is_constant
    ]
    weights = [numpy_helper.from_array(o.array, name) for name, o in values if o.is_constant]
    graph = helper.make_graph(
        [node], "case", infos, [onnx.ValueInfoProto(name=name) for name in outputs], weights
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", case.opset)], ir_version=9
    )
    return onnx.shape_inference.infer_shapes(model, data_prop=True)
