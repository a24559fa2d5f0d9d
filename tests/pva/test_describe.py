"""The page of pva says what the module offers."""

from __future__ import annotations

from pathlib import Path

from pva.describe import PAGE, render

ROOT = Path(__file__).parents[2]


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / PAGE).read_text(encoding="utf-8") == render(), "run `make docs`"


def test_it_names_what_is_not_held_yet() -> None:
    assert "*not held yet*: `vars`, which variables a program uses" in render()
