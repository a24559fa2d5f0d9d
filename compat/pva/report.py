"""Opening a report, by libpva's names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pva.compilation import CompilationReport
from pva.execution import ExecutionReport
from pva.explained import Explained
from pva.lazy import set_print_length
from pva.state import open_and_warn, warn_of_state
from tilescope.analyser.summary.summarise import summarise
from tilescope.analyser.time.execution import execution

if TYPE_CHECKING:
    from tilescope.reports import Report as Opened

__all__ = [
    "ComputeInstrumentationLevel",
    "ExternalExchangeInstrumentationLevel",
    "InstrumentationSettings",
    "PoplarVersion",
    "ProfileReportVersion",
    "Report",
    "getReport",
    "openReport",
]


class ComputeInstrumentationLevel(Enum):
    """How compute cycles were measured."""

    Off = 0
    Vertex = 1
    Tile = 2
    Ipu = 3
    Device = 4
    Unknown = 5


class ExternalExchangeInstrumentationLevel(Enum):
    """How cycles of external exchanges were measured."""

    Off = 0
    Tile = 1
    Unknown = 2


@dataclass(frozen=True)
class InstrumentationSettings:
    """The simulator measures every tile of every step that ran."""

    compute: ComputeInstrumentationLevel
    externalExchange: ExternalExchangeInstrumentationLevel


@dataclass(frozen=True)
class PoplarVersion:
    """The version of TileScope that wrote the report, in place of Poplar's."""

    string: str
    major: int
    minor: int
    point: int
    packageHash: str


@dataclass(frozen=True)
class ProfileReportVersion:
    """The version of the report's schema."""

    major: int
    minor: int
    point: int
    isUnstableFormat: bool


class Report(Explained):
    """An opened report; close it, use it in a ``with``, or let go of it."""

    def __init__(self, opened: Opened, *, has_execution: bool = True) -> None:
        self._opened = opened
        self._has_execution = has_execution

    @cached_property
    def compilation(self) -> CompilationReport:
        """What the compiler made."""
        return CompilationReport(self._opened)

    @cached_property
    def execution(self) -> ExecutionReport:
        """What ran."""
        return ExecutionReport(self._opened, is_asked=self._has_execution)

    @property
    def instrumentationSettings(self) -> InstrumentationSettings:
        """How cycles were measured."""
        if self._has_execution and execution(self._opened).n_runs:
            return InstrumentationSettings(
                ComputeInstrumentationLevel.Tile, ExternalExchangeInstrumentationLevel.Tile
            )
        return InstrumentationSettings(
            ComputeInstrumentationLevel.Off, ExternalExchangeInstrumentationLevel.Off
        )

    @cached_property
    def poplarVersion(self) -> PoplarVersion:
        """The version of TileScope that wrote the report."""
        facts = {row.key: str(row.value) for row in summarise(self._opened).provenance}
        text = facts.get("tilescope_version", "")
        version = re.match(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})", text)
        major, minor, point = (int(part) for part in version.groups()) if version else (0, 0, 0)
        return PoplarVersion(f"TileScope {text}".rstrip(), major, minor, point, "")

    @property
    def version(self) -> ProfileReportVersion:
        """The version of the report's schema."""
        from tilescope.reports.schema import SCHEMA_VERSION

        return ProfileReportVersion(SCHEMA_VERSION, 0, 0, isUnstableFormat=False)

    def listPrintLength(self, newLength: int) -> None:
        """Set how many entries the text of a list shows."""
        set_print_length(newLength)

    def close(self) -> None:
        """Close the file; what was read before stays readable."""
        self._opened.close()

    def __enter__(self) -> Report:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<pva.Report {self._opened.path}>"


def openReport(
    profileFilename: str | PathLike[str], debugInfoFilename: str | PathLike[str] | None = None
) -> Report:
    """Open a report; a directory stands for the ``profile.pop`` in it.

    A debug information file, the ``debug.cbor`` beside a report, has to exist but is not read: the
    report holds the same debug contexts.

    Raises
    ------
    ReportError
        When there is no report there, or it cannot be read.
    FileNotFoundError
        When the debug information file does not exist.
    """
    if debugInfoFilename is not None and not Path(debugInfoFilename).exists():
        raise FileNotFoundError(f"debug information file {debugInfoFilename} does not exist")
    return Report(open_and_warn(profileFilename))


class _HasReport(Protocol):
    """What ran a program and wrote its report, such as TileScope's engine."""

    def get_report(self) -> Opened:
        """Finish the report and open it."""


def getReport(engine: _HasReport, reportExecution: bool = True) -> Report:
    """Return the report of an engine, in place of Poplar's ``engine.getReport()``.

    Parameters
    ----------
    engine
        An engine of TileScope; its report is finished, and runs after this are not recorded.
    reportExecution
        Whether to include what ran.
    """
    opened = engine.get_report()
    warn_of_state(opened)
    return Report(opened, has_execution=reportExecution)
