"""The state of a file that should be a report, in words that lists show."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tilescope.reports import (
    NotAReport,
    ReportError,
    ReportNotFound,
    ReportState,
    State,
    UnsupportedSchema,
    report_state,
)
from tilescope.reports.state import state_after

__all__ = ["FileState", "named_state", "read_state", "without_path"]


@dataclass(frozen=True)
class FileState:
    """What is known of the state of a report file.

    Parameters
    ----------
    label
        Some words: a value of `State`, or why the file is not a report.
    sentence
        The state in a sentence without the path of the file; empty if complete.
    sign_of_life
        Last time that the engine wrote, seconds since 1970.
    is_verified
        Whether all of it was verified.
    """

    label: str
    sentence: str = ""
    sign_of_life: float | None = None
    is_verified: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether the report is complete, as far as is known."""
        return self.label == State.COMPLETE

    @property
    def is_running(self) -> bool:
        """Whether the engine of the report still runs."""
        return self.label == State.RUNNING

    @property
    def is_sound(self) -> bool:
        """Whether the file is a report without known damage."""
        return self.label in (State.COMPLETE, State.RUNNING, State.ENDED_EARLY)


def read_state(path: Path, label: str) -> FileState:
    """Return the state of a file, by opening it.

    Parameters
    ----------
    path
        The file.
    label
        Name of the report in sentences.

    Raises
    ------
    ReportNotFound
        The file is gone.
    """
    try:
        state = report_state(path)
    except ReportNotFound:
        if not path.exists():
            raise
        return FileState("cannot be read")
    except (NotAReport, UnsupportedSchema) as error:
        is_foreign = isinstance(error, NotAReport)
        words = "not a report" if is_foreign else "another schema version"
        return FileState(words, without_path(str(error), path, label))
    except ReportError as error:
        return FileState("cannot be read", without_path(str(error), path, label))
    if state is None:  # it holds no data
        state = state_after("", path)
    return named_state(state, path, label)


def named_state(state: ReportState, path: Path, label: str) -> FileState:
    """Return a state with a sentence that names the report by its label."""
    sentence = without_path(state.sentence, path, label)
    return FileState(str(state.state), sentence, state.sign_of_life)


def without_path(sentence: str, path: Path, label: str) -> str:
    """Return a sentence that names a report by its label."""
    return sentence.replace(str(path), label)
