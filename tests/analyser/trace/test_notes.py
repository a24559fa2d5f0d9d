"""Notes: bound to steps, kept beside the report, harmless when damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilescope import analyser
from tilescope.analyser import trace
from tilescope.analyser.errors import BadQuestion
from tilescope.reports import Report
from tilescope.reports.errors import BadNotes
from tilescope.reports.notes import Anchor, Note, notes_path, read_notes, write_notes

from .conftest import STEPS, executions, loop, sequence, write_report

Make = Callable[..., Report]


def places(report: Report, shared: str = "") -> list[tuple[str, int | None, int | None]]:
    """Return text, start and end of the notes of a report."""
    return [
        (note.text, note.start_cycle, note.end_cycle) for note in trace.placed_notes(report, shared)
    ]


def test_a_note_is_on_whole_executions_and_survives_in_its_file(make: Make) -> None:
    report = make([(0, 0, 0, sequence(100))])  # 100 to 140 is the first step, 140 to 150 the second
    assert places(report) == []
    content = report.path.read_bytes()
    note = trace.add_note(report, 120, 145, 0, "  slow \n here ")
    assert places(report) == [("slow here", 100, 150)]
    assert note.start == Anchor(0, 0, "net/conv1/convolve", "compute", 0)
    assert report.path.read_bytes() == content
    trace.add_note(report, None, None, 0, "all of it")
    assert [text for text, _, _ in places(report)] == ["slow here", "all of it"]
    trace.remove_note(report, note.note_id)
    assert places(report) == [("all of it", 100, 199)]
    with pytest.raises(BadQuestion, match="reload the page"):
        trace.remove_note(report, note.note_id)


def test_a_note_finds_its_steps_in_the_next_report(tmp_path: Path) -> None:
    for name, entries in (
        ("first", sequence(100) + sequence(300)),
        ("later", sequence(1_000) + sequence(5_000)),
        ("less", sequence(100)),
    ):
        (tmp_path / name).mkdir()
        write_report(tmp_path / name, [(0, 0, 0, entries)])
    with (
        analyser.open(tmp_path / "first") as first,
        analyser.open(tmp_path / "later") as later,
        analyser.open(tmp_path / "less") as less,
    ):
        trace.add_note(first, 300, 349, 0, "second round")
        assert trace.copy_notes(first, later) == (1, [])
        assert trace.copy_notes(first, later) == (0, [])
        assert places(later) == [("second round", 5_000, 5_050)]
        n_new, (missing,) = trace.copy_notes(first, less)
        assert n_new == 1
        assert missing == (
            "execution 2 of 'net/conv1/convolve' (compute) in run 0 on IPU 0; this report has 1"
            " there"
        )
        assert places(less) == [("second round", None, None)]


def test_notes_travel_in_an_address(make: Make) -> None:
    report = make([(0, 0, 0, sequence(100))])
    trace.add_note(report, 100, 120, 0, "größer: 5 > 3 & „x“")
    shared = trace.shared_notes(report)
    assert shared.isascii()
    notes_path(report.path).unlink()
    assert places(report) == []
    (note,) = trace.placed_notes(report, shared)
    assert (note.text, note.start_cycle, note.is_shared) == ("größer: 5 > 3 & „x“", 100, True)
    assert trace.shared_notes(report, shared) == shared
    for damaged in ("x", shared[:-9], "W10", "bnVsbA", "é"):
        try:
            assert trace.placed_notes(report, damaged) == []
        except BadNotes as error:
            assert "remove 'notes' from it" in str(error)  # noqa: PT017  either is right


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([1, 3, 5_000]), min_size=1, max_size=4),
    st.integers(0, 10**9),
)
def test_every_execution_can_be_named_and_found(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], choice: int
) -> None:
    entries = []
    start = 0
    for count in counts:
        entries += loop(start, count, (0, 1, 5))
        start = entries[-1][2] + entries[-1][3] * (count - 1)
    path = write_report(tmp_path_factory.mktemp("notes"), [(0, 0, 0, entries)])
    plain = executions(entries)
    low, high, step = plain[choice % len(plain)]
    with analyser.open(path) as report:
        note = trace.add_note(report, low, low + 1, 0, "here")
        assert places(report) == [("here", low, high)]
        before = [
            one
            for one in plain
            if one[2] in range(len(STEPS)) and STEPS[one[2]][:2] == STEPS[step][:2] and one[0] < low
        ]
        assert note.start.occurrence == len(before)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[]", "its format is not"),
        ('{"format": "tilescope notes", "version": 2}', "its version is not 1"),
        ('{"format": "tilescope notes", "version": 1}', "no list of at most 500"),
        ('{"format": "tilescope notes", "version": 1, "notes": [3]}', "note 0 is not an object"),
        (
            '{"format": "tilescope notes", "version": 1, "notes": [{"note_id": "../x"}]}',
            "hexadecimal digits",
        ),
        (
            '{"format": "tilescope notes", "version": 1, "notes": [{"note_id": "1", "text": "a"}]}',
            "the start of note 0 is not an object",
        ),
    ],
)
def test_a_damaged_file_is_named_and_left_alone(make: Make, content: str, said: str) -> None:
    report = make([(0, 0, 0, sequence(100))])
    notes_path(report.path).write_text(content)
    with pytest.raises(BadNotes) as caught:
        trace.placed_notes(report)
    assert said in str(caught.value)
    assert "correct the file or move it away" in str(caught.value)
    with pytest.raises(BadNotes):
        trace.add_note(report, 100, 120, 0, "new")
    assert notes_path(report.path).read_text() == content


def test_bad_notes_are_refused(make: Make) -> None:
    report = make([(0, 0, 0, sequence(100))])
    for start, end, ipu, text, said in (
        (100, 120, 0, " ", "1 to 300 characters; 0"),
        (100, 120, 0, "x" * 301, "301 were given"),
        (120, 100, 0, "x", "is empty"),
        (100, 120, 3, "x", "IPU 3 has no trace"),
        (9_000, 9_100, 0, "x", "nothing runs on IPU 0 in cycles 9,000 to 9,100"),
    ):
        with pytest.raises(BadQuestion) as caught:
            trace.add_note(report, start, end, ipu, text)
        assert said in str(caught.value)
    anchor = Anchor(0, 0, "s", "compute", 0)
    many = [Note(f"{n:x}", "x", anchor, anchor) for n in range(501)]
    with pytest.raises(BadNotes, match="at most 500"):
        write_notes(report.path, many)
    write_notes(report.path, many[:500])
    assert len(read_notes(report.path)) == 500
    assert len(json.loads(notes_path(report.path).read_text())["notes"]) == 500


def test_notes_that_cannot_be_written_stay(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    report = make([(0, 0, 0, sequence(100))])
    trace.add_note(report, 100, 120, 0, "kept")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tilescope.reports.notes.os.fsync", full)
    with pytest.raises(BadNotes, match="No space left on device; they stay"):
        trace.add_note(report, 100, 120, 0, "lost")
    assert [text for text, _, _ in places(report)] == ["kept"]
    assert list(report.path.parent.glob("*.notes.json.*")) == []
