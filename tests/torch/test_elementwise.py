"""Gradients of elementwise functions and activations, compared with PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.torch.compared import Case, agree, case, drawn, ids, single
from torch.nn import functional

_SMALL = (drawn((3, 5)) / 2).astype(np.float32)
_POSITIVE = np.abs(drawn((3, 5)))
_KINKS = np.array([-3, -2.5, -1, -0.5, 0, 0, 0.5, 1, 2.5, 3], np.float32)

#: Of one operand: the function, and what it takes.
_UNARY: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], np.ndarray]] = {
    "Abs": (torch.abs, drawn((3, 5))),
    "Acos": (torch.acos, _SMALL),
    "Acosh": (torch.acosh, _POSITIVE + np.float32(1.1)),
    "Asin": (torch.asin, _SMALL),
    "Asinh": (torch.asinh, drawn((3, 5))),
    "Atan": (torch.atan, drawn((3, 5))),
    "Atanh": (torch.atanh, _SMALL),
    "Cos": (torch.cos, drawn((3, 5))),
    "Cosh": (torch.cosh, drawn((3, 5))),
    "Elu": (functional.elu, drawn((3, 5))),
    "Erf": (torch.erf, drawn((3, 5))),
    "Exp": (torch.exp, drawn((3, 5))),
    "Gelu": (functional.gelu, drawn((3, 5))),
    "HardSigmoid": (lambda x: torch.clamp(0.2 * x + 0.5, 0, 1), drawn((3, 5)) * 3),
    "HardSwish": (functional.hardswish, drawn((3, 5)) * 3),
    "Identity": (lambda x: x * 1, drawn((3, 5))),
    "LeakyRelu": (lambda x: functional.leaky_relu(x, 0.01), drawn((3, 5))),
    "Log": (torch.log, _POSITIVE),
    "Mish": (functional.mish, drawn((3, 5))),
    "Neg": (torch.neg, drawn((3, 5))),
    "Reciprocal": (torch.reciprocal, drawn((3, 5))),
    "Relu": (torch.relu, drawn((3, 5))),
    "Selu": (functional.selu, drawn((3, 5))),
    "Sigmoid": (torch.sigmoid, drawn((3, 5))),
    "Sin": (torch.sin, drawn((3, 5))),
    "Sinh": (torch.sinh, drawn((3, 5))),
    "Softplus": (functional.softplus, drawn((3, 5))),
    "Softsign": (functional.softsign, drawn((3, 5))),
    "Sqrt": (torch.sqrt, _POSITIVE),
    "Tan": (torch.tan, drawn((3, 5))),
    "Tanh": (torch.tanh, drawn((3, 5))),
}

#: Functions whose form differs near 0 and far from it.
_FAR: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "Asinh": torch.asinh,
    "Cosh": torch.cosh,
    "Gelu": functional.gelu,
    "Mish": functional.mish,
    "Sinh": torch.sinh,
    "Softplus": functional.softplus,
}

#: Functions that are flat nearly everywhere, times their operand.
_FLAT: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "Ceil": torch.ceil,
    "Floor": torch.floor,
    "Round": torch.round,
    "Sign": torch.sign,
}

#: At the points where two lines meet.
_AT_KINKS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], dict[str, Any]]] = {
    "Abs": (torch.abs, {}),
    "Celu": (lambda x: functional.celu(x, 1.5), {"alpha": 1.5}),
    "Elu": (lambda x: functional.elu(x, 0.7), {"alpha": 0.7}),
    "LeakyRelu": (lambda x: functional.leaky_relu(x, 0.2), {"alpha": 0.2}),
    "Relu": (torch.relu, {}),
    "Selu": (functional.selu, {}),
    "Shrink": (lambda x: functional.softshrink(x, 0.5), {"lambd": 0.5, "bias": 0.5}),
    "Softplus": (functional.softplus, {}),
    "ThresholdedRelu": (lambda x: functional.threshold(x, 1.0, 0.0), {"alpha": 1.0}),
}

_ATTRIBUTES = [
    single("elu-alpha", "Elu", {"x": (3, 5)}, lambda x: functional.elu(x, 0.3), alpha=0.3),
    single("celu-alpha", "Celu", {"x": (3, 5)}, lambda x: functional.celu(x, 0.3), alpha=0.3),
    single(
        "gelu-tanh",
        "Gelu",
        {"x": (3, 5)},
        lambda x: functional.gelu(x, approximate="tanh"),
        approximate="tanh",
    ),
    single(
        "hard-sigmoid-line",
        "HardSigmoid",
        {"x": (3, 5)},
        lambda x: torch.clamp(0.3 * x + 0.4, 0, 1),
        alpha=0.3,
        beta=0.4,
    ),
    single("swish", "Swish", {"x": (3, 5)}, functional.silu, opset=24),
    single(
        "swish-alpha",
        "Swish",
        {"x": (3, 5)},
        lambda x: x * torch.sigmoid(1.7 * x),
        opset=24,
        alpha=1.7,
    ),
    single(
        "prelu",
        "PRelu",
        {"x": (2, 3, 4), "slope": (3, 1)},
        lambda x, slope: functional.prelu(x, slope.reshape(-1)),
    ),
    single(
        "prelu-at-0",
        "PRelu",
        {"x": np.array([[0, 0, -1, 1]], np.float32), "slope": (1,)},
        functional.prelu,
    ),
    single("mod-fmod", "Mod", {"a": (3, 5), "b": (3, 5)}, torch.fmod, fmod=1),
    single("relu-integers", "Relu", {"x": _KINKS}, torch.relu),
]

_BINARY = {
    "Add": torch.add,
    "Div": torch.div,
    "Max": torch.maximum,
    "Min": torch.minimum,
    "Mul": torch.mul,
    "Sub": torch.sub,
}

#: Shapes of operands that broadcast.
_SHAPES = {
    "alike": ((3, 5), (3, 5)),
    "row": ((3, 5), (5,)),
    "column": ((3, 5), (3, 1)),
    "both": ((3, 1), (1, 5)),
    "scalar": ((), (3, 5)),
    "outer": ((2, 1, 4), (3, 1)),
    "ones": ((1,), (1, 1)),
}

_POWERS = [
    single("power", "Pow", {"a": _POSITIVE, "b": (3, 5)}, torch.pow),
    single("power-row", "Pow", {"a": _POSITIVE, "b": (5,)}, torch.pow),
    single(
        "power-of-0",
        "Pow",
        {"a": np.zeros(4, np.float32), "b": np.array([0, 1, 2, 3], np.float32)},
        torch.pow,
    ),
    single(
        "power-of-negative",
        "Pow",
        {"a": -_POSITIVE[0]},
        lambda a: torch.pow(a, torch.tensor([0.0, 1, 2, 3, -2])),
        known={"b": np.array([0, 1, 2, 3, -2], np.float32)},
    ),
    single(
        "power-of-0-known",
        "Pow",
        {"a": np.zeros(4, np.float32)},
        lambda a: torch.pow(a, torch.tensor([0.0, 1, 2, 3])),
        known={"b": np.array([0, 1, 2, 3], np.float32)},
    ),
    single("square", "Pow", {"a": (3, 5)}, lambda a: a**2, known={"b": np.array(2, np.float32)}),
    single("cube", "Pow", {"a": (3, 5)}, lambda a: a**3, known={"b": np.array(3, np.float32)}),
    single(
        "power-half",
        "Pow",
        {"a": _POSITIVE},
        lambda a: a**0.5,
        known={"b": np.array(0.5, np.float32)},
    ),
    single("power-integers", "Pow", {"a": (3, 5)}, lambda a: a**3, known={"b": np.array(3)}),
    single(
        "base-known",
        "Pow",
        {"b": (3, 5)},
        lambda b: torch.pow(torch.tensor(2.5), b),
        known={"a": np.array(2.5, np.float32)},
        inputs="a,b",
    ),
]

_TIES = np.array([[1, 2, 2, -1], [0, 0, 3, 3]], np.float32)
_OTHERS = np.array([[1, 2, 1, -1], [0, 1, 3, 2]], np.float32)

_OTHER = [
    *(
        single(f"{kind}-ties", kind, {"a": _TIES, "b": _OTHERS}, function)
        for kind, function in (("Max", torch.maximum), ("Min", torch.minimum))
    ),
    *(
        single(f"{kind}-same", kind, {"a": _POSITIVE}, lambda a, f=function: f(a, a), inputs="a,a")
        for kind, function in (*_BINARY.items(), ("Pow", torch.pow))
    ),
    single("max-one", "Max", {"a": (3, 5)}, lambda a: a * 1),
    single(
        "max-three",
        "Max",
        {"a": (3, 5), "b": (5,), "c": (3, 1)},
        lambda a, b, c: torch.maximum(torch.maximum(a, b), c),
    ),
    single("sum-three", "Sum", {"a": (3, 5), "b": (5,), "c": (3, 1)}, lambda a, b, c: a + b + c),
    single(
        "mean-three",
        "Mean",
        {"a": (3, 5), "b": (5,), "c": (3, 1)},
        lambda a, b, c: (a + b + c) / 3,
    ),
    single("sum-same", "Sum", {"a": (3, 5)}, lambda a: 3 * a, inputs="a,a,a"),
    single(
        "clip",
        "Clip",
        {"x": _KINKS},
        lambda x: torch.clamp(x, -1, 0.5),
        known={"low": np.array(-1, np.float32), "high": np.array(0.5, np.float32)},
    ),
    single(
        "clip-6",
        "Clip",
        {"x": _KINKS},
        lambda x: torch.clamp(x, -1, 0.5),
        opset=6,
        min=-1.0,
        max=0.5,
    ),
    single(
        "clip-low",
        "Clip",
        {"x": _KINKS},
        lambda x: torch.clamp(x, min=-1),
        known={"low": np.array(-1, np.float32)},
    ),
    single(
        "where",
        "Where",
        {"a": (3, 5), "b": (5,)},
        lambda a, b, c: torch.where(c, a, b),
        data={"c": drawn((3, 1)) > 0},
        inputs="c,a,b",
    ),
    single(
        "where-scalar",
        "Where",
        {"a": (1,)},
        lambda a, c: torch.where(c, a, torch.tensor(2.0)),
        data={"c": drawn((3, 4)) > 0},
        known={"b": np.array(2, np.float32)},
        inputs="c,a,b",
    ),
    case(
        "comparison",
        [
            ("Greater", "a,b", "c"),
            ("Cast", "c", "f", {"to": 1}),
            ("Mul", "f,a", "y"),
        ],
        {"a": (3, 5)},
        lambda a, b: torch.where(a > b, a, a * 0),
        data={"b": drawn((3, 5), 1)},
    ),
    case(
        "cast-to-integers",
        [("Cast", "a", "i", {"to": 6}), ("Cast", "i", "f", {"to": 1}), ("Mul", "f,a", "y")],
        {"a": (3, 5)},
        lambda a: a.detach().trunc() * a,
    ),
    case(
        "uses",
        [
            ("Exp", "a", "e"),
            ("Mul", "e,a", "m"),
            ("Add", "m,e", "s"),
            ("Sub", "s,a", "y"),
        ],
        {"a": (3, 5)},
        lambda a: a.exp() * a + a.exp() - a,
    ),
    case(
        "in-place",
        [("Add", "a,b", "h"), ("Relu", "h", "r"), ("Mul", "r,h", "m"), ("Tanh", "m", "y")],
        {"a": (4, 16), "b": (16,)},
        lambda a, b: torch.tanh(torch.relu(a + b) * (a + b)),
    ),
    case(
        "gelu-in-place",
        [("Add", "a,b", "h"), ("Gelu", "h", "g"), ("Sigmoid", "g", "y")],
        {"a": (4, 16), "b": (16,)},
        lambda a, b: torch.sigmoid(functional.gelu(a + b)),
    ),
]

_CASES = [
    *(single(kind, kind, {"x": x}, function) for kind, (function, x) in _UNARY.items()),
    *(
        case(
            kind,
            [(kind, "x", "f"), ("Mul", "f,x", "y")],
            {"x": (3, 5)},
            lambda x, function=function: function(x) * x,
        )
        for kind, function in _FLAT.items()
    ),
    *(
        single(f"{kind}-kinks", kind, {"x": _KINKS}, function, **attributes)
        for kind, (function, attributes) in _AT_KINKS.items()
    ),
    *(
        single(f"{kind}-at-{size:g}", kind, {"x": np.array([-size, size], np.float32)}, function)
        for kind, function in _FAR.items()
        for size in (0, 1e-4, 5, 20, 60)
    ),
    *_ATTRIBUTES,
    *(
        single(f"{kind}-{how}", kind, dict(zip("ab", shapes, strict=True)), function)
        for kind, function in _BINARY.items()
        for how, shapes in _SHAPES.items()
    ),
    *_POWERS,
    *_OTHER,
]


@pytest.mark.parametrize("given_case", _CASES, ids=ids(_CASES))
def test_gradients(given_case: Case, tmp_path: Path):
    agree(given_case, tmp_path)


@st.composite
def _broadcast_pairs(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return two shapes that broadcast."""
    shape = draw(st.lists(st.integers(1, 5), max_size=4))
    pair = []
    for _ in range(2):
        kept = [size if draw(st.booleans()) else 1 for size in shape]
        pair.append(tuple(kept[draw(st.integers(0, len(kept))) :] if kept else ()))
    return pair[0], pair[1]


@settings(max_examples=12, derandomize=True, deadline=None)
@given(shapes=_broadcast_pairs(), kind=st.sampled_from(sorted(_BINARY)))
def test_broadcast_shapes(shapes, kind, tmp_path_factory):
    given_case = single(kind, kind, dict(zip("ab", shapes, strict=True)), _BINARY[kind])
    agree(given_case, tmp_path_factory.mktemp("shapes"))
