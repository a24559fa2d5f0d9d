"""The database of reports: written where a report is read, asked where reports are listed."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import platformdirs
from sqlalchemy import URL, create_engine, delete, insert, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.schema import CreateTable

from tilescope.analyser.catalogue.tables import VERSION, reports
from tilescope.analyser.summary.overview import ReportOverview
from tilescope.private_folder import NotPrivate, PrivateFolder, warn_once
from tilescope.reports.stamp import Stamp, stamp_text

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

__all__ = ["Catalogue", "CataloguedReport", "user_catalogue"]

T = TypeVar("T")

_log = logging.getLogger(__name__)

#: Names the folder of the catalogue.
VARIABLE = "TILESCOPE_CATALOGUE_DIR"
#: How to choose another folder.
_CHOICE = f"name another folder in {VARIABLE}"
#: Paths in one question.
_BATCH = 500
#: How long to wait for another process that writes, in seconds.
_BUSY_S = 5.0
#: SQLite's codes of a file that is damaged, or no database.
_DAMAGED = (11, 26)
_FACTS = tuple(field.name for field in fields(ReportOverview))


@dataclass(frozen=True)
class CataloguedReport:
    """What was last read of a report file.

    Attributes
    ----------
    path
        The file.
    stamp
        That of the file when it was read.
    state
        A value of `State`, or why the file is not a report.
    overview
        Its facts, None if it could not be read.
    """

    path: Path
    stamp: Stamp
    state: str
    overview: ReportOverview | None


class Catalogue:
    """What is known of reports, by path; a file that changed since is not known.

    A catalogue is a convenience: where its database cannot be read or written, a warning is logged
    once, nothing is known, and nothing is kept.

    Parameters
    ----------
    folder : Path
        Where the database is; nobody else may write to it. It is made when something is written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = PrivateFolder(folder)
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._is_usable = True

    @property
    def file(self) -> Path:
        """The file of the database."""
        return self._folder.path / f"catalogue-{VERSION}.sqlite"

    def known(self, stamps: Mapping[Path, Stamp]) -> dict[Path, CataloguedReport]:
        """Return what is known of some files as they are now.

        Parameters
        ----------
        stamps
            The present stamps of files by path.
        """
        keys = {os.fsencode(path): path for path in stamps}
        paths = list(keys)

        def ask(connection: Connection) -> dict[Path, CataloguedReport]:
            known = {}
            for start in range(0, len(paths), _BATCH):
                is_listed = reports.c.path.in_(paths[start : start + _BATCH])
                for row in connection.execute(select(reports).where(is_listed)).mappings():
                    path = keys[row["path"]]
                    if row["stamp"] == stamp_text(stamps[path]):
                        known[path] = _report(dict(row), path, stamps[path])
            return known

        return self._connected(ask, is_writing=False) or {}

    def paths(self) -> list[Path]:
        """Return the paths of all reports that were ever read, in order."""

        def ask(connection: Connection) -> list[Path]:
            rows = connection.scalars(select(reports.c.path))
            return sorted(Path(os.fsdecode(path)) for path in rows)

        return self._connected(ask, is_writing=False) or []

    def record(self, entries: Iterable[CataloguedReport]) -> None:
        """Keep what was read of files; it replaces what was known of them."""
        rows = [_row(entry) for entry in entries]
        self._replace([row["path"] for row in rows], rows)

    def forget(self, paths: Iterable[Path]) -> None:
        """Drop what is known of some files."""
        self._replace([os.fsencode(path) for path in paths], [])

    def close(self) -> None:
        """Close the database; it is opened again when it is needed."""
        with self._lock:
            if self._engine is not None:
                self._engine.dispose()
                self._engine = None

    def _replace(self, paths: list[bytes], rows: list[dict[str, Any]]) -> None:
        """Put rows in the place of those with some paths."""

        def replace(connection: Connection) -> None:
            for start in range(0, len(paths), _BATCH):
                is_listed = reports.c.path.in_(paths[start : start + _BATCH])
                connection.execute(delete(reports).where(is_listed))
            if rows:
                connection.execute(insert(reports), rows)

        if paths:
            self._connected(replace, is_writing=True)

    def _connected(self, work: Callable[[Connection], T], *, is_writing: bool) -> T | None:
        """Return what work in a transaction returns, None if the database is not used."""
        try:
            engine = self._opened(is_writing=is_writing)
            if engine is None:
                return None
            with engine.begin() as connection:
                return work(connection)
        except NotPrivate as error:
            self._is_usable = False
            warn_once(error, "the catalogue of reports", _CHOICE, _log)
        except (SQLAlchemyError, OSError, UnicodeError) as error:
            self._give_up(error)
        return None

    def _opened(self, *, is_writing: bool) -> Engine | None:
        """Return the database; None if it does not exist yet and nothing is written."""
        with self._lock:
            if self._engine is not None or not self._is_usable:
                return self._engine
            if is_writing:
                self._folder.make()
            elif not self._folder.modified_ns(self.file.name):
                return None
            url = URL.create("sqlite", database=str(self.file))
            engine = create_engine(url, connect_args={"timeout": _BUSY_S})
            with engine.begin() as connection:  # another process may do the same now
                connection.execute(CreateTable(reports, if_not_exists=True))
            self._engine = engine
            return engine

    def _give_up(self, error: Exception) -> None:
        """Say once that the catalogue is not used; one that is damaged is made anew."""
        cause = getattr(error, "orig", None) or error
        self.close()
        if (getattr(cause, "sqlite_errorcode", 0) & 0xFF) in _DAMAGED:
            self.file.unlink(missing_ok=True)
            _log.warning(
                "warning: the catalogue of reports %s was damaged; it is made anew", self.file
            )
        elif self._is_usable:
            self._is_usable = False
            _log.warning(
                "warning: continuing without the catalogue of reports %s: %s; %s",
                self.file,
                cause,
                _CHOICE,
            )


def user_catalogue() -> Catalogue:
    """Return the catalogue of the user who runs this process.

    It lies in the folder that ``TILESCOPE_CATALOGUE_DIR`` names, else in the user's cache.
    """
    folder = os.environ.get(VARIABLE)
    if folder:
        return Catalogue(Path(folder))
    return Catalogue(platformdirs.user_cache_path("tilescope", appauthor=False) / "reports")


def _row(entry: CataloguedReport) -> dict[str, Any]:
    facts = dict.fromkeys(_FACTS) if entry.overview is None else asdict(entry.overview)
    return {
        "path": os.fsencode(entry.path),
        "stamp": stamp_text(entry.stamp),
        "state": entry.state,
        **facts,
    }


def _report(row: dict[str, Any], path: Path, stamp: Stamp) -> CataloguedReport:
    overview = None
    if row["model"] is not None:
        overview = ReportOverview(**{name: row[name] for name in _FACTS})
    return CataloguedReport(path, stamp, row["state"], overview)
