"""Elementwise operators of PopART, against numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from scipy import special
from tests.engine.operators.graphcore import (
    Case,
    agrees,
    drawn,
    gradient_of,
    gradients_agree,
    node_of,
)

X, Y = drawn((3, 5)), drawn((3, 5), 1)
_INTS = np.array([7, -7, 5, -5, 0, 12], np.int32)
_DIVISORS = np.array([3, 3, -3, -3, 5, 4], np.int32)
_SEVEN_TENTHS = np.array([0.7], np.float32)
_HALVES = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 0.3, -2.7], np.float32)


def _tanh_gelu(x: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


def _rounded(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.copysign(np.floor(np.abs(x) + 0.5), x))


SMOOTH = [
    Case("Expm1", [X], np.expm1),
    Case("Log1p", [np.abs(X)], np.log1p),
    Case("Square", [X], np.square),
    Case("Gelu", [X], _tanh_gelu, tolerance=1e-5),
    Case("GeluErf", [X], lambda x: x * special.ndtr(x), tolerance=1e-5),
    Case("Swish", [X], lambda x: x / (1 + np.exp(-x)), tolerance=1e-5),
    Case("Atan2", [X, Y], np.arctan2, trained=(0, 1)),
    Case("Atan2", [X, Y[:1]], np.arctan2, trained=(0, 1), name="Atan2-broadcast"),
    Case("Fmod", [X, _SEVEN_TENTHS], np.fmod),
    Case("Remainder", [X, _SEVEN_TENTHS], np.mod),
    Case("Scale", [X], lambda x: 1.5 * x, {"scale": 1.5}),
    Case("Scale", [X], lambda x: x, name="Scale-default"),
    Case(
        "ScaledAdd",
        [X, Y],
        lambda x, y: 0.5 * x - 2.0 * y,
        {"scale0": 0.5, "scale1": -2.0},
        trained=(0, 1),
    ),
    Case(
        "ScaledAdd",
        [X, Y, np.array(0.25, np.float32), np.array([3.0], np.float32)],
        lambda x, y, a, b: a * x + b * y,
        trained=(0, 1, 2, 3),
        name="ScaledAdd-operands",
    ),
    Case("Nop", [X], lambda x: x),
    Case("TensorRemap", [X], lambda x: x, {"remap_type": 0}),
    Case("AutoLossScaleProxy", [X], lambda x: x),
    Case(
        "IncrementMod",
        [X],
        lambda x: np.fmod(x + 3.0, 4.0),
        {"increment": 3.0, "modulus": 4.0},
    ),
    Case(
        "NormalizeImage",
        [drawn((2, 2, 2, 3)), drawn((3,), 1), drawn((3,), 2)],
        lambda image, offsets, scales: np.pad(
            (0.5 * image - offsets) * scales, [(0, 0)] * 3 + [(0, 1)]
        ),
        {"scale": 0.5},
        trained=(0, 1, 2),
    ),
]

OTHERS = [
    Case("Round", [_HALVES], _rounded),
    Case("NearbyInt", [_HALVES], np.rint),
    Case("Remainder", [_INTS, _DIVISORS], np.mod, name="Remainder-int"),
    Case("Fmod", [_INTS, _DIVISORS], np.fmod, name="Fmod-int"),
    Case("BitwiseNot", [_INTS], np.bitwise_not),
    Case("BitwiseAnd", [_INTS, _DIVISORS], np.bitwise_and),
    Case("BitwiseOr", [_INTS, _DIVISORS], np.bitwise_or),
    Case("BitwiseXor", [_INTS, _DIVISORS], np.bitwise_xor),
    Case("BitwiseXnor", [_INTS, _DIVISORS], lambda a, b: ~(a ^ b)),
    Case(
        "BitwiseAnd",
        [_INTS.view(np.uint32), _DIVISORS.view(np.uint32)],
        np.bitwise_and,
        name="BitwiseAnd-uint32",
    ),
    Case(
        "IncrementMod",
        [np.array([5, -5, 10, 1, 2], np.int32)],
        lambda x: np.fmod(x + 3, 4),
        {"increment": 3.0, "modulus": 4.0},
        name="IncrementMod-int",
    ),
    Case("Detach", [X], lambda x: x),
]


@pytest.mark.parametrize("case", [*SMOOTH, *OTHERS], ids=str)
def test_results(case: Case, tmp_path: Path) -> None:
    agrees(case, tmp_path)


@pytest.mark.parametrize("case", SMOOTH, ids=str)
def test_gradients(case: Case, tmp_path: Path) -> None:
    gradients_agree(case, tmp_path)


def test_a_point_without_an_angle_has_no_slope(tmp_path: Path) -> None:
    nodes = [
        node_of("Atan2", ["x", "y"], ["a"]),
        node_of("IdentityLoss", ["a"], ["loss"], reduction="Sum"),
    ]
    zero = np.zeros(1, np.float32)
    gradients = gradient_of(nodes, {"x": zero, "y": zero}, tmp_path)
    assert [gradient.tolist() for gradient in gradients.values()] == [[0], [0]]


def test_nothing_flows_back_through_detach(tmp_path: Path) -> None:
    nodes = [
        node_of("Detach", ["x0"], ["d"]),
        helper.make_node("Mul", ["x0", "d"], ["y"]),
        node_of("IdentityLoss", ["y"], ["loss"], reduction="Sum"),
    ]
    x = drawn((3,))
    assert gradient_of(nodes, {"x0": x}, tmp_path)["x0"].tolist() == x.tolist()
