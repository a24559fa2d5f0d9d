"""Formatting of numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilescope.analyser.quantities import (
    BytesStyle,
    format_bytes,
    format_change,
    format_change_of,
    format_cycles,
    format_exact,
    format_percent,
    format_runs,
    format_seconds,
    format_steps,
    format_value,
)


@pytest.mark.parametrize(
    ("n_bytes", "style", "text"),
    [
        (0, "binary", "0 B"),
        (1023, "binary", "1,023 B"),
        (1024, "binary", "1.0 KiB"),
        (638_976, "binary", "624.0 KiB"),
        (638_976, "si", "639.0 kB"),
        (638_976, "bytes", "638,976 B"),
        (1_048_575, "binary", "1.0 MiB"),
        (-2048, "binary", "-2.0 KiB"),
        (None, "binary", "–"),
    ],
)
def test_bytes(n_bytes: int | None, style: BytesStyle, text: str) -> None:
    assert format_bytes(n_bytes, style) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.5, "1.5 s"), (0.0123, "12.3 ms"), (9.11e-4, "911 µs"), (9.7e-7, "970 ns"), (0.0, "0 ns")],
)
def test_seconds(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_cycles() -> None:
    assert format_cycles(1_211_970) == "1,211,970 cycles"
    assert format_cycles(1) == "1 cycle"


def test_changes_have_signs() -> None:
    assert format_change(1024, "bytes") == "+1.0 KiB"
    assert format_change(-3, "cycles") == "-3 cycles"
    assert format_change(0, "bytes") == "0"
    assert format_change(-0.0294, "ratio") == "-2.94 points"
    assert format_change(None, "bytes") == "–"


def test_a_small_percentage_is_not_written_as_zero() -> None:
    assert format_percent(0.0004, is_signed=True) == "< +0.01 %"
    assert format_percent(-0.0004) == "> -0.01 %"
    assert format_percent(0.0083) == "< 0.01 %"
    assert format_percent(-12.345, is_signed=True) == "-12.35 %"


@pytest.mark.parametrize(
    ("baseline", "delta", "unit", "text"),
    [
        (2048, 1024, "bytes", "+1.0 KiB (+50.00 %)"),
        (2048, -1024, "bytes", "-1.0 KiB (-50.00 %)"),
        (2048, 0, "bytes", "0"),
        (0, 16, "bytes", "+16 B"),
        (None, 16, "bytes", "+16 B"),
        (0.5, 0.25, "ratio", "+25.00 points"),
        (2048, None, "bytes", "–"),
    ],
)
def test_a_change_stands_with_its_share_of_the_base(
    baseline: float | None, delta: float | None, unit: str, text: str
) -> None:
    assert format_change_of(baseline, delta, unit) == text


def test_other_values() -> None:
    assert format_value(True, "") == "yes"
    assert format_value(1.85e9, "hertz") == "1.85 GHz"
    assert format_value("gc200", "") == "gc200"
    assert format_exact(638_976, "bytes") == "638,976 B"
    assert format_exact(0.5, "ratio") == "0.5"


@given(st.integers(0, 2**60))
def test_rounding_never_leaves_a_unit(n_bytes: int) -> None:
    number, unit = format_bytes(n_bytes).split(" ")
    assert unit in {"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
    assert float(number.replace(",", "")) < 1024 or unit == "PiB"


def test_steps_are_written_with_the_last_one_included() -> None:
    assert format_steps(317, 319) == "317 to 318"
    assert format_steps(1000, 1001) == "1,000"


@pytest.mark.parametrize(
    ("n_runs", "text"),
    [
        ((1,), "in 1 recorded run"),
        ((1_200,), "in 1,200 recorded runs"),
        ((0,), "as compiled, not run"),
        ((2, 2), "in 2 recorded runs"),
        ((0, 0), "as compiled, not run"),
        ((1, 0), "in 1 recorded run (baseline), as compiled, not run (candidate)"),
    ],
)
def test_runs(n_runs: tuple[int, ...], text: str) -> None:
    assert format_runs(*n_runs) == text
