"""Stand-ins for `measure` that workers import: what rows may do to a process."""

from __future__ import annotations

import os
import time

from tests.corpus.measure import Measured
from tests.corpus.rows import Figures, Row

__all__ = ["misbehave", "refuse"]


def refuse(_row: Row) -> Measured:
    """Return a refusal."""
    return Measured(None, refused="refused here")


def misbehave(row: Row) -> Measured:
    """Return double cycles, or do what the row's name says."""
    if row.name == "crash":
        os._exit(3)
    if row.name == "hang":
        time.sleep(600)
    if row.name == "exhaust":
        raise MemoryError
    if row.name == "fail":
        raise KeyError("tile")
    figures = row.published
    return Measured(Figures(2 * figures.cycles, figures.memory, figures.fullest))
