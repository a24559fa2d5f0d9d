"""The text of printed tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tilescope.engine.program import PrintFormat


@pytest.mark.parametrize(
    ("values", "form", "text"),
    [
        (np.array([6, 9, 12]), PrintFormat(), "[ 6  9 12]"),
        (np.array([[1.0, 2.0]], np.float32), PrintFormat(), "[[1.0000000 2.0000000]]"),
        (np.array([10.5, -2.25], np.float32), PrintFormat(), "[10.500000 -2.250000]"),
        (np.array([0.5, 2.0], np.float16), PrintFormat(digits=3), "[0.50 2.00]"),
        (np.array([1e-6, 1.0], np.float32), PrintFormat(digits=3), "[1.00e-06 1.00e+00]"),
        (np.array([2.0], np.float32), PrintFormat(float_format="scientific"), "[2.0000000e+00]"),
        (np.array([2.5], np.float32), PrintFormat(float_format="none"), "[2.5]"),
        (np.array([np.inf, 1], np.float32), PrintFormat(digits=2), "[inf 1.0]"),
        (np.array([True, False]), PrintFormat(), "[1 0]"),
        (np.array(7), PrintFormat(), "7"),
        (np.arange(8), PrintFormat(4, 1), "[0 ... 7]"),
        (np.arange(3), PrintFormat(separator=",", open_bracket="(", close_bracket=")"), "(0,1,2)"),
    ],
)
def test_texts(values: NDArray[Any], form: PrintFormat, text: str) -> None:
    assert form.text(values) == text


def test_lines_are_as_wide_as_stated() -> None:
    values = np.arange(1000, 1040)
    assert max(map(len, PrintFormat(max_line_width=30).text(values).splitlines())) <= 30
    assert len(PrintFormat(0, 3, 0).text(np.zeros(2000, np.int32)).splitlines()) == 1
