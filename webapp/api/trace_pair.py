"""Two traces on one axis for the viewer, and their difference flame.

A side, 0 for the baseline and 1 for the candidate, answers as ``/api/trace`` does; cycles asked
for and cycles of bars are places on the common axis. Slices and executions have both:
``start_cycle`` and ``end_cycle`` on the axis, ``own_start_cycle`` and ``own_end_cycle`` in cycles
of their report.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Response

from tilescope.analyser import trace
from tilescope.analyser.diff import TracePair, difference_flame
from tilescope.analyser.machine.target import target
from tilescope.analyser.summary.overview import why_no_run
from tilescope.webapp.api.trace import pack_window
from tilescope.webapp.api.trace_question import (
    MatchQuestion,
    SliceQuestion,
    WindowQuestion,
    first_or_reason,
)
from tilescope.webapp.library import Library

__all__ = ["routes"]

_Name = Annotated[str, Query(max_length=2_000)]


@dataclass(frozen=True)
class _Side:
    """One of two reports on their common axis, as a path names it."""

    report_id: str
    candidate_id: str
    align: str
    side: Annotated[int, Path(ge=0, le=1)]


_OneSide = Annotated[_Side, Depends()]


def routes(library: Library) -> APIRouter:
    """Return the routes below ``/api/trace-pair``."""
    router = APIRouter(prefix="/trace-pair/{report_id}/{candidate_id}")

    @contextmanager
    def opened(one: _Side) -> Iterator[TracePair]:
        with (
            library.opened(one.report_id) as baseline,
            library.opened(one.candidate_id) as candidate,
        ):
            yield TracePair(baseline, candidate, one.align)

    @router.get("/flame")
    def show_flame(
        report_id: str,
        candidate_id: str,
        node: _Name = "",
        width: Annotated[int, Query(ge=1, le=20_000)] = 1600,
    ) -> dict[str, Any]:
        """Return the difference flame below a path, without what is narrower than half a pixel."""
        with opened(_Side(report_id, candidate_id, "step", 0)) as pair:
            flame = difference_flame(pair.baseline, pair.candidate)
            root = flame.find(node)
            rows = flame.rows(root, smallest=0.5 / width)
            above = [flame.row(row) for row in _above(flame.parent.tolist(), root)]
        return {
            "ok": True,
            "basis": flame.basis,
            "n_runs": flame.n_runs,
            "n_rows": len(flame.labels),
            "above": [asdict(row) for row in above],
            "rows": [asdict(row) for row in rows],
        }

    @router.get("/{align}/{side}/extent")
    def show_extent(one: _OneSide) -> dict[str, Any]:
        """Return the extent of the axis, and runs with their own length and groups of a side."""
        with opened(one) as pair:
            extent = pair.extent(one.side)
            runs = trace.extent(pair.report(one.side)).runs
            clock_hz = target(pair.baseline).clock_hz if extent.runs else 0.0
            n_paired = pair.axis.n_paired
            why = why_no_run(pair.report(one.side))
        kinds = [asdict(kind) for kind in trace.KINDS]
        answer = {"ok": True, **asdict(extent), "clock_hz": clock_hz, "kinds": kinds}
        for placed, run in zip(answer["runs"], runs, strict=True):
            placed["own_cycles"] = run.end_cycle - run.start_cycle
        return {**answer, "n_paired": n_paired, "why_empty": why}

    @router.get("/{align}/{side}/window")
    def show_window(one: _OneSide, question: WindowQuestion) -> Response:
        """Return the bars of a range, at a level of detail that fits its width."""
        with opened(one) as pair:
            window = pair.window(one.side, *question.place)
        return Response(pack_window(window), media_type="application/octet-stream")

    @router.get("/{align}/{side}/slice")
    def show_slice(one: _OneSide, question: SliceQuestion) -> dict[str, Any]:
        """Return the slice at a place of a lane, or null."""
        with opened(one) as pair:
            slice_ = pair.slice_at(one.side, *question.place)
            return {
                "ok": True,
                "slice": None if slice_ is None else _placed(pair, one.side, slice_),
            }

    @router.get("/{align}/match")
    def find_match(
        report_id: str, candidate_id: str, align: str, question: MatchQuestion
    ) -> dict[str, Any]:
        """Return an execution of either side that a text is found in, its number and side."""
        with opened(_Side(report_id, candidate_id, align, 0)) as pair:
            side, match = pair.match(question.text, position=question.cycle, **question.options)
            occurrence = match.occurrence
            answer = (
                None if occurrence is None else {**_placed(pair, side, occurrence), "side": side}
            )
        return {
            "ok": True,
            "occurrence": answer,
            "number": match.number,
            "n_matches": match.n_matches,
        }

    @router.get("/{align}/{side}/step/{step_id}/first")
    def find_first(one: _OneSide, step_id: int) -> dict[str, Any]:
        """Return the first execution of a step, or null with the reason: a link may be old."""
        with opened(one) as pair:
            execution, why = first_or_reason(pair.report(one.side), step_id)
            answer = None if execution is None else _placed(pair, one.side, execution)
        return {"ok": True, "occurrence": answer, "why": why}

    return router


def _placed(pair: TracePair, side: int, found: trace.Slice | trace.Occurrence) -> dict[str, Any]:
    """Return a slice or execution with places and own cycles."""
    axis, answer = pair.axis, asdict(found)
    answer["own_start_cycle"], answer["own_end_cycle"] = found.start_cycle, found.end_cycle
    answer["start_cycle"] = axis.place(side, found.start_cycle)
    answer["end_cycle"] = axis.place(side, found.end_cycle, is_end=True)
    return answer


def _above(parents: list[int], row: int) -> list[int]:
    """Return the rows around one, the outermost first."""
    levels: list[int] = []
    while (row := parents[row]) >= 0:
        levels.append(row)
    return levels[::-1]
