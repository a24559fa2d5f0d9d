"""The report file: its schema, and writing, opening and checking it.

What writes and what checks is imported on first access: most commands only read.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tilescope.reports.completeness import require_complete
from tilescope.reports.damage import damage_behind, explain_damage
from tilescope.reports.discovery import FoundReport, find_reports
from tilescope.reports.errors import (
    DamagedReport,
    NotAReport,
    QueryTooLong,
    ReportError,
    ReportIncomplete,
    ReportInUse,
    ReportNotFound,
    ReportNotWritable,
    UnsupportedSchema,
)
from tilescope.reports.reading.open import open_report, report_state
from tilescope.reports.reading.packed import PackedArray
from tilescope.reports.reading.report import NewerRun, Report
from tilescope.reports.state import ReportState, State

if TYPE_CHECKING:
    from tilescope.reports.check import Problem, check_report
    from tilescope.reports.writing.template import ReportTemplate
    from tilescope.reports.writing.trace import TraceTrack, TraceWriter
    from tilescope.reports.writing.writer import ReportWriter

__all__ = [
    "DamagedReport",
    "FoundReport",
    "NewerRun",
    "NotAReport",
    "PackedArray",
    "Problem",
    "QueryTooLong",
    "Report",
    "ReportError",
    "ReportInUse",
    "ReportIncomplete",
    "ReportNotFound",
    "ReportNotWritable",
    "ReportState",
    "ReportTemplate",
    "ReportWriter",
    "State",
    "TraceTrack",
    "TraceWriter",
    "UnsupportedSchema",
    "check_report",
    "damage_behind",
    "explain_damage",
    "find_reports",
    "open_report",
    "report_state",
    "require_complete",
]

_MODULES = {
    "Problem": "check",
    "ReportTemplate": "writing.template",
    "ReportWriter": "writing.writer",
    "TraceTrack": "writing.trace",
    "TraceWriter": "writing.trace",
    "check_report": "check",
}


def __getattr__(name: str) -> Any:
    """Return a name of a module that is imported on first access.

    Raises
    ------
    AttributeError
        When the name is unknown.
    """
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
