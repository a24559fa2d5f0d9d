"""Powers of two around products go into constant operands and change no bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from tests.engine.transform.rewrites import Taken, functions, written

from tilescope.engine import Engine, compile_model, load_machine, load_onnx, resolve_options

_RANDOM = np.random.default_rng(6)
SHAPE = (1, 8, 16)
WEIGHTS = _RANDOM.standard_normal((16, 16)).astype(np.float32)
BIAS = _RANDOM.standard_normal(16).astype(np.float32)
Formula = Callable[[Taken], "Taken | tuple[Taken, ...]"]


def typed(x: Taken, array: np.ndarray) -> Taken:
    return Taken(x.writer, x.writer.constant(array.astype(x.writer.dtype)))


def dense(x: Taken) -> Taken:
    return x.op("MatMul", typed(x, WEIGHTS))


def heads(x: Taken) -> Taken:
    """Return queries, or keys, of 4 heads of 4 numbers."""
    apart = (dense(x) + typed(x, BIAS)).op("Reshape", np.array([1, 8, 4, 4]))
    return apart.op("Transpose", perm=[0, 2, 1, 3])


def scores(x: Taken, scale: Callable[[Taken], Taken]) -> Taken:
    return scale(heads(x).op("MatMul", heads(x).op("Transpose", perm=[0, 1, 3, 2])))


FOLDED: dict[str, Formula] = {
    "after a product": lambda x: dense(x) * 0.125,
    "before a product": lambda x: dense(x * 4.0),
    "divided": lambda x: dense(x) / 8.0,
    "after the bias": lambda x: (dense(x) + typed(x, BIAS)) * 0.5,
    "scores of attention": lambda x: scores(x, lambda product: product / 2.0),
    "queries": lambda x: (heads(x) * 0.5).op("MatMul", x.op("Reshape", np.array([1, 4, 4, 8]))),
}
STAYS: dict[str, Formula] = {
    "no power of two": lambda x: dense(x) * 0.3,
    "minus": lambda x: dense(x) * -0.5,
    "the product has another reader": lambda x: ((y := dense(x)) * 0.5, y.op("Neg")),
    "the product is a result": lambda x: ((y := dense(x)) * 0.5, y),
    "a sum with a value": lambda x: (dense(x) + x) * 0.5,
    "a function in between": lambda x: dense(x).op("Relu") * 0.5,
    "two dimensions more": lambda x: dense(x) * np.full((1, 1, 1, 1), 0.5, x.writer.dtype),
    "too large": lambda x: dense(x) * 2.0**127,
    "the reciprocal": lambda x: x.writer.add("Div", [2.0, dense(x)]),
}


def bits(model: onnx.ModelProto, folder: Path, dtype: str, without: list[str]) -> list[np.ndarray]:
    onnx.save(model, folder / "model.onnx")
    loaded = load_onnx(folder / "model.onnx")
    compiled = compile_model(loaded, load_machine("gc200", tiles_per_ipu=4), without=without)
    x = np.random.default_rng(7).standard_normal(SHAPE).astype(dtype)
    with Engine(compiled.executable, resolve_options(environ={})) as engine:
        return list(compiled.run(engine, {"x": x}).values())


@pytest.mark.parametrize("formula", FOLDED.values(), ids=FOLDED)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_factor_is_gone_and_the_bits_are_the_same(
    formula: Formula, dtype: str, tmp_path: Path
) -> None:
    model = written(formula, SHAPE, dtype)
    left = functions(model, tmp_path)
    assert not {"multiply", "divide"}.intersection(left)
    apart = bits(model, tmp_path, dtype, ["pre_scale"])
    for bit, expected in zip(bits(model, tmp_path, dtype, []), apart, strict=True):
        assert np.array_equal(bit, expected)


@pytest.mark.parametrize("formula", STAYS.values(), ids=STAYS)
def test_other_factors_stay(formula: Formula, tmp_path: Path) -> None:
    model = written(formula, SHAPE)
    assert functions(model, tmp_path) == functions(model, tmp_path, without=["pre_scale"])


def test_subnormal_weights_may_lose_digits_and_no_more(tmp_path: Path) -> None:
    """A half below 6e-5 is subnormal: next to weights of 1, its last digits do not matter."""

    def of(largest: float) -> Formula:
        weights = np.full((16, 16), 3e-6)
        weights[0] = largest
        return lambda x: x.op("MatMul", typed(x, weights)) / 8.0

    assert functions(written(of(1.0), SHAPE, "float16"), tmp_path) == ["matmul"]
    assert functions(written(of(4e-6), SHAPE, "float16"), tmp_path) == ["matmul", "divide"]
