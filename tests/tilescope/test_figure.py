"""``tilescope figure``: files that open without a server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


def test_a_page_holds_all_that_it_needs(
    tilescope: Run, reports_directory: Path, tmp_path: Path
) -> None:
    out = tmp_path / "memory.html"
    finished = tilescope("figure", reports_directory / "baseline", "memory", "--out", out)
    assert finished.code == 0, finished.err
    assert str(out) in finished.out
    text = out.read_text()
    assert "Memory by tile" in text
    assert '<script src="http' not in text


def test_the_data_of_a_comparison_are_json(
    tilescope: Run, reports_directory: Path, tmp_path: Path
) -> None:
    out = tmp_path / "phases.json"
    finished = tilescope(
        "figure", reports_directory / "baseline", "phases",
        "--candidate", reports_directory / "slower", "--out", out,
    )  # fmt: skip
    assert finished.code == 0, finished.err
    bars = {bar["name"]: bar for bar in json.loads(out.read_text())["data"]}
    assert set(bars) == {"Baseline", "Candidate"}


@pytest.mark.parametrize(
    ("name", "words"), [("memory.pdf", ".html or .json"), ("no/a.html", "cannot be written")]
)
def test_a_file_that_cannot_be_written_is_refused(
    tilescope: Run, reports_directory: Path, tmp_path: Path, name: str, words: str
) -> None:
    finished = tilescope(
        "figure", reports_directory / "baseline", "memory", "--out", tmp_path / name
    )
    assert finished.code == 2
    assert words in " ".join(finished.err.replace("│", " ").split())
