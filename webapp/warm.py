"""Cache warm-up: run the first queries before the first visitor."""

from __future__ import annotations

import logging
import threading

from tilescope.analyser import trace
from tilescope.analyser.advice.insights import insights
from tilescope.analyser.advice.ledger import ledger
from tilescope.analyser.memory.liveness import curve
from tilescope.analyser.memory.tile_memory import tile_memory
from tilescope.analyser.ranking import ranked_insights
from tilescope.analyser.summary.summarise import summarise
from tilescope.webapp.library import Library

__all__ = ["warm_in_background"]

_log = logging.getLogger(__name__)

#: About the width of a trace; what is cached serves every width.
_WIDTH_PX = 1_200


def warm_in_background(library: Library) -> threading.Thread:
    """Run the queries of the first pages for the default report; the analyser caches them."""
    thread = threading.Thread(target=_warm, args=(library,), name="warm", daemon=True)
    thread.start()
    return thread


def _warm(library: Library) -> None:
    """Warm the caches; errors appear later on the page that repeats the query."""
    try:
        for entry in library.found()[:1]:
            with library.opened(entry.report_id) as report:
                summarise(report)
                insights(report)
                ranked_insights(report)
                ledger(report)
                tile_memory(report, "category")
                curve(report)
                extent = trace.extent(report)
                if extent.tracks:
                    trace.window(report, extent.start_cycle, extent.end_cycle, _WIDTH_PX)
    except Exception:
        _log.debug("warm-up failed", exc_info=True)
