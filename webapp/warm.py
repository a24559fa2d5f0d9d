"""Cache warm-up: run the first queries before the first visitor."""

from __future__ import annotations

import logging
import threading

from tilescope.analyser.liveness import curve
from tilescope.analyser.summary import summarise
from tilescope.analyser.tile_memory import tile_memory
from tilescope.webapp.figures.step_chart import draw_steps
from tilescope.webapp.figures.tile_chart import draw_tiles
from tilescope.webapp.library import Library

__all__ = ["warm_in_background"]

_log = logging.getLogger(__name__)


def warm_in_background(library: Library) -> threading.Thread:
    """Run the queries and draw the charts of the first pages for the default report.

    The analyser caches its results, and Plotly loads its modules on first use.
    """
    thread = threading.Thread(target=_warm, args=(library,), name="warm", daemon=True)
    thread.start()
    return thread


def _warm(library: Library) -> None:
    """Warm the caches; errors appear later on the page that repeats the query."""
    try:
        for entry in library.found()[:1]:
            with library.opened(entry.report_id) as report:
                summarise(report)
                draw_tiles(tile_memory(report, "category")).figure.to_plotly_json()
                draw_steps(curve(report)).figure.to_plotly_json()
    except Exception:
        _log.debug("warm-up failed", exc_info=True)
