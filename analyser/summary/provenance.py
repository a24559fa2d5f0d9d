"""Where a report comes from: model, versions, seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilescope.analyser.cache import cached
from tilescope.reports import schema

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["model_name", "provenance"]


@cached
def provenance(report: Report) -> dict[str, str]:
    """Return the facts of a report's provenance by key."""
    return dict(report.rows(schema.provenance, "key", "value"))


def model_name(report: Report) -> str:
    """Return the name of the model, else of the engine; empty if the report has neither."""
    facts = provenance(report)
    return facts.get("model_name") or facts.get("engine_name") or ""
