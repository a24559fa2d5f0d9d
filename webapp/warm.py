"""The first answers ahead of the first visitor: what is slow once is slow before anyone waits."""

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
    """Ask the questions of the first pages about the report that is shown first.

    The analyser keeps its answers, and Plotly loads its parts at their first use.
    """
    thread = threading.Thread(target=_warm, args=(library,), name="warm", daemon=True)
    thread.start()
    return thread


def _warm(library: Library) -> None:
    """Ask, and leave what goes wrong to the page that asks again."""
    try:
        for entry in library.found()[:1]:
            with library.opened(entry.report_id) as report:
                summarise(report)
                draw_tiles(tile_memory(report, "category")).figure.to_plotly_json()
                draw_steps(curve(report)).figure.to_plotly_json()
    except Exception:
        _log.debug("the first answers could not be prepared", exc_info=True)
