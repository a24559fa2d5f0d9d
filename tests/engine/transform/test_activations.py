"""GELU, swish and hard swish are found in every association that exporters write."""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt
from pathlib import Path

import numpy as np
import pytest
from tests.engine.transform.rewrites import Taken, functions, values, written

SHAPE = (3, 5, 8)
ROOT, TANH = sqrt(2), sqrt(2 / pi)
Formula = Callable[[Taken], "Taken | tuple[Taken, ...]"]


def erf(x: Taken) -> Taken:
    return x.op("Erf")


def tanh(x: Taken) -> Taken:
    return x.op("Tanh")


#: By name, with the exporter that writes it.
GELU: dict[str, Formula] = {
    "PyTorch: x * 0.5 * (1 + erf(x / √2))": lambda x: x * 0.5 * (1 + erf(x / ROOT)),
    "PyTorch 1.x: x * (erf(x / √2) + 1) * 0.5": lambda x: x * (erf(x / ROOT) + 1.0) * 0.5,
    "TensorFlow: 0.5 * x * (1 + erf(x / √2))": lambda x: (0.5 * x) * (erf(x / ROOT) + 1.0),
    "Keras: 0.5 * x * (1 + erf(x * 1/√2))": lambda x: (0.5 * x) * (1 + erf(x * (1 / ROOT))),
    "BERT: x * (0.5 * (1 + erf(x / √2)))": lambda x: x * (0.5 * (1 + erf(x / ROOT))),
    "ONNX function body": lambda x: (0.5 * x) * (1.0 + erf(x * sqrt(0.5))),
    "a half instead": lambda x: (x * (1 + erf(x / ROOT))) / 2.0,
    "half in both": lambda x: x * (0.5 * erf(x / ROOT) + 0.5),
    "multiplied out": lambda x: 0.5 * x + (0.5 * x) * erf(x / ROOT),
    "factor first": lambda x: (1 + erf(x / ROOT)) * (0.5 * x),
}
TANH_GELU: dict[str, Formula] = {
    "PyTorch": lambda x: 0.5 * x * (1.0 + tanh(TANH * (x + 0.044715 * x**3.0))),
    "TensorFlow": lambda x: x * (0.5 * (1.0 + tanh(TANH * (x + 0.044715 * x**3.0)))),
    "products": lambda x: 0.5 * x * (1.0 + tanh(TANH * (x + 0.044715 * (x * x * x)))),
    "Hugging Face, fast": lambda x: 0.5 * x * (1.0 + tanh(x * TANH * (1.0 + (0.044715 * x) * x))),
    "Keras": lambda x: (0.5 * x) * (1.0 + tanh((x + (x * (x * x)) * 0.044715) * TANH)),
}
SWISH: dict[str, Formula] = {
    "x * sigmoid(x)": lambda x: x * x.op("Sigmoid"),
    "sigmoid(x) * x": lambda x: x.op("Sigmoid") * x,
}


def clip(x: Taken, low: float, high: float) -> Taken:
    return x.op("Clip", low, high)


HARD_SWISH: dict[str, Formula] = {
    "PyTorch: x * clip(x + 3, 0, 6) / 6": lambda x: x * clip(x + 3.0, 0, 6) / 6.0,
    "x * (clip(x + 3, 0, 6) / 6)": lambda x: x * (clip(x + 3.0, 0, 6) / 6.0),
    "times a sixth": lambda x: x * clip(x + 3.0, 0, 6) * (1 / 6),
    "ReLU and minimum": lambda x: x * (x + 3.0).op("Relu").op("Min", 6.0) / 6.0,
    "HardSigmoid": lambda x: x * x.op("HardSigmoid", alpha=1 / 6, beta=0.5),
    "HardSwish": lambda x: x.op("HardSwish"),
}
CASES = {
    name: (formula, kind)
    for kind, formulas in (
        ("gelu_erf", GELU),
        ("gelu", TANH_GELU),
        ("swish", SWISH),
        ("hard_swish", HARD_SWISH),
    )
    for name, formula in formulas.items()
}
#: What must stay as it is.
NEAR: dict[str, Formula] = {
    "another root": lambda x: x * 0.5 * (1 + erf(x / 1.41)),
    "the next float": lambda x: (
        x * float(np.nextafter(np.float32(0.5), np.float32(1))) * (1 + erf(x / ROOT))
    ),
    "no half": lambda x: x * (1 + erf(x / ROOT)),
    "minus": lambda x: x * 0.5 * (1 - erf(x / ROOT)),
    "the error function is a result": lambda x: ((e := erf(x / ROOT)), x * 0.5 * (1 + e)),
    "the sum has a second reader": lambda x: (
        (e := 1 + erf(x / ROOT)) * (x * 0.5),
        e.op("Neg"),
    ),
    "of another value": lambda x: x.op("Neg") * 0.5 * (1 + erf(x / ROOT)),
    "a constant of more dimensions": lambda x: (
        x * np.full((1, 1, 1, 1), 0.5, np.float32) * (1 + erf(x / ROOT))
    ),
    "a number per column": lambda x: x * np.full(8, 0.5, np.float32) * (1 + erf(x / ROOT)),
    "another cubic": lambda x: 0.5 * x * (1.0 + tanh(TANH * (x + 0.0447 * x**3.0))),
    "a square": lambda x: 0.5 * x * (1.0 + tanh(TANH * (x + 0.044715 * x**2.0))),
    "sigmoid of another": lambda x: x * (x + 1.0).op("Sigmoid"),
    "the sigmoid is a result": lambda x: ((s := x.op("Sigmoid")), x * s),
    "clip to 5": lambda x: x * clip(x + 3.0, 0, 5) / 6.0,
    "clip from 1": lambda x: x * clip(x + 3.0, 1, 6) / 6.0,
    "divided by 5": lambda x: x * clip(x + 3.0, 0, 6) / 5.0,
    "plus 2": lambda x: x * clip(x + 2.0, 0, 6) / 6.0,
}


@pytest.mark.parametrize(("formula", "kind"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_one_operator_is_left(formula: Formula, kind: str, dtype: str, tmp_path: Path) -> None:
    assert functions(written(formula, SHAPE, dtype), tmp_path) == [kind]


@pytest.mark.parametrize("formula", [formula for formula, _ in CASES.values()], ids=CASES)
def test_values_are_those_of_onnxruntime(formula: Formula, tmp_path: Path) -> None:
    ((actual, expected),) = values(written(formula, SHAPE), tmp_path, SHAPE)
    np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("formula", NEAR.values(), ids=NEAR)
def test_near_misses_stay(formula: Formula, tmp_path: Path) -> None:
    model = written(formula, SHAPE)
    kinds = {"gelu", "gelu_erf", "swish", "hard_swish"}
    assert not kinds.intersection(functions(model, tmp_path))
    for actual, expected in values(model, tmp_path, SHAPE):
        np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-6)


def test_a_scaled_operand_is_part_of_the_operator_before(tmp_path: Path) -> None:
    """The operand is where the argument agrees: not the scaled value's own operand."""

    def formula(x: Taken) -> Taken:
        z = x * 3.0
        return z * 0.5 * (1 + erf(z / ROOT))

    assert functions(written(formula, SHAPE), tmp_path) == ["multiply", "gelu_erf"]


def test_a_pass_is_left_out_by_name(tmp_path: Path) -> None:
    formula = GELU["PyTorch: x * 0.5 * (1 + erf(x / √2))"]
    left = functions(written(formula, SHAPE), tmp_path, without=["erf_gelu_pattern"])
    assert left == ["multiply", "divide", "erf", "add", "multiply"]
