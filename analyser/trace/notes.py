"""Notes on the trace: where they are in a report, and what they are bound to."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tilescope.analyser.cache import cached
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.trace.index import Trace, trace_of
from tilescope.analyser.trace.listing import entry_ranges
from tilescope.analyser.trace.view import checked_ipus, checked_range
from tilescope.reports.bars.kinds import KINDS
from tilescope.reports.notes import (
    MOST_TEXT,
    Anchor,
    Note,
    pack_notes,
    read_notes,
    unpack_notes,
    write_notes,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilescope.analyser.time.execution import TrackRow
    from tilescope.reports import Report

__all__ = ["PlacedNote", "add_note", "copy_notes", "placed_notes", "remove_note", "shared_notes"]


@dataclass(frozen=True)
class PlacedNote:
    """A note where it is in this report; half-open range in cycles.

    Attributes
    ----------
    note_id, text
        Of the note.
    ipu_id
        IPU of the range.
    start_cycle, end_cycle
        Where it is; None where this report does not have its steps.
    missing
        What this report does not have, in a sentence; empty if it has all.
    is_shared
        Whether it comes from an address, and not from the file beside the report.
    """

    note_id: str
    text: str
    ipu_id: int
    start_cycle: int | None
    end_cycle: int | None
    missing: str
    is_shared: bool


def placed_notes(report: Report, shared: str = "") -> list[PlacedNote]:
    """Return the notes of a report, and those of an address that it has not, by start.

    Raises
    ------
    BadNotes
        When the file beside the report or the address is damaged.
    """
    own, others = _own_and_shared(report, shared)
    trace = trace_of(report)
    placed = [_placed(trace, note, is_shared=False) for note in own]
    placed += [_placed(trace, note, is_shared=True) for note in others]
    return sorted(placed, key=lambda note: (note.start_cycle is None, note.start_cycle or 0))


def shared_notes(report: Report, shared: str = "") -> str:
    """Return the notes of a report and of an address as a text for an address."""
    own, others = _own_and_shared(report, shared)
    return pack_notes([*own, *others]) if own or others else ""


def _own_and_shared(report: Report, shared: str) -> tuple[list[Note], list[Note]]:
    """Return the notes of a report, and those of an address that it has not."""
    own = read_notes(report.path)
    known = {note.note_id for note in own}
    others = [note for note in unpack_notes(shared) if note.note_id not in known] if shared else []
    return own, others


def add_note(report: Report, start: int | None, end: int | None, ipu_id: int, text: str) -> Note:
    """Write a note on a range: from the first execution that touches it to the last.

    A missing start or end is that of the trace.

    Raises
    ------
    BadQuestion
        For an empty text or range, an unknown IPU, or a range in which nothing runs.
    BadNotes
        When the file beside the report is damaged or cannot be written.
    """
    text = " ".join(text.split())
    if not 1 <= len(text) <= MOST_TEXT:
        raise BadQuestion(f"a note has 1 to {MOST_TEXT} characters; {len(text)} were given")
    trace = trace_of(report)
    checked_ipus(trace, [ipu_id])
    start, end = checked_range(trace, start, end)
    first = _anchor_at(trace, ipu_id, start, end)
    last = _anchor_at(trace, ipu_id, start, end, is_last=True)
    if first is None or last is None:
        raise BadQuestion(
            f"nothing runs on IPU {ipu_id} in cycles {start:,} to {end:,}; mark a range with steps"
        )
    note = Note(secrets.token_hex(6), text, first, last)
    write_notes(report.path, [*read_notes(report.path), note])
    return note


def remove_note(report: Report, note_id: str) -> None:
    """Remove a note from the file beside the report.

    Raises
    ------
    BadQuestion
        When there is none of this id.
    BadNotes
        When the file is damaged or cannot be written.
    """
    notes = read_notes(report.path)
    left = [note for note in notes if note.note_id != note_id]
    if len(left) == len(notes):
        raise BadQuestion("this note is not beside the report; reload the page to see its notes")
    write_notes(report.path, left)


def copy_notes(source: Report, target: Report) -> tuple[int, list[str]]:
    """Write the notes of one report beside another.

    Returns
    -------
    tuple
        How many were new there, and why some have no place in it, in sentences.

    Raises
    ------
    BadNotes
        When a file is damaged or cannot be written.
    """
    there = read_notes(target.path)
    known = {note.note_id for note in there}
    new = [note for note in read_notes(source.path) if note.note_id not in known]
    if new:
        write_notes(target.path, [*there, *new])
    trace = trace_of(target)
    placed = [_placed(trace, note, is_shared=False) for note in new]
    return len(new), [note.missing for note in placed if note.missing]


def _anchor_at(
    trace: Trace, ipu_id: int, low: int, high: int, *, is_last: bool = False
) -> Anchor | None:
    """Return what the first or the last execution that touches a range is; None of none."""
    found: tuple[int, int] | None = None
    for line, first, stop, shift in entry_ranges(trace.track(ipu_id, 0), low, high):
        entry = stop - 1 if is_last else first
        found = int(line.step[entry]), int(line.start[entry]) + shift
        if not is_last:
            break
    if found is None:
        return None
    step_id, begin = found
    number, run = next(
        (n, row)
        for n, row in enumerate(_runs(trace, ipu_id))
        if row.start_cycle <= begin < row.end_cycle
    )
    mask = _same(trace, trace.steps.name[step_id], int(trace.step_kinds[step_id]))
    parts = entry_ranges(trace.track(ipu_id, 0), run.start_cycle, max(begin, run.start_cycle + 1))
    before = sum(
        int(
            np.count_nonzero(mask[line.step[first:stop]] & (line.start[first:stop] + shift < begin))
        )
        for line, first, stop, shift in parts
    )
    kind = KINDS[int(trace.step_kinds[step_id])].name
    return Anchor(ipu_id, number, trace.steps.name[step_id], kind, before)


def _runs(trace: Trace, ipu_id: int) -> list[TrackRow]:
    """Return the runs on an IPU's compute track, in order of time."""
    rows = [row for row in trace.tracks if (row.ipu_id, row.track) == (ipu_id, 0)]
    return sorted(rows, key=lambda row: row.start_cycle)


