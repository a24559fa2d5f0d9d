from __future__ import annotations

from pathlib import Path

from tilescope.engine.options.describe import PAGE, render

ROOT = Path(__file__).parents[3]


def test_the_reference_page_is_what_the_catalogue_says() -> None:
    assert (ROOT / PAGE).read_text(encoding="utf-8") == render(), "run `make docs`"
