"""What a report file is, how it is written, opened and checked."""

from reports.catalogue import FoundReport, find_reports
from reports.check import Problem, check_report
from reports.errors import (
    DamagedReport,
    NotAReport,
    QueryTooLong,
    ReportError,
    ReportInUse,
    ReportNotFound,
    ReportNotWritable,
    UnsupportedSchema,
)
from reports.open import open_report
from reports.packed import PackedArray
from reports.report import Report
from reports.writer import ReportWriter

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
