"""What can go wrong with a report.

ReportError                 report: base of all
├── ReportNotFound          report_not_found: nothing there, or a directory without a report
├── NotAReport              not_a_report: empty, text, or another program's file
├── UnsupportedSchema       unsupported_schema: another version's file
├── DamagedReport           damaged_report: hashes or structure do not agree
├── QueryTooLong            query_too_long: a question to the file took more than its time
├── ReportInUse             report_in_use: another engine is writing in that directory
└── ReportNotWritable       report_not_writable: no permission, no space
"""

from __future__ import annotations

__all__ = [
    "DamagedReport",
    "NotAReport",
    "QueryTooLong",
    "ReportError",
    "ReportInUse",
    "ReportNotFound",
    "ReportNotWritable",
    "UnsupportedSchema",
]


class ReportError(Exception):
    """Base of every error about a report; ``code`` is stable, the text is for people.

    ``exit_code`` is what the command line returns for it.
    """

    code = "report"
    exit_code = 2


class ReportNotFound(ReportError):
    """No report at that place."""

    code = "report_not_found"


class NotAReport(ReportError):
    """The file is not one of ours."""

    code = "not_a_report"


class UnsupportedSchema(ReportError):
    """The file has a schema version this build does not read."""

    code = "unsupported_schema"


class DamagedReport(ReportError):
    """The content does not agree with its hashes or structure."""

    code = "damaged_report"


class QueryTooLong(ReportError):
    """A single statement took more than its time and was stopped."""

    code = "query_too_long"


class ReportInUse(ReportError):
    """Another engine is writing into that directory."""

    code = "report_in_use"


class ReportNotWritable(ReportError):
    """The directory is not writable: permission, read-only, no space."""

    code = "report_not_writable"
    exit_code = 4
