"""``--batch-parts`` of ``tilescope run`` and ``tilescope train``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from tests.tilescope.conftest import Outcome

Run = Callable[..., Outcome]
_OPTIONS = ("--tiles", 8, "--batch", 4)


def test_results_are_those_of_the_whole_batch(tilescope: Run, model: Path) -> None:
    np.savez("data.npz", x=np.random.default_rng(1).standard_normal((4, 6), np.float32))
    data = ("--inputs", "data.npz", "--outputs")
    outcome = tilescope("run", model, *_OPTIONS, *data, "parts.npz", "--batch-parts", 2, "--verify")
    assert (outcome.code, outcome.err) == (0, "")
    assert tilescope("run", model, *_OPTIONS, *data, "whole.npz", "--no-report").code == 0
    parts, whole = (np.load(name)["y"] for name in ("parts.npz", "whole.npz"))
    np.testing.assert_allclose(parts, whole, rtol=1e-5)
    facts = json.loads(tilescope("summary", "report", "--json").out)["provenance"]
    assert facts["batch_parts"] == "2"


def test_a_difference_says_that_the_parts_changed(tilescope: Run, model: Path) -> None:
    for n_parts in (1, 2):
        report = ("--report", f"of_{n_parts}", "--batch-parts", n_parts)
        assert tilescope("run", model, *_OPTIONS, *report).code == 0
    causes = tilescope("diff", "of_1", "of_2").out
    assert "Parts of the batch changed: 1 → 2." in causes
    assert "Parts of the batch changed" not in tilescope("diff", "of_2", "of_2").out


def test_weights_are_those_of_the_whole_batch(tilescope: Run, model: Path) -> None:
    rng = np.random.default_rng(0)
    x, labels = rng.standard_normal((16, 6), np.float32), rng.integers(0, 4, 16)
    np.savez("data.npz", x=x, labels=labels)
    ends = ("--accumulate", 2, "--loss", "cross-entropy", "--data", "data.npz", "--quiet")
    weights = []
    for name, own in (("whole", ()), ("parts", ("--batch-parts", 4, "--recompute", "all"))):
        outcome = tilescope("train", model, *_OPTIONS, *ends, *own, "--output", f"{name}.onnx")
        assert (outcome.code, outcome.err) == (0, "")
        tensors = onnx.load(f"{name}.onnx").graph.initializer
        weights.append([onnx.numpy_helper.to_array(tensor) for tensor in tensors])
    for parts, whole in zip(*weights, strict=True):
        np.testing.assert_allclose(parts, whole, rtol=1e-5, atol=1e-6)


def test_parts_that_do_not_divide_the_batch_are_refused(tilescope: Run, model: Path) -> None:
    outcome = tilescope("run", model, *_OPTIONS, "--batch-parts", 3)
    assert outcome.code == 2
    assert "3 parts do not divide the batch of" in outcome.err
    assert "which is 4, axis 0 of input 'x'" in outcome.err
