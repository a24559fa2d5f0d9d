"""Errors of reports.

ReportError                 report: base of all
├── ReportNotFound          report_not_found: path missing, or a directory without a report
├── NotAReport              not_a_report: empty, text, or another program's file
├── UnsupportedSchema       unsupported_schema: another version's file
├── WrongKind               wrong_kind: a report about something else than what is asked
├── DamagedReport           damaged_report: digests or structure do not match
├── ReportIncomplete        report_incomplete: still written, ended early, or not the newest run
├── QueryTooLong            query_too_long: a statement exceeded its time limit
├── ReportInUse             report_in_use: another engine is writing in that directory
├── ReportNotWritable       report_not_writable: no permission, no space
└── BadNotes                bad_notes: the notes beside a report, or in an address, cannot be used
"""

from __future__ import annotations

__all__ = [
    "BadNotes",
    "DamagedReport",
    "NotAReport",
    "QueryTooLong",
    "ReportError",
    "ReportInUse",
    "ReportIncomplete",
    "ReportNotFound",
    "ReportNotWritable",
    "UnsupportedSchema",
    "WrongKind",
]


class ReportError(Exception):
    """Base of all errors about a report; ``code`` is stable, the message is not.

    ``exit_code`` is the exit code of the command line.
    """

    code = "report"
    exit_code = 2


class ReportNotFound(ReportError):
    """No report exists at the path."""

    code = "report_not_found"


class NotAReport(ReportError):
    """The file is not a TileScope report."""

    code = "not_a_report"


class UnsupportedSchema(ReportError):
    """The schema version of the file is not supported."""

    code = "unsupported_schema"


class WrongKind(ReportError):
    """The report is of another kind than the question, such as a host trace."""

    code = "wrong_kind"


class DamagedReport(ReportError):
    """The content does not match its digests or structure."""

    code = "damaged_report"


class ReportIncomplete(ReportError):
    """A decision needs a complete report of the newest run, which this is not."""

    code = "report_incomplete"


class QueryTooLong(ReportError):
    """A statement exceeded its time limit and was stopped."""

    code = "query_too_long"


class ReportInUse(ReportError):
    """Another engine is writing into that directory."""

    code = "report_in_use"


class ReportNotWritable(ReportError):
    """The directory is not writable: permission, read-only, no space."""

    code = "report_not_writable"
    exit_code = 4


class BadNotes(ReportError):
    """The notes beside a report, or in an address, cannot be read or written."""

    code = "bad_notes"
