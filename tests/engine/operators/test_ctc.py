"""The primitive of the loss of alignments beside its value in numpy and the sum over alignments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.oracle.test_ctc import Sequences

from tilescope.engine import Engine, compile_model, load_machine, resolve_options
from tilescope.engine.ir import IrBuilder
from tilescope.engine.operators.ctc import CTC


def _sequences() -> Sequences:
    """Return sequences of 5 steps: repeats, an empty label, a label that no alignment gives."""
    sequences = Sequences.drawn((5, 4, 3), 3, 7)
    sequences.blank = 2
    sequences.labels = np.array([[0, 0, 1], [1, 0, 1], [1, 1, 1], [7, 7, 7]], np.int32)
    sequences.steps = np.array([5, 3, 4, 2], np.int32)
    sequences.lengths = np.array([3, 3, 3, 0], np.int32)
    return sequences


def _results(dtype: str, *, n_results: int = 2, zero_infinity: bool = False) -> tuple[Any, Any]:
    """Return the results on the machine and in numpy."""
    sequences, builder = _sequences(), IrBuilder("loss")
    names = ("scores", "labels", "steps", "lengths")
    arrays = {name: getattr(sequences, name) for name in names}
    arrays["scores"] = arrays["scores"].astype(dtype)
    operands = [builder.input(name, a.shape, a.dtype.name) for name, a in arrays.items()]
    values = builder.emit_all(
        CTC,
        operands,
        n_results,
        name="ctc",
        source="ctc",
        output="y",
        blank=sequences.blank,
        zero_infinity=zero_infinity,
        takes_logs=False,
    )
    model = builder.finish(list(zip(("loss", "gradient"), values, strict=False)))
    compiled = compile_model(model, load_machine("gc200", tiles_per_ipu=16), is_checked=True)
    with Engine(compiled.executable, resolve_options(environ={})) as engine:
        actual = compiled.run(engine, arrays)
    assert CTC.evaluate is not None
    expected = CTC.evaluate(model.operations[0], list(arrays.values()))
    return [actual[name] for name in ("loss", "gradient")[:n_results]], expected


@pytest.mark.parametrize(("dtype", "near"), [("float32", 1e-5), ("float16", 4e-3)])
def test_machine_and_numpy_agree(dtype: str, near: float) -> None:
    actual, expected = _results(dtype)
    assert np.isinf(actual[0]).tolist() == [False, False, True, False]
    exists = np.isfinite(expected[0])
    assert actual[0].dtype == actual[1].dtype == dtype
    np.testing.assert_allclose(actual[0], expected[0], rtol=near, atol=near)
    np.testing.assert_allclose(actual[1][:, exists], expected[1][:, exists], rtol=near, atol=near)


def test_numpy_is_the_sum_over_alignments() -> None:
    sequences = _sequences()
    losses, gradients = sequences.expected(sequences.scores)
    actual = _results("float32")[1]
    exists = np.isfinite(losses)
    np.testing.assert_allclose(actual[0], losses, rtol=1e-6)
    np.testing.assert_allclose(actual[1][:, exists], gradients[:, exists], rtol=1e-5, atol=1e-6)


def test_without_infinity_such_labels_count_nothing() -> None:
    actual, expected = _results("float32", zero_infinity=True)
    assert actual[0][2] == expected[0][2] == 0
    for on_machine, in_numpy in zip(actual, expected, strict=True):
        np.testing.assert_allclose(on_machine, in_numpy, rtol=1e-5, atol=1e-5)


def test_the_loss_alone() -> None:
    """The gradient is not computed where nothing names it."""
    (actual,), expected = _results("float32", n_results=1)
    np.testing.assert_allclose(actual, expected[0], rtol=1e-5)
