"""The machine reference page matches the machine files."""

from __future__ import annotations

from pathlib import Path

from tilescope.engine.machine import FIGURES
from tilescope.engine.machine.describe import PAGE, render
from tilescope.engine.machine.target_options import TARGET_OPTIONS


def test_the_page_is_up_to_date() -> None:
    page = (Path(__file__).parents[3] / PAGE).read_text(encoding="utf-8")
    assert page == render(), "run: python -m tilescope.engine.machine.describe --write"


def test_every_figure_and_option_is_on_the_page() -> None:
    page = render()
    assert [name for name in (*FIGURES, *TARGET_OPTIONS) if f"`{name}`" not in page] == []
