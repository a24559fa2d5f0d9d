"""Live memory for its chart: the steps of a range as a block (`chart_block`), the rest as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Response
from numpy.typing import NDArray

from tilescope.analyser.diff import align_liveness
from tilescope.analyser.machine.target import Source, parse_source
from tilescope.analyser.memory.charts import ChartRange, ChartSeries, shown_together, step_series
from tilescope.analyser.memory.liveness import curve, named_lifetimes, step_facts
from tilescope.analyser.memory.purposes import has_purposes, purposes
from tilescope.reports import Report
from tilescope.webapp.api.chart_block import AskedRange, pack_chart
from tilescope.webapp.library import Library

__all__ = ["routes"]

_Text = Annotated[str, Query(max_length=400)]


@dataclass(frozen=True)
class _Wanted:
    """What a chart shows of a report."""

    shown: ChartRange
    source: Source
    always: bool
    steps: str
    var: str
    by_purpose: bool


class _Side:
    """A report's live memory over places of the axis, and where the variable lives."""

    def __init__(self, report: Report, places: NDArray[np.int64], wanted: _Wanted) -> None:
        self._live = curve(report, wanted.source)
        self._places = places
        self._wanted = wanted
        is_stated = wanted.by_purpose and has_purposes(report)
        self._purposes = purposes(report, wanted.source) if is_stated else None
        lives = named_lifetimes(report, wanted.var) if wanted.var else ()
        self.lives = [[int(places[first]), int(places[last - 1]) + 1] for first, last in lives]

    def series(self, also: NDArray[np.int64]) -> ChartSeries:
        """Return the series of the range."""
        return step_series(
            self._live,
            self._wanted.shown,
            includes_always_live=self._wanted.always,
            text=self._wanted.steps,
            purposes=self._purposes,
            positions=self._places,
            also=also,
        )


def routes(library: Library) -> APIRouter:
    """Return the routes below ``/api/liveness``."""
    router = APIRouter(prefix="/liveness/{report_id}")

    @router.get("/window")
    def show_window(
        report_id: str,
        shown: AskedRange,
        candidate: Annotated[str, Query(alias="with", max_length=40)] = "",
        source: Annotated[str, Query(max_length=20)] = "all",
        always: bool = False,
        steps: _Text = "",
        var: _Text = "",
        purpose: bool = False,
    ) -> Response:
        """Return the live memory of a range of steps; of two reports over aligned steps."""
        question = _Wanted(shown, parse_source(source), always, steps, var, purpose)
        with library.opened(report_id) as first:
            if not candidate:
                live = curve(first, question.source)
                sides, n_places = [_Side(first, live.step_id, question)], len(live)
            else:
                with library.opened(candidate) as second:
                    pairs = align_liveness(first, second)
                    sides = [
                        _Side(report, place, question)
                        for report, place in zip((first, second), pairs.places, strict=True)
                    ]
                n_places = pairs.n_places
        series = shown_together([side.series for side in sides])
        lives = [side.lives for side in sides]
        block = pack_chart(question.shown, series, n_places, side_lives=lives)
        return Response(block, media_type="application/octet-stream")

    @router.get("/step/{step}")
    def show_step(report_id: str, step: int) -> dict[str, Any]:
        """Return kind and name of a step."""
        with library.opened(report_id) as report:
            kind, name = step_facts(report, step)
        return {"ok": True, "kind": kind, "name": name}

    return router
