"""``--pipeline`` of ``tilescope run`` and ``tilescope train``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from tests.tilescope.conftest import Outcome

Run = Callable[..., Outcome]
TWO = ("--ipus", 2, "--tiles", 8)


def test_a_pipeline_runs_the_batches_of_its_data(tilescope: Run, model: Path) -> None:
    """Outputs are those of one IPU, and a report has the cycles of a pipeline."""
    np.savez("data.npz", x=np.random.default_rng(1).standard_normal((10, 6), np.float32))
    data = ("--inputs", "data.npz", "--batch", 2, "--outputs")
    outcome = tilescope("run", model, *TWO, *data, "two.npz", "--pipeline", 2, "--verify")
    assert (outcome.code, outcome.err) == (0, "")
    assert "Stage 0: first to first" in outcome.out
    one_ipu = ("--tiles", 8, "--no-report", *data[:2], "--outputs", "one.npz")
    assert tilescope("run", model, *one_ipu).code == 0
    two, one = (np.load(name)["y"] for name in ("two.npz", "one.npz"))
    assert two.shape == (10, 4)
    np.testing.assert_allclose(two, one, rtol=1e-5)
    programs = tilescope("programs", "report").out
    assert all(name in programs for name in ("fill", "main", "drain", "forward 1", "copies"))
    facts = tilescope("summary", "report", "--json").out
    assert '"micro_batches"' in facts


def test_iterations_are_micro_batches(tilescope: Run, model: Path) -> None:
    stages = ("--pipeline", "first=0,second=1", "--iterations", 5, "--json")
    document = json.loads(tilescope("run", model, *TWO, *stages, "--batch", 3).out)
    assert document["pipeline"] == {"first": 0, "second": 1}
    alone = json.loads(tilescope("run", model, *TWO, "--pipeline", 2, "--json", "--batch", 3).out)
    # A cycle more for every micro-batch, and never as long as one after the other.
    assert alone["total_cycles"] < document["total_cycles"] < 5 * alone["total_cycles"]


@pytest.mark.parametrize(
    "options",
    [("--pipeline", 2), ("--pipeline", "second=1,*=0,second=1", "--recompute", "pipeline")],
)
def test_training(options: tuple[object, ...], tilescope: Run, model: Path) -> None:
    rng = np.random.default_rng(0)
    x, labels = rng.standard_normal((12, 6), np.float32), rng.integers(0, 4, 12)
    np.savez("data.npz", x=x, labels=labels)
    ends = ("--batch", 2, "--accumulate", 3, "--loss", "cross-entropy", "--data", "data.npz")
    for name, own in (("one", ("--tiles", 8)), ("two", (*TWO, *options))):
        outcome = tilescope("train", model, *own, *ends, "--quiet", "--output", f"{name}.onnx")
        assert (outcome.code, outcome.err) == (0, "")
    for ours, theirs in zip(*(_weights(name) for name in ("one.onnx", "two.onnx")), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_replicas_of_a_pipeline(tilescope: Run, model: Path) -> None:
    """Two replicas of two stages train as two replicas of one IPU, bit for bit."""
    rng = np.random.default_rng(0)
    x, labels = rng.standard_normal((24, 6), np.float32), rng.integers(0, 4, 24)
    np.savez("data.npz", x=x, labels=labels)
    common = ("--batch", 2, "--accumulate", 3, "--replicas", 2, "--tiles", 8, "--quiet")
    data = ("--loss", "cross-entropy", "--data", "data.npz")
    for name, own in (("one", ("--ipus", 2)), ("two", ("--ipus", 4, "--pipeline", 2))):
        outcome = tilescope("train", model, *own, *common, *data, "--output", f"{name}.onnx")
        assert (outcome.code, outcome.err) == (0, "")
    for ours, theirs in zip(*(_weights(name) for name in ("one.onnx", "two.onnx")), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_report_has_stashes_and_operations_of_a_pipeline(tilescope: Run, model: Path) -> None:
    np.savez("data.npz", x=np.zeros((8, 6), np.float32), labels=np.zeros(8, np.int64))
    ends = ("--batch", 2, "--accumulate", 4, "--loss", "cross-entropy", "--data", "data.npz")
    outcome = tilescope("train", model, *TWO, "--pipeline", 2, *ends, "--report", "report")
    assert (outcome.code, outcome.err) == (0, "")
    summary = json.loads(tilescope("summary", "report", "--json").out)
    # Three micro-batches of x, of 2 x 6 elements of 4 bytes, and counters of two stages on 8 tiles.
    assert summary["metrics"]["memory.purpose.stash"] == 3 * 2 * 6 * 4 + 2 * 8 * 4
    operations = tilescope("ops", "report", "--json").out
    assert all(name in operations for name in ("Stash/x", "Restore/x", "IpuCopy"))


def _weights(path: str) -> list[NDArray[Any]]:
    return [onnx.numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--pipeline", "third=1", *TWO), "No node is called 'third': the model has first, betw"),
        (("--pipeline", 3, *TWO), "--pipeline has 3 stages, but --ipus is 2"),
        (("--pipeline", "second=1,first=0"), "--pipeline has 2 stages, but --ipus is 1"),
        (("--pipeline", "second", *TWO), "expected a number of stages, or NODE=STAGE"),
        (("--pipeline", "second=1,first=1,between=1", *TWO), "none in stage 0"),
        (("--pipeline", "first=1,between=0,second=1", *TWO), "computes: a stage reads what it"),
        (
            ("--pipeline", "second=1,*=0", "--split", "first=0,between=1", *TWO),
            "Stage 0 is on two IPUs",
        ),
    ],
)
def test_what_is_wrong_is_said(
    options: tuple[object, ...], message: str, tilescope: Run, model: Path
) -> None:
    outcome = tilescope("run", model, "--no-report", *options)
    assert outcome.code == 2
    assert message in " ".join(outcome.err.split())


def test_data_that_are_no_whole_batches(tilescope: Run, model: Path) -> None:
    np.savez("data.npz", x=np.zeros((5, 6), np.float32))
    options = ("--pipeline", 2, "--batch", 2, "--inputs", "data.npz", "--no-report")
    outcome = tilescope("run", model, *TWO, *options)
    assert outcome.code == 2
    assert "whole micro-batches of 2 from all inputs" in " ".join(outcome.err.split())
