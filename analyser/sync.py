"""Syncs: within an IPU or between IPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select

from tilescope.analyser.cache import cached
from tilescope.reports import schema

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["external_steps"]


@cached
def external_steps(report: Report) -> frozenset[int]:
    """Return the steps that synchronise beyond their IPU, with other IPUs or the host."""
    cost = schema.step_cost
    rows = report.fetch(select(cost.c.step_id).where(cost.c.sync_zone == "external").distinct())
    return frozenset(step_id for (step_id,) in rows)
