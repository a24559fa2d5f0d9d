"""What the trace's viewer asks of one report and of two: the parameters, defined once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, Query

from tilescope.analyser import trace
from tilescope.analyser.errors import BadQuestion

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = [
    "Cycle",
    "MatchQuestion",
    "SliceQuestion",
    "WindowQuestion",
    "first_or_reason",
    "numbers_of",
    "words_of",
]

Cycle = Annotated[int, Query(ge=-(2**53), le=2**53)]
_Text = Annotated[str, Query(max_length=200)]
_View = Annotated[str, Query(max_length=10)]


@dataclass(frozen=True)
class _Window:
    """A range, the width it is drawn on, and the lanes to draw."""

    start: Cycle
    end: Cycle
    width: Annotated[int, Query(ge=1, le=20_000)]
    ipus: _Text = ""
    collapsed: _Text = ""
    tiles: _Text = ""
    view: _View = "flame"
    steps: bool = False

    @property
    def place(self) -> tuple[int, int, int, trace.Lanes]:
        """Range, width and lanes, as `analyser.trace.window` takes them."""
        lanes = trace.Lanes(
            numbers_of(self.ipus),
            self.view,
            numbers_of(self.collapsed) or [],
            numbers_of(self.tiles) or [],
            self.steps,
        )
        return self.start, self.end, self.width, lanes


@dataclass(frozen=True)
class _Slice:
    """A place in a lane."""

    ipu: int
    track: int
    level: int
    cycle: Cycle
    view: _View = "flame"

    @property
    def place(self) -> tuple[int, int, int, int, str]:
        """IPU, track, level, cycle and view, as `analyser.trace.slice_at` takes them."""
        return self.ipu, self.track, self.level, self.cycle, self.view


@dataclass(frozen=True)
class _Match:
    """A text in names of steps, and which of its executions: a number, or a cycle to begin at."""

    text: _Text
    number: Annotated[int | None, Query(ge=1, le=2**53)] = None
    cycle: Cycle = 0
    direction: Annotated[str, Query(max_length=10)] = "next"
    ipus: _Text = ""
    hide: _Text = ""

    @property
    def options(self) -> dict[str, Any]:
        """The rest but the cycle, as `analyser.trace.match` takes it."""
        return {
            "number": self.number,
            "direction": self.direction,
            "ipus": numbers_of(self.ipus),
            "hidden": words_of(self.hide),
        }


WindowQuestion = Annotated[_Window, Depends()]
SliceQuestion = Annotated[_Slice, Depends()]
MatchQuestion = Annotated[_Match, Depends()]


def numbers_of(text: str) -> list[int] | None:
    """Return the numbers of a list such as ``0,1,5``; None for an empty one, which means all.

    Raises
    ------
    BadQuestion
        When it is not one.
    """
    if not text:
        return None
    try:
        return [int(part) for part in text.split(",") if part]
    except ValueError:
        raise BadQuestion(f"'{text[:40]}' is not a list of numbers; write 0,1,5") from None


def words_of(text: str) -> list[str]:
    """Return the words of a list such as ``sync,exchange``."""
    return [part for part in text.split(",") if part]


def first_or_reason(report: Report, step_id: int) -> tuple[trace.Occurrence | None, str]:
    """Return the first execution of a step, or None with the reason in a sentence."""
    try:
        execution = trace.first_execution(report, step_id)
    except BadQuestion as error:
        return None, str(error)
    return execution, "" if execution else f"Step {step_id:,} did not run"
