"""Parameters of the URL."""

from __future__ import annotations

import pytest

from tilescope.webapp.view import BadView, parse_number, parse_numbers, parse_range


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("", []), ("3", [3]), (" 3 , 1;2,", [3, 1, 2]), ("5-7,6", [5, 6, 7]), ("63", [63])],
)
def test_numbers(text: str, numbers: list[int]) -> None:
    assert parse_numbers(text, limit=64, noun="tile") == numbers


@pytest.mark.parametrize("text", ["x", "64", "-1", "3-1", "1-99999999999", "1e3", "1-2-3"])
def test_bad_numbers_are_named(text: str) -> None:
    with pytest.raises(BadView, match="from 0 to 63"):
        parse_numbers(text, limit=64, noun="tile")


def test_one_number() -> None:
    assert parse_number({"step": "12"}, "step", noun="step", hint="click one") == 12
    assert parse_number({"step": ""}, "step", noun="step", hint="click one") is None
    assert parse_number({}, "step", noun="step", hint="click one") is None
    for text in ("-1", "x", "1e3", "٣", "9" * 10):
        with pytest.raises(BadView, match="is not a number; click one"):
            parse_number({"step": text}, "step", noun="step", hint="click one")


def test_ranges() -> None:
    assert parse_range({"x": "1:2.5"}, "x") == (1.0, 2.5)
    assert parse_range({}, "x") is None
    for text in ("2:1", "1", "a:b", "1:2:3", "nan:nan", "1:inf"):
        with pytest.raises(BadView):
            parse_range({"x": text}, "x")