def _same(trace: Trace, name: str, kind: int) -> NDArray[np.bool_]:
    """Return which steps have a name and kind."""
    same = np.zeros(len(trace.steps.name), np.bool_)
    same[_steps_by_name(trace.report).get(name, [])] = True
    same &= trace.step_kinds == kind
    return same


@cached
def _steps_by_name(report: Report) -> dict[str, list[int]]:
    """Return the steps of every name."""
    found: dict[str, list[int]] = {}
    for step_id, name in enumerate(trace_of(report).steps.name):
        found.setdefault(name, []).append(step_id)
    return found


def _place(trace: Trace, anchor: Anchor) -> tuple[int, int] | str:
    """Return where an execution is, or what the report does not have."""
    runs = _runs(trace, anchor.ipu_id) if anchor.ipu_id in trace.ipus else []
    if anchor.run >= len(runs):
        return f"IPU {anchor.ipu_id} has no run {anchor.run}"
    numbers = {kind.name: kind.number for kind in KINDS}
    mask = _same(trace, anchor.step, numbers.get(anchor.kind, -1))
    left = anchor.occurrence
    if mask.any():
        run = runs[anchor.run]
        for line, first, stop, shift in entry_ranges(
            trace.track(anchor.ipu_id, 0), run.start_cycle, run.end_cycle
        ):
            hits = np.flatnonzero(mask[line.step[first:stop]])
            if left < len(hits):
                entry = first + int(hits[left])
                return int(line.start[entry]) + shift, int(line.end[entry]) + shift
            left -= len(hits)
    ran = anchor.occurrence - left
    return (
        f"execution {anchor.occurrence + 1:,} of '{anchor.step[:80]}' ({anchor.kind}) in run"
        f" {anchor.run} on IPU {anchor.ipu_id}; this report has {ran:,} there"
    )


def _placed(trace: Trace, note: Note, *, is_shared: bool) -> PlacedNote:
    """Return a note where it is."""
    placed = PlacedNote(note.note_id, note.text, note.start.ipu_id, None, None, "", is_shared)
    start, end = _place(trace, note.start), _place(trace, note.end)
    if isinstance(start, str) or isinstance(end, str):
        missing = start if isinstance(start, str) else end
        return replace(placed, missing=str(missing))
    return replace(placed, start_cycle=start[0], end_cycle=max(end[1], start[0] + 1))
