"""What ``make models`` measures, on the smallest model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.models.measure import _error, _has_same_labels, measure

from tilescope.engine import load_machine
from tilescope.engine.models import all_models


@pytest.mark.parametrize("precision", ["float", "half"])
def test_a_small_model(catalogue_model: Callable[[str], Path], precision: str) -> None:
    path = catalogue_model("pulsevad-2k")
    machine = load_machine("gc200", tiles_per_ipu=64)
    actual = measure(all_models()["pulsevad-2k"], path, machine, precision)
    assert actual.is_right
    assert actual.fits
    assert 0 < actual.least_bytes <= actual.total_bytes
    assert min(actual.cycles, actual.tile_bytes, actual.report_bytes) > 0
    assert not replace(actual, error=1.0).is_right
    assert not replace(actual, same_labels=False).is_right


def test_errors_and_labels() -> None:
    expected = np.array([[1.0, 4.0, 2.0]], np.float32)
    assert _error(expected * np.float32(1.5), expected) == 0.5
    assert _error(expected[0], expected) == float("inf")
    assert _has_same_labels(expected + 7, expected)
    assert not _has_same_labels(expected[:, ::-1] * [1, 0, 1], expected)
    assert _has_same_labels(np.array([2, 1]), np.array([1.0001, 1.0002]))
