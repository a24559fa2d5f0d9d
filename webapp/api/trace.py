"""The execution trace for its viewer: bars of a window as packed columns, the rest as JSON.

A window is one binary block: the length of the header (uint32), the header (JSON, padded with
spaces to a multiple of eight bytes from the block's start), then the columns in this order, all
little-endian and ``n_bars`` values long:
``start`` and ``duration`` (float64, cycles, start counted from the header's ``start_cycle``),
``name`` (int32, -1 for merged bars), ``count`` (int32), ``lane`` (uint16), ``kind`` (uint8). A row
of the header's ``n_kinds`` shares (uint8, 255ths of its cycles) follows for every merged bar, in
order of bars. Then, if the header has ``has_longest``, zero bytes to a multiple of four from the
block's start, and a value for every merged bar of ``longest_name`` (int32, the name of the longest
of its slices, the first of equal ones; -1 if none) and ``longest_cycles`` (float32, its length).
"""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Response

from tilescope.analyser import trace
from tilescope.analyser.machine.target import target
from tilescope.analyser.summary.overview import why_no_run
from tilescope.webapp.api.trace_question import (
    MatchQuestion,
    SliceQuestion,
    WindowQuestion,
    first_or_reason,
    numbers_of,
    words_of,
)
from tilescope.webapp.library import Library

__all__ = ["pack_window", "routes"]

_MAX_COUNT = 2**31 - 1
_MOST_ROWS = 1_000_000
_MaybeCycle = Annotated[int | None, Query(ge=-(2**53), le=2**53)]
_Text = Annotated[str, Query(max_length=200)]


def routes(library: Library) -> APIRouter:
    """Return the routes below ``/api/trace``."""
    router = APIRouter(prefix="/trace/{report_id}")

    @router.get("/extent")
    def show_extent(report_id: str) -> dict[str, Any]:
        """Return the trace's first and last cycle, runs, groups and kinds."""
        with library.opened(report_id) as report:
            extent = trace.extent(report)
            clock_hz = target(report).clock_hz if extent.runs else 0.0
            why = why_no_run(report)
        kinds = [asdict(kind) for kind in trace.KINDS]
        facts = {"clock_hz": clock_hz, "kinds": kinds, "why_empty": why}
        return {"ok": True, **asdict(extent), **facts}

    @router.get("/names")
    def list_names(report_id: str) -> Response:
        """Return the names that bars refer to by number."""
        with library.opened(report_id) as report:
            names = trace.names(report)
        # FastAPI's own encoder takes most of a second for tens of thousands of names.
        answer = {"ok": True, "labels": names.labels, "parents": names.parents}
        return Response(json.dumps(answer), media_type="application/json")

    @router.get("/window")
    def show_window(report_id: str, question: WindowQuestion) -> Response:
        """Return the bars of a range, at a level of detail that fits its width."""
        with library.opened(report_id) as report:
            window = trace.window(report, *question.place)
        return Response(pack_window(window), media_type="application/octet-stream")

    @router.get("/summary")
    def summarise(
        report_id: str,
        start: _MaybeCycle = None,
        end: _MaybeCycle = None,
        ipus: _Text = "",
        top: Annotated[int, Query(ge=0, le=1000)] = 20,
    ) -> dict[str, Any]:
        """Return the figures of a range."""
        with library.opened(report_id) as report:
            summary = trace.range_summary(report, start, end, numbers_of(ipus), top=top)
        return {"ok": True, **asdict(summary)}

    @router.get("/waits")
    def list_waits(
        report_id: str, start: _MaybeCycle = None, end: _MaybeCycle = None, ipus: _Text = ""
    ) -> dict[str, Any]:
        """Return who waits for whom in a range: the 200 longest waits, and the figures of all."""
        with library.opened(report_id) as report:
            waits = trace.waits(report, start, end, numbers_of(ipus))
        return {"ok": True, **asdict(waits)}

    @router.get("/critical/{run_id}")
    def list_critical_spans(report_id: str, run_id: int) -> dict[str, Any]:
        """Return where the critical path of a run lies."""
        with library.opened(report_id) as report:
            spans = trace.critical_spans(report, run_id)
        return {"ok": True, "spans": [asdict(span) for span in spans]}

    @router.get("/slice")
    def find_slice(report_id: str, question: SliceQuestion) -> dict[str, Any]:
        """Return the slice of a lane at a cycle, or null."""
        with library.opened(report_id) as report:
            slice_ = trace.slice_at(report, *question.place)
        return {"ok": True, "slice": None if slice_ is None else asdict(slice_)}

    @router.get("/search")
    def find_text(
        report_id: str,
        text: _Text,
        limit: Annotated[int, Query(ge=1, le=1000)] = 50,
        ipus: _Text = "",
        hide: _Text = "",
    ) -> dict[str, Any]:
        """Return the steps whose name contains a text."""
        with library.opened(report_id) as report:
            match = trace.search(report, text, limit, numbers_of(ipus), hidden=words_of(hide))
        return {"ok": True, **asdict(match)}

    @router.get("/match")
    def find_match(report_id: str, question: MatchQuestion) -> dict[str, Any]:
        """Return an execution that a text is found in, its number, and how many there are."""
        with library.opened(report_id) as report:
            match = trace.match(report, question.text, cycle=question.cycle, **question.options)
        return {"ok": True, **asdict(match)}

    @router.get("/executions.csv")
    def list_executions(
        report_id: str,
        start: _MaybeCycle = None,
        end: _MaybeCycle = None,
        ipus: _Text = "",
        hide: _Text = "",
    ) -> Response:
        """Return the executions of a range as CSV, the first million of them."""
        with library.opened(report_id) as report:
            hidden = words_of(hide)
            executions = trace.executions(
                report, start, end, numbers_of(ipus), hidden=hidden, limit=_MOST_ROWS
            )
        name = 'attachment; filename="executions.csv"'
        return Response(
            _as_csv(executions.rows), media_type="text/csv", headers={"Content-Disposition": name}
        )

    @router.get("/step/{step_id}")
    def show_step(report_id: str, step_id: int) -> dict[str, Any]:
        """Return the cost and vertices of a step."""
        with library.opened(report_id) as report:
            details = asdict(trace.step_details(report, step_id))
        for cost in details["costs"]:
            histogram = cost["histogram"]
            for name in ("edges_cycles", "n_tiles"):
                histogram[name] = histogram[name].tolist()
        return {"ok": True, **details}

    @router.get("/step/{step_id}/first")
    def find_first(report_id: str, step_id: int) -> dict[str, Any]:
        """Return the first execution of a step, or null with the reason: a link may be old."""
        with library.opened(report_id) as report:
            execution, why = first_or_reason(report, step_id)
        return {
            "ok": True,
            "occurrence": None if execution is None else asdict(execution),
            "why": why,
        }

    return router


