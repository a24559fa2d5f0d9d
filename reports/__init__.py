"""The report file: its schema, and writing, opening and checking it."""

from tilescope.reports.catalogue import FoundReport, find_reports
from tilescope.reports.check import Problem, check_report
from tilescope.reports.errors import (
    DamagedReport,
    NotAReport,
    QueryTooLong,
    ReportError,
    ReportInUse,
    ReportNotFound,
    ReportNotWritable,
    UnsupportedSchema,
)
from tilescope.reports.open import open_report
from tilescope.reports.packed import PackedArray
from tilescope.reports.report import Report
from tilescope.reports.writer import ReportWriter

__all__ = [
    "DamagedReport",
    "FoundReport",
    "NotAReport",
    "PackedArray",
    "Problem",
    "QueryTooLong",
    "Report",
    "ReportError",
    "ReportInUse",
    "ReportNotFound",
    "ReportNotWritable",
    "ReportWriter",
    "UnsupportedSchema",
    "check_report",
    "find_reports",
    "open_report",
]
