"""Errors of the web app.

WebError                 web: base of all
├── UnknownReport        unknown_report: the report id is not in the library
├── ReportChanged        report_changed: the page shows an older state of the file
├── NothingToServe       nothing_to_serve: no report below the given paths
├── PortInUse            port_in_use: another program listens on the port
└── BadAddress           bad_address: the host is not an address of this machine
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from tilescope.analyser.errors import AnalyserError
from tilescope.reports.errors import ReportError, ReportNotFound

__all__ = [
    "BadAddress",
    "Failure",
    "NothingToServe",
    "PortInUse",
    "ReportChanged",
    "UnknownReport",
    "WebError",
    "describe_failure",
]


class WebError(Exception):
    """Base class of the web app's errors; ``code`` is stable, the message may change."""

    code = "web"
    exit_code = 2


class UnknownReport(WebError):
    """The report id is not in the library."""

    code = "unknown_report"


class ReportChanged(WebError):
    """The page was made from an older state of the report's file."""

    code = "report_changed"


class NothingToServe(WebError):
    """No report was found below the given paths."""

    code = "nothing_to_serve"


class PortInUse(WebError):
    """Another program listens on the port."""

    code = "port_in_use"


class BadAddress(WebError):
    """The host name or address to listen on is invalid."""

    code = "bad_address"


@dataclass(frozen=True)
class Failure:
    """The JSON shape of every error of the web app."""

    ok: bool
    code: str
    message: str
    detail: str

    def as_dict(self) -> dict[str, object]:
        """Return the four fields, ready for JSON."""
        return asdict(self)


def describe_failure(error: BaseException) -> tuple[int, Failure]:
    """Return the HTTP status and the description of an error.

    The project's errors keep their message. Others get a generic one, since their text may
    contain paths or data.
    """
    if isinstance(error, (UnknownReport, ReportNotFound)):
        return 404, Failure(False, error.code, str(error), "")
    if isinstance(error, ReportChanged):
        return 409, Failure(False, error.code, str(error), "")
    if isinstance(error, (WebError, ReportError, AnalyserError)):
        return 422, Failure(False, error.code, str(error), "")
    message = "Internal error; see the server's log."
    return 500, Failure(False, "internal", message, type(error).__name__)
