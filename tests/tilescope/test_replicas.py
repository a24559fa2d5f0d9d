"""``--replicas`` of ``tilescope run`` and ``tilescope train``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from tests.tilescope.conftest import Outcome

Run = Callable[..., Outcome]
TILES = ("--tiles", 8)


def _weights(path: str) -> list[NDArray[Any]]:
    return [onnx.numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer]


@pytest.mark.parametrize(
    ("options", "n_batches"),
    [
        (("--ipus", 3, "--replicas", 3), 3),
        (("--ipus", 4, "--replicas", 2), 2),
        (("--ipus", 4, "--replicas", 2, "--pipeline", 2), 6),
    ],
)
def test_replicas_run_on_the_batches_of_the_data(
    options: tuple[object, ...], n_batches: int, tilescope: Run, model: Path
) -> None:
    x = np.random.default_rng(1).standard_normal((2 * n_batches, 6)).astype(np.float32)
    np.savez("data.npz", x=x)
    ends = ("--inputs", "data.npz", *TILES, "--outputs")
    outcome = tilescope("run", model, *ends, "all.npz", "--batch", 2, *options, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    document = outcome.json()
    assert document["machine"]["n_ipus"] == options[1]
    assert document["machine"]["n_replicas"] == options[3]
    assert tilescope("run", model, *ends, "one.npz", "--no-report").code == 0
    every, one = (np.load(name)["y"] for name in ("all.npz", "one.npz"))
    assert every.shape == (2 * n_batches, 4)
    np.testing.assert_allclose(every, one, rtol=1e-5)
    summary = tilescope("summary", "report", "--json").json()
    assert "n_replicas" in str(summary)


def test_random_inputs_differ(tilescope: Run, model: Path) -> None:
    options = ("--ipus", 2, "--replicas", 2, *TILES, "--batch", 3, "--no-report")
    assert tilescope("run", model, *options, "--outputs", "out.npz").code == 0
    y = np.load("out.npz")["y"]
    assert y.shape == (6, 4)
    assert not np.array_equal(y[:3], y[3:])


def test_only_some_replicas_are_computed(tilescope: Run, model: Path) -> None:
    options = ("--ipus", 4, "--replicas", 4, *TILES, "--batch", 1, "--json")
    every = tilescope("run", model, *options).json()
    outcome = tilescope("run", model, *options, "--replicas-computed", 1, "--outputs", "o.npz")
    assert outcome.json()["total_cycles"] == every["total_cycles"]
    y = np.load("o.npz")["y"]
    assert (y == y[:1]).all()
    assert "1 of 4" in tilescope("summary", "report", "--json").out


@pytest.mark.parametrize(
    "options",
    [
        ("--ipus", 2, "--replicas", 2, "--accumulate", 2),
        ("--ipus", 4, "--replicas", 4),
        ("--ipus", 4, "--replicas", 2, "--pipeline", 2, "--accumulate", 2),
        ("--ipus", 4, "--replicas", 2, "--pipeline", 2, "--accumulate", 2, "--recompute", "all"),
    ],
)
def test_training(options: tuple[object, ...], tilescope: Run, model: Path) -> None:
    rng = np.random.default_rng(0)
    x, labels = rng.standard_normal((24, 6), np.float32), rng.integers(0, 4, 24)
    np.savez("data.npz", x=x, labels=labels)
    ends = ("--batch", 2, "--loss", "cross-entropy", "--data", "data.npz", *TILES)
    for name, own in (("one", ("--accumulate", 4)), ("all", options)):
        outcome = tilescope("train", model, *own, *ends, "--quiet", "--output", f"{name}.onnx")
        assert (outcome.code, outcome.err) == (0, "")
    for ours, theirs in zip(*(_weights(name) for name in ("one.onnx", "all.onnx")), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--replicas", 2), "--replicas 2 does not divide --ipus 1"),
        (("--ipus", 4, "--replicas", 3), "--replicas 3 does not divide --ipus 4"),
        (("--ipus", 2, "--replicas", 2, "--replicas-computed", 3), "--replicas-computed is 3"),
        (
            ("--ipus", 4, "--replicas", 2, "--pipeline", 3),
            "--pipeline has 3 stages, but a replica has 2 of the 4 of --ipus",
        ),
        (("--ipus", 2, "--replicas", 2, "--verify"), "--verify compares one replica"),
        (("--ipus", 65, "--replicas", 65), "n_replicas is 65; with 1 IPUs each, there are 1 to"),
        (
            ("--ipus", 2, "--replicas", 2, "--batch", 2, "--inputs", "data.npz"),
            "The inputs hold 3 batches of 2 for 2 replicas: give one each, or one for all",
        ),
    ],
)
def test_what_is_wrong_is_said(
    options: tuple[object, ...], message: str, tilescope: Run, model: Path
) -> None:
    np.savez("data.npz", x=np.zeros((6, 6), np.float32))
    outcome = tilescope("run", model, "--no-report", *TILES, *options)
    assert outcome.code == 2
    assert message in " ".join(outcome.err.split())
