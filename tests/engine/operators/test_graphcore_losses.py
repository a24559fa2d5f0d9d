"""Losses of PopART as operators, against numpy."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto
from tests.engine.operators.graphcore import Case, agrees, drawn, gradients_agree, results_of

from tilescope.engine.errors import BadModel

RANDOM = np.random.default_rng(5)
REDUCTIONS = ("Mean", "Sum", "None")


def _reduced(x: np.ndarray, reduction: str, n: int | None = None) -> np.ndarray:
    if reduction == "None":
        return x
    return np.asarray(x.sum()) / ((x.size if n is None else n) if reduction == "Mean" else 1)


def _nll(x: np.ndarray, labels: np.ndarray, reduction: str, ignored: int | None, logs: bool):
    flat = labels.astype(np.int64)
    picked = np.take_along_axis(x, np.maximum(flat, 0)[..., None], -1)[..., 0]
    losses = -picked if logs else -np.log(np.maximum(picked, 1e-7))
    counted = np.ones(flat.shape, bool) if ignored is None else flat != ignored
    return _reduced(np.where(counted, losses, 0), reduction, int(counted.sum()))


def _nll_case(
    reduction: str,
    shape: tuple[int, ...] = (6, 5),
    ignored: int | None = None,
    logs: bool = False,
    dtype: str = "int32",
) -> Case:
    x = drawn(shape, 3) if logs else RANDOM.dirichlet(np.ones(shape[-1]), shape[:-1])
    labels = RANDOM.integers(0, shape[-1], shape[:-1]).astype(dtype)
    if ignored is not None:
        labels.flat[:2] = ignored
    attributes = {"reduction": reduction, "inputIsLogProbability": int(logs)}
    if ignored is not None:
        attributes["ignoreIndex"] = ignored
    return Case(
        "Nll",
        [x.astype(np.float32), labels],
        lambda x, labels: _nll(x, labels, reduction, ignored, logs),
        attributes,
        tolerance=1e-5,
        name=f"Nll-{reduction}-{shape}-{ignored}-{logs}-{dtype}",
    )


def _ctc(
    logs: np.ndarray,
    labels: np.ndarray,
    steps: np.ndarray,
    lengths: np.ndarray,
):
    """Return the losses of all sequences, summed over paths by the forward algorithm."""
    losses = []
    for b in range(logs.shape[1]):
        classes = [0]
        for label in labels[b, : lengths[b]].tolist():
            classes += [label, 0]
        state = np.full(len(classes), -np.inf)
        state[0] = 0
        for t in range(int(steps[b])):
            before = state if t else np.concatenate([[0.0], np.full(len(classes) - 1, -np.inf)])
            state = np.full(len(classes), -np.inf)
            for s, label in enumerate(classes):
                terms = [before[s]]
                if s > 0:
                    terms.append(before[s - 1])
                if s > 1 and label not in (0, classes[s - 2]):
                    terms.append(before[s - 2])
                state[s] = np.logaddexp.reduce(terms) + logs[t, b, label]
        losses.append(-np.logaddexp.reduce(state[-2:]))
    return np.array(losses)


_STEPS, _BATCH, _CLASSES = 6, 3, 4
_LOGS = np.log(RANDOM.dirichlet(np.ones(_CLASSES), (_STEPS, _BATCH))).astype(np.float32)
_LABELS = np.array([[1, 2, 2], [3, 1, 0], [2, 0, 0]], np.uint32)
_LENGTHS, _COUNTS = np.array([3, 2, 1], np.uint32), np.array([6, 5, 6], np.uint32)


def _ctc_case(reduction: str) -> Case:
    def reference(logs: np.ndarray, *operands: np.ndarray) -> np.ndarray:
        losses = _ctc(logs, *operands)
        if reduction == "Mean":
            losses = losses / np.maximum(_LENGTHS, 1)
        return _reduced(losses, reduction)

    return Case(
        "Ctc",
        [_LOGS, _LABELS, _COUNTS, _LENGTHS],
        reference,
        {"reduction": reduction, "blank": 0, "outDataType": TensorProto.UNDEFINED},
        tolerance=1e-5,
        name=f"Ctc-{reduction}",
    )


CASES = [
    *(
        Case(
            "IdentityLoss",
            [drawn((3, 4))],
            lambda x, reduction=reduction: _reduced(x, reduction),
            {"reduction": reduction},
            name=f"IdentityLoss-{reduction}",
        )
        for reduction in REDUCTIONS
    ),
    *(
        Case(
            "L1",
            [drawn((3, 4))],
            lambda x, reduction=reduction: _reduced(0.1 * np.abs(x), reduction),
            {"reduction": reduction, "lambda": 0.1},
            name=f"L1-{reduction}",
        )
        for reduction in REDUCTIONS
    ),
    *(_nll_case(r, ignored=i, logs=logs)
      for r, i, logs in product(REDUCTIONS, (None, 2), (False, True))),
    _nll_case("Mean", (2, 3, 5), ignored=1, dtype="uint32"),
    _nll_case("None", (2, 3, 5), dtype="uint32"),
    _nll_case("Sum", (5,)),
    _nll_case("Mean", ignored=-100, logs=True),
    *map(_ctc_case, REDUCTIONS),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_results(case: Case, tmp_path: Path) -> None:
    agrees(case, tmp_path)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients(case: Case, tmp_path: Path) -> None:
    gradients_agree(case, tmp_path)


def test_a_probability_of_zero_has_a_loss(tmp_path: Path) -> None:
    x = np.array([[0, 1]], np.float32)
    case = Case("Nll", [x, np.array([0], np.int32)], lambda x, _: x[0, 0], {"reduction": "Sum"})
    (loss,) = results_of(case, tmp_path / "zero.onnx")
    np.testing.assert_allclose(loss, -np.log(1e-7), 1e-5)


def test_the_mean_of_labels_that_are_all_ignored_is_zero(tmp_path: Path) -> None:
    operands = [drawn((2, 3)), np.ones(2, np.int32)]
    attributes = {"reduction": "Mean", "ignoreIndex": 1, "inputIsLogProbability": 1}
    case = Case("Nll", operands, lambda *_: np.zeros(()), attributes)
    agrees(case, tmp_path)


def test_the_mean_of_nothing_is_zero(tmp_path: Path) -> None:
    operands = [np.zeros((0, 3), np.float32)]
    agrees(Case("IdentityLoss", operands, lambda _: np.zeros(()), {"reduction": "Mean"}), tmp_path)


@pytest.mark.parametrize(("is_zeroed", "expected"), [(0, np.inf), (1, 0)])
def test_an_impossible_label(tmp_path: Path, is_zeroed: int, expected: float) -> None:
    labels, one = np.array([[1, 1]], np.uint32), np.array([2], np.uint32)
    case = Case(
        "Ctc",
        [_LOGS[:2, :1], labels, one, one],
        lambda *_: np.zeros(()),
        {"reduction": "Sum", "blank": 0, "zeroInfinity": is_zeroed},
    )
    (loss,) = results_of(case, tmp_path / "impossible.onnx")
    assert loss == expected


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (Case("L1", [drawn((2,))], np.sum, {"reduction": "mean"}), "reduction 'mean'"),
        (
            Case("Nll", [drawn((2, 3)), np.zeros((3,), np.int32)], lambda *_: 0.0),
            r"labels 'x1' have shape \(3,\): expected \(2,\)",
        ),
        (
            Case("Nll", [drawn((2, 3)), drawn((2,))], lambda *_: 0.0),
            "labels 'x1' are float32: expected integers",
        ),
    ],
)
def test_what_does_not_fit(case: Case, message: str, tmp_path: Path) -> None:
    with pytest.raises(BadModel, match=message):
        results_of(case, tmp_path / "bad.onnx")
