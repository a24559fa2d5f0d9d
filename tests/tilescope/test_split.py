"""``--split`` of ``tilescope run`` and ``tilescope train``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from tests.tilescope.conftest import Outcome, save_products

from tilescope import analyser
from tilescope.engine import in_half, load_onnx
from tilescope.engine.transform import transform
from tilescope.engine.transform.split import split
from tilescope.reports.schema import debug_context

Run = Callable[..., Outcome]
TWO = ("--ipus", 2, "--tiles", 8)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a product, a relu and a product."""
    monkeypatch.chdir(tmp_path)
    return save_products(3)


def _places(report: str) -> dict[str, int]:
    """Return the IPUs of nodes, as the report states them."""
    with analyser.open(report) as opened:
        rows = opened.rows(debug_context, "name", "detail")
    found = {}
    for name, detail in rows:
        stated = json.loads(detail).get("placement") if detail else None
        if stated:
            found[str(name)] = int(stated["ipu"])
    return found


def test_a_split_runs_and_a_report_says_where(tilescope: Run, model: Path) -> None:
    split_ = ("--split", "first=0,between=0", "--split", "sec*=1", "--verify")
    outcome = tilescope("run", model, *TWO, *split_)
    assert (outcome.code, outcome.err) == (0, "")
    places = _places("report")
    assert (places["first"], places["between"], places["second"]) == (0, 0, 1)
    facts = tilescope("summary", "report", "--json").out
    assert '"split"' in facts


def test_another_split_is_another_program(tilescope: Run, model: Path) -> None:
    """A program in the cache is not taken for one with another split."""
    cache = ("--cache", "cache", "--report")
    for name, entry in (("a", "second=1"), ("b", "second=0"), ("a2", "second=1")):
        assert tilescope("run", model, *TWO, *cache, name, "--split", entry).code == 0
    assert [_places(name)["second"] for name in ("a", "b", "a2")] == [1, 0, 1]


def test_training_on_two_ipus(tilescope: Run, model: Path) -> None:
    rng = np.random.default_rng(0)
    x, labels = rng.standard_normal((6, 6), np.float32), rng.integers(0, 4, 6)
    np.savez("data.npz", x=x, labels=labels)
    ends = ("--quiet", "--loss", "cross-entropy", "--data", "data.npz", "--output")
    for name, options in (("one", ("--tiles", 8)), ("two", (*TWO, "--split", "second=1"))):
        outcome = tilescope("train", model, *options, *ends, f"{name}.onnx")
        assert (outcome.code, outcome.err) == (0, "")
    for ours, theirs in zip(*(_weights(name) for name in ("one.onnx", "two.onnx")), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def _weights(path: str) -> list[NDArray[Any]]:
    return [onnx.numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer]


def test_a_model_in_half_keeps_its_places(model: Path) -> None:
    placed = in_half(split(load_onnx(model), {"second": 1, "*": 1}))
    assert {op.placement.ipu for op in transform(placed).operations} == {1}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--split", "third=1", *TWO), "No node is called 'third': the model has first, between"),
        (("--split", "second=1"), "--split puts second on IPU 1, but --ipus is 1"),
        (("--split", "second", *TWO), "expected auto, or NODE=IPU"),
        (("--split", "second=one", *TWO), "expected auto, or NODE=IPU"),
    ],
)
def test_what_is_wrong_is_said(
    options: tuple[object, ...], message: str, tilescope: Run, model: Path
) -> None:
    outcome = tilescope("run", model, "--no-report", *options)
    assert outcome.code == 2
    assert message in outcome.err
