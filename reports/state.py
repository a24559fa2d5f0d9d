"""The state of a report: running, ended early, damaged or complete. It is decided here only."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

__all__ = [
    "ENDED_EARLY",
    "FINISHED",
    "PROGRAM",
    "TRACE_SUFFIX",
    "ReportState",
    "State",
    "has_begun",
    "is_trace_name",
    "is_unfinished_name",
    "sign_of_life",
    "state_after",
    "unfinished_reports",
]

#: Milestone that seals the report of an engine that finished.
FINISHED = "finished"
#: Milestone that seals the report of an engine that was closed by an exception or an interrupt.
ENDED_EARLY = "ended early"

#: Milestones of a report before what was compiled, and by whom, is in it: ``program`` is the part
#: that other runs of the same program begin with.
PROGRAM = "program"
_BEGINNINGS = frozenset(("created", PROGRAM))

#: Ending of the names of hosts' traces, which keep their names from their beginning.
TRACE_SUFFIX = ".pvti"
_UNFINISHED_NAME = re.compile(r"profile_[0-9a-f]+\.pop")
#: Files whose time of modification is a sign of life; the writer touches the last once a second.
_SUFFIXES = ("", "-wal", "-shm")
#: Files that claim to be written later than this after now have a wrong date, in seconds.
_FUTURE_S = 60.0
#: Without locks, an engine is alive if its last sign of life is at most this old, in seconds.
_SILENCE_S = 30.0


def has_begun(milestones: Sequence[str]) -> bool:
    """Return whether a report holds a compilation."""
    return bool(milestones) and milestones[-1] not in _BEGINNINGS


class State(StrEnum):
    """What became of the run that a report describes."""

    RUNNING = "running"
    ENDED_EARLY = "ended early"
    DAMAGED = "damaged"
    COMPLETE = "complete"


@dataclass(frozen=True)
class ReportState:
    """The state of a report.

    Parameters
    ----------
    state
        The state.
    sign_of_life
        Last time that the engine wrote, seconds since 1970; None for a complete or damaged report.
    damage
        Description of the damage in a sentence; empty unless the report is damaged.
    """

    state: State
    sign_of_life: float | None = None
    damage: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether the engine finished and no damage is known."""
        return self.state is State.COMPLETE

    @property
    def sentence(self) -> str:
        """The state in one sentence; empty if the report is complete."""
        match self.state:
            case State.RUNNING:
                return (
                    "The engine is still running; its last sign of life was at"
                    f" {_clock(self.sign_of_life)}. The report shows the runs recorded so far."
                )
            case State.ENDED_EARLY:
                return (
                    "The run ended early: its engine was killed, interrupted or closed by an error,"
                    f" and last wrote at {_clock(self.sign_of_life)}. The report shows the runs"
                    " recorded until then."
                )
            case State.DAMAGED:
                return f"The report is damaged: {self.damage}"
        return ""

    @property
    def clause(self) -> str:
        """The state as what follows the name of the report in a sentence; empty if complete."""
        match self.state:
            case State.RUNNING:
                return (
                    "is still being written; the last sign of life of its engine was at"
                    f" {_clock(self.sign_of_life)}"
                )
            case State.ENDED_EARLY:
                return f"ended early; its engine last wrote at {_clock(self.sign_of_life)}"
            case State.DAMAGED:
                return "is damaged"
        return ""

    @property
    def advice(self) -> str:
        """What helps who needs the complete report, an imperative; empty if it is complete."""
        match self.state:
            case State.RUNNING:
                return "wait until the engine finishes"
            case State.ENDED_EARLY:
                return "run the program again"
            case State.DAMAGED:
                return "copy it again from its source, or run the program again"
        return ""

    def as_json(self) -> dict[str, object]:
        """Return the state for JSON output: ``state``, ``sign_of_life_s`` and ``sentence``."""
        return {
            "state": str(self.state),
            "sign_of_life_s": self.sign_of_life,
            "sentence": self.sentence,
        }


def state_after(milestone: str, file: Path) -> ReportState:
    """Return the state of an undamaged report from its last milestone, at this moment.

    A held lock is life. Where locks are not supported, the last sign of life decides.

    Parameters
    ----------
    milestone : str
        Name of the last milestone of the report.
    file : Path
        Path of the report.
    """
    if milestone == FINISHED:
        return ReportState(State.COMPLETE)
    life = sign_of_life(file)
    may_run = is_unfinished_name(file) or is_trace_name(file)
    if milestone == ENDED_EARLY or not may_run:
        return ReportState(State.ENDED_EARLY, life)
    return ReportState(State.RUNNING if _is_alive(file, life) else State.ENDED_EARLY, life)


def is_unfinished_name(file: Path) -> bool:
    """Return whether a file has the name of a report that is being written, or ended early."""
    return bool(_UNFINISHED_NAME.fullmatch(file.name))


def is_trace_name(file: Path) -> bool:
    """Return whether a file has the name of a host's trace, finished or not."""
    return file.suffix == TRACE_SUFFIX


def unfinished_reports(directory: Path) -> list[Path]:
    """Return the unfinished reports of a directory, last sign of life first.

    Raises
    ------
    OSError
        The directory cannot be read.
    """
    dated = []
    for name in os.listdir(directory):
        file = directory / name
        if not is_unfinished_name(file):
            continue
        try:
            status = file.stat()
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            life = sign_of_life(file) or 0.0
            dated.append((life if life <= time.time() + _FUTURE_S else 0.0, file))
    return [file for _, file in sorted(dated, reverse=True)]


def sign_of_life(file: Path) -> float | None:
    """Return when an engine last wrote a report, seconds since 1970; None if it is missing."""
    times = []
    for suffix in _SUFFIXES:
        try:
            times.append(os.stat(f"{file}{suffix}").st_mtime)
        except OSError:
            continue
    return max(times, default=None)


def _is_alive(file: Path, life: float | None) -> bool:
    """Return whether a file is being written: of a directory's reports, at most one is."""
    is_trace = is_trace_name(file)
    is_locked = _is_locked(file if is_trace else file.parent)
    if is_locked is None:
        return life is not None and abs(time.time() - life) <= _SILENCE_S
    return is_locked and (is_trace or _written_last(unfinished_reports(file.parent)) == file.name)


def _written_last(files: Sequence[Path]) -> str:
    """Return the name of the file whose last sign of life is nearest to now."""
    now = time.time()
    nearest = min(files, key=lambda file: abs(now - (sign_of_life(file) or 0.0)), default=None)
    return "" if nearest is None else nearest.name


def _is_locked(path: Path) -> bool | None:
    """Return whether a writer locks a directory or a trace; None where that is unknown."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return True if error.errno in (errno.EWOULDBLOCK, errno.EACCES) else None
    finally:
        os.close(descriptor)
    return False


def _clock(moment: float | None) -> str:
    """Return a moment as people read it, in UTC."""
    if moment is None:
        return "an unknown time"
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