def _as_csv(rows: list[trace.Execution]) -> str:
    """Return executions as CSV, a line each."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("ipu", "track", "step", "kind", "start_cycle", "end_cycle", "cycles", "name"))
    writer.writerows(
        (
            row.ipu_id,
            row.track,
            row.step_id,
            row.kind,
            row.start_cycle,
            row.end_cycle,
            row.end_cycle - row.start_cycle,
            # A name that a spreadsheet would take for a formula is a text.
            f"'{row.name}" if row.name[:1] in {"=", "+", "-", "@"} else row.name,
        )
        for row in rows
    )
    return text.getvalue()


def pack_window(found: trace.Window) -> bytes:
    """Return a window as one binary block; the module's docstring defines the layout."""
    header = {
        "start_cycle": found.start_cycle,
        "end_cycle": found.end_cycle,
        "n_pixels": found.n_pixels,
        "n_bars": len(found.lane),
        "n_slices": found.n_slices,
        "n_kinds": found.bars.share.shape[1],
        "has_longest": True,
        "lanes": [[lane.ipu_id, lane.track, lane.level] for lane in found.lanes],
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 4) % 8)
    bars = found.bars
    is_merged = bars.count > 1
    # Bars take 8 + 8 + 4 + 4 + 2 + 1 bytes, and begin at a multiple of eight.
    n_bytes = 27 * len(is_merged) + header["n_kinds"] * int(is_merged.sum())
    return b"".join(
        (
            np.asarray([len(text)], "<u4").tobytes(),
            text,
            (bars.start_cycle - found.start_cycle).astype("<f8").tobytes(),
            (bars.end_cycle - bars.start_cycle).astype("<f8").tobytes(),
            bars.name.astype("<i4").tobytes(),
            np.minimum(bars.count, _MAX_COUNT).astype("<i4").tobytes(),
            found.lane.astype("<u2").tobytes(),
            bars.kind.astype("u1").tobytes(),
            bars.share[is_merged].tobytes(),
            bytes(-n_bytes % 4),
            bars.longest_name[is_merged].astype("<i4").tobytes(),
            bars.longest_cycles[is_merged].astype("<f4").tobytes(),
        )
    )
