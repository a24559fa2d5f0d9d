"""The page of metrics says what the catalogue says."""

from __future__ import annotations

from pathlib import Path

from tilescope.analyser.describe import PAGE, render
from tilescope.analyser.metrics import METRICS

ROOT = Path(__file__).parents[2]


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / PAGE).read_text(encoding="utf-8") == render(), "run `make docs`"


def test_every_metric_is_on_it() -> None:
    assert all(render().count(f"| `{name}` |") == 1 for name in METRICS)
