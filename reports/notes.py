"""Notes beside a report: texts on parts of its trace, bound to steps rather than to cycles.

They are no part of the report, whose file stays as the engine sealed it, but lie beside it, in
``profile.notes.json`` for ``profile.pop``: so they outlive a report that the next run replaces.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tilescope.reports.errors import BadNotes

__all__ = [
    "MOST_NOTES",
    "MOST_TEXT",
    "Anchor",
    "Note",
    "notes_path",
    "pack_notes",
    "read_notes",
    "unpack_notes",
    "write_notes",
]

#: Most notes of a report, most characters of a text and of the name of a step.
MOST_NOTES = 500
MOST_TEXT = 300
_MOST_NAME = 5_000
_MOST_BYTES = 4 << 20
_FORMAT = "tilescope notes"
_VERSION = 1
_MOST_NUMBER = 2**53


@dataclass(frozen=True)
class Anchor:
    """An execution by what it is, not when: the nth of the steps of a name and kind in a run.

    Attributes
    ----------
    ipu_id, run
        IPU, and number of the run from 0.
    step, kind
        Name of the step, and kind of its slices, such as ``exchange``.
    occurrence
        How many executions of such steps come before it in the run, on the IPU's compute track.
    """

    ipu_id: int
    run: int
    step: str
    kind: str
    occurrence: int


@dataclass(frozen=True)
class Note:
    """A text on what lies from the start of one execution to the end of another."""

    note_id: str
    text: str
    start: Anchor
    end: Anchor


def notes_path(report_path: Path) -> Path:
    """Return the file with the notes of a report."""
    return report_path.with_name(f"{report_path.stem}.notes.json")


def read_notes(report_path: Path) -> list[Note]:
    """Return the notes of a report; none where there is no file.

    Raises
    ------
    BadNotes
        When the file is not one with notes.
    """
    path = notes_path(report_path)
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise BadNotes(f"the notes {path} cannot be read: {error.strerror}") from None
    try:
        if len(content) > _MOST_BYTES:
            raise ValueError(f"larger than {_MOST_BYTES >> 20} MiB")
        data = json.loads(content)
        if not isinstance(data, dict) or data.get("format") != _FORMAT:
            raise ValueError(f"its format is not '{_FORMAT}'")
        if data.get("version") != _VERSION:
            raise ValueError(f"its version is not {_VERSION}")
        return _notes(data.get("notes"))
    except (ValueError, RecursionError) as error:
        reason = "no JSON" if isinstance(error, json.JSONDecodeError | RecursionError) else error
        raise BadNotes(
            f"the notes {path} cannot be used: {reason}; correct the file or move it away"
        ) from None


def write_notes(report_path: Path, notes: Sequence[Note]) -> None:
    """Replace the notes of a report, whole or not at all.

    Raises
    ------
    BadNotes
        When they are too many or cannot be written.
    """
    path = notes_path(report_path)
    if len(notes) > MOST_NOTES:
        raise BadNotes(f"a report has at most {MOST_NOTES} notes; remove some of {path}")
    data = {"format": _FORMAT, "version": _VERSION, "notes": [asdict(note) for note in notes]}
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        with draft.open("x", encoding="utf-8") as file:
            json.dump(data, file, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise BadNotes(
            f"the notes {path} cannot be written: {error.strerror}; they stay as they were"
        ) from None


def pack_notes(notes: Sequence[Note]) -> str:
    """Return notes as a text for an address."""
    rows = [
        [
            note.note_id,
            note.text,
            *(list(asdict(place).values()) for place in (note.start, note.end)),
        ]
        for note in notes
    ]
    content = json.dumps(rows, separators=(",", ":"), ensure_ascii=False)
    return base64.urlsafe_b64encode(content.encode()).decode().rstrip("=")


def unpack_notes(text: str) -> list[Note]:
    """Return the notes of an address.

    Raises
    ------
    BadNotes
        When the text has none.
    """
    keys = tuple(Anchor.__dataclass_fields__)
    try:
        rows = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        return _notes(
            [
                {
                    "note_id": note_id,
                    "text": words,
                    "start": dict(zip(keys, start, strict=True)),
                    "end": dict(zip(keys, end, strict=True)),
                }
                for note_id, words, start, end in rows
            ]
        )
    except (ValueError, TypeError, RecursionError, binascii.Error):
        raise BadNotes("the notes in the address are damaged; remove 'notes' from it") from None


def _notes(rows: Any) -> list[Note]:
    """Return notes from what JSON says they are."""
    if not isinstance(rows, list) or len(rows) > MOST_NOTES:
        raise ValueError(f"it has no list of at most {MOST_NOTES} notes")
    notes = []
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise ValueError(f"note {number} is not an object")
        note_id, text = row.get("note_id"), row.get("text")
        if not isinstance(note_id, str) or not re.fullmatch(r"[0-9a-f]{1,32}", note_id):
            raise ValueError(f"note {number} has no note_id of hexadecimal digits")
        if not isinstance(text, str) or not 1 <= len(text) <= MOST_TEXT:
            raise ValueError(f"note {number} has no text of 1 to {MOST_TEXT} characters")
        start, end = (
            _anchor(row.get(name), f"{name} of note {number}") for name in ("start", "end")
        )
        notes.append(Note(note_id, text, start, end))
    return notes


def _anchor(row: Any, where: str) -> Anchor:
    """Return an anchor from what JSON says it is."""
    if not isinstance(row, dict):
        raise ValueError(f"the {where} is not an object")
    texts = [row.get(name) for name in ("step", "kind")]
    numbers = [row.get(name) for name in ("ipu_id", "run", "occurrence")]
    if not all(isinstance(text, str) and len(text) <= _MOST_NAME for text in texts):
        raise ValueError(f"the {where} names no step and kind")
    if not all(type(n) is int and 0 <= n <= _MOST_NUMBER for n in numbers):
        raise ValueError(f"the {where} has no ipu_id, run and occurrence from 0")
    return Anchor(row["ipu_id"], row["run"], row["step"], row["kind"], row["occurrence"])
