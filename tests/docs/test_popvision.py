"""The page about PopVision names commands, options and functions that exist."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
from tests.docs.test_docs import full_commands, options_of

PAGE = (Path(__file__).parents[2] / "docs/reference/popvision.md").read_text(encoding="utf-8")
SPANS = re.findall(r"`([^`]+)`", PAGE)


@pytest.mark.parametrize("span", sorted({span for span in SPANS if span.startswith("tilescope ")}))
def test_commands_and_options_exist(span: str) -> None:
    words = span.split()[1:]
    assert (words[0],) in full_commands()
    assert {word for word in words[1:] if word.startswith("-")} <= options_of(words[0])
    assert all(word.startswith("--") for word in words[1:])


@pytest.mark.parametrize("span", sorted({span for span in SPANS if span.startswith("analyser.")}))
def test_functions_exist(span: str) -> None:
    importlib.import_module(f"tilescope.{span}")


def test_every_row_has_an_answer() -> None:
    rows = [line.split("|")[1:-1] for line in PAGE.splitlines() if line.startswith("| ")]
    assert len(rows) > 60
    assert all(len(row) == 2 and all(cell.strip() for cell in row) for row in rows)


def test_every_view_has_a_section() -> None:
    titles = re.findall(r"^## (.+)$", PAGE, re.MULTILINE)
    assert titles == [
        "Shell",
        "Summary",
        "Insights",
        "Memory report",
        "Liveness report",
        "Program tree",
        "Comparison",
        "Operations summary",
        "Operations graph, computation graph",
        "Execution trace",
    ]
