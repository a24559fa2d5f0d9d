"""``tilescope notes``: lists, writes, removes and copies notes beside a report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.generated_report import generate_report

Run = Callable[..., Any]


def test_notes_are_written_copied_and_removed(tilescope: Run, tmp_path: Path) -> None:
    reports = [
        generate_report(tmp_path / name, n_tiles=8, n_ipus=1, n_steps=24, n_variables=5, n_runs=1)
        for name in ("one", "other")
    ]
    assert "No notes on" in tilescope("notes", reports[0]).out
    out = tilescope("notes", reports[0], "--add", "look here", "--range", ":").out
    assert "look here" in out
    (note,) = tilescope("notes", reports[0], "--json").json()["notes"]
    assert note["start_cycle"] is not None
    assert "1 new note" in tilescope("notes", reports[1], "--from", reports[0]).out
    assert tilescope("notes", reports[1], "--json").json()["notes"] == [note]
    assert "No notes" in tilescope("notes", reports[1], "--remove", note["note_id"]).out
    assert tilescope("notes", reports[0], "--json").json()["notes"] == [note]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--add", "x"), "--add and --range go together"),
        (("--range", "1:2"), "--add and --range go together"),
        (("--remove", "1", "--from", "."), "mutually exclusive"),
        (("--remove", "1"), "this note is not beside the report"),
        (("--add", "x", "--range", "soon"), "a range of cycles such as"),
    ],
)
def test_bad_questions_are_one_sentence(
    tilescope: Run, reports_directory: Path, arguments: tuple[str, str], said: str
) -> None:
    finished = tilescope("notes", reports_directory / "baseline", *arguments)
    assert finished.code == 2
    assert said in finished.err
    assert len(finished.err.strip().splitlines()) == 1
