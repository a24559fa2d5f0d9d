"""An SQLite connection to an untrusted file: limits and permitted statements."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import apsw

from tilescope.reports.errors import DamagedReport, NotAReport, QueryTooLong, UnsupportedSchema
from tilescope.reports.schema import (
    APPLICATION_ID,
    OLDEST_VERSION,
    SCHEMA_VERSION,
    TABLES,
    TableSpec,
)

__all__ = ["STATEMENT_SECONDS", "GuardedConnection"]

#: Time limit of a statement.
STATEMENT_SECONDS = 10.0
_CHECK_SECONDS = 300.0
_CLOSING_S = 5.0
_STEPS_BETWEEN_LOOKS = 2_000
_LIMITS = {
    apsw.SQLITE_LIMIT_LENGTH: 8_000_000,
    apsw.SQLITE_LIMIT_SQL_LENGTH: 1_000_000,
    apsw.SQLITE_LIMIT_COLUMN: 100,
    apsw.SQLITE_LIMIT_EXPR_DEPTH: 100,
    apsw.SQLITE_LIMIT_COMPOUND_SELECT: 20,
    apsw.SQLITE_LIMIT_ATTACHED: 0,
    apsw.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    apsw.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_SETTINGS = {
    apsw.SQLITE_DBCONFIG_DEFENSIVE: 1,
    apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA: 0,
    apsw.SQLITE_DBCONFIG_ENABLE_VIEW: 0,
    apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER: 0,
    apsw.SQLITE_DBCONFIG_DQS_DML: 0,
    apsw.SQLITE_DBCONFIG_DQS_DDL: 0,
}
_READING = frozenset(
    (apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_FUNCTION, apsw.SQLITE_RECURSIVE)
)

#: Length of a quoted error of SQLite.
_ERROR_CHARACTERS = 200
_OLDER = "If an earlier TileScope wrote it, run the program again to make a new report."


class GuardedConnection:
    """Runs read-only statements on one report file; errors are one-sentence messages."""

    def __init__(self, path: Path, uri: str, flags: int, label: str) -> None:
        self.path = path
        self._shown = label
        #: Of the file's schema.
        self.version = SCHEMA_VERSION
        #: The kind of reports whose own tables it has; empty for none.
        self.kind = ""
        self.lock = threading.RLock()
        self._deadline = 0.0
        self._is_setting_up = True
        with self._plain_errors():
            # Without a statement cache the authorizer sees every statement.
            self._connection = apsw.Connection(uri, flags=flags, statementcachesize=0)
        try:
            self._set_up()
        except BaseException:
            self.close()
            raise

    def _set_up(self) -> None:
        connection = self._connection
        for setting, value in _SETTINGS.items():
            connection.config(setting, value)
        for limit, value in _LIMITS.items():
            connection.limit(limit, value)
        connection.set_busy_timeout(1_000)
        connection.set_progress_handler(self._is_late, _STEPS_BETWEEN_LOOKS)
        for pragma in ("cell_size_check=ON", "mmap_size=0", "query_only=ON", "temp_store=MEMORY"):
            self.rows(f"PRAGMA {pragma}")
        self._check_marks()
        self._check_schema()
        self._is_setting_up = False
        connection.authorizer = self._authorize

    def has_table(self, table: TableSpec) -> bool:
        """Return whether files of this version and kind have a table."""
        return table.since <= self.version and table.kind in ("", self.kind)

    def rows(
        self, text: str, parameters: Mapping[str, Any] | Sequence[Any] = ()
    ) -> list[tuple[Any, ...]]:
        """Run one statement and return all its rows.

        Raises
        ------
        DamagedReport
            The file lacks data that the statement needs.
        QueryTooLong
            The statement exceeded `STATEMENT_SECONDS`.
        """
        return self._run(text, parameters, STATEMENT_SECONDS)

    def _run(
        self, text: str, parameters: Mapping[str, Any] | Sequence[Any], seconds: float
    ) -> list[tuple[Any, ...]]:
        """Run one statement within a time limit and return all its rows."""
        with self.lock, self._plain_errors():
            self._deadline = time.monotonic() + seconds
            return self._connection.execute(text, parameters).fetchall()

    def readable_rows(
        self, text: str, parameters: Sequence[Any] = ()
    ) -> tuple[list[tuple[Any, ...]], str]:
        """Run one statement and return its rows up to the first unreadable one, and the error."""
        rows: list[tuple[Any, ...]] = []
        try:
            with self.lock, self._plain_errors():
                self._deadline = time.monotonic() + _CHECK_SECONDS
                rows.extend(self._connection.execute(text, parameters))
        except DamagedReport as error:
            return rows, str(error)
        return rows, ""

    def integrity_problem(self) -> str | None:
        """Return SQLite's integrity error for the whole file, or None."""
        text = "PRAGMA integrity_check(1)"
        with self.lock:
            self._connection.authorizer = None
            try:
                (verdict, *_), *_ = self._run(text, (), _CHECK_SECONDS)
            except DamagedReport as error:
                verdict = str(error)
            finally:
                self._connection.authorizer = self._authorize
        return None if verdict == "ok" else " ".join(str(verdict).split())

    def close(self) -> None:
        """Close the file; repeated calls are harmless.

        Waits for a statement in another thread. At process exit that thread may never finish; the
        operating system then closes the file.
        """
        if self.lock.acquire(timeout=_CLOSING_S):
            try:
                self._connection.close(True)
            finally:
                self.lock.release()

    def _check_marks(self) -> None:
        ((application_id,),) = self.rows("PRAGMA application_id")
        ((version,),) = self.rows("PRAGMA user_version")
        if application_id == 0 and not self.rows("SELECT 1 FROM sqlite_schema LIMIT 1"):
            raise NotAReport(
                f"{self._shown} is empty: its engine has just started, or ended before it wrote"
                " anything."
            )
        if application_id != APPLICATION_ID:
            raise DamagedReport(f"{self._shown} lacks the application id of a report.")
        if not OLDEST_VERSION <= version <= SCHEMA_VERSION:
            raise unsupported(self._shown, version)
        self.version = version

    def _check_schema(self) -> None:
        rows = self.rows("SELECT type, name, tbl_name, sql FROM sqlite_schema LIMIT 1000")
        objects = {
            (kind, name): (table_name, None if sql is None else _one_line(str(sql)))
            for kind, name, table_name, sql in rows
        }
        kinds = {TABLES[name].kind for kind, name in objects if kind == "table" and name in TABLES}
        self.kind = max(kinds, default="")
        expected = _expected_objects(self.version, self.kind)
        for key in sorted(set(objects) | set(expected), key=str):
            kind, name = (str(part)[:80] for part in key)
            if key not in expected or len(rows) != len(objects):
                raise DamagedReport(f"{self._shown} has an unexpected {kind} {name!r}; not opened.")
            if key not in objects:
                raise DamagedReport(
                    f"{self._shown} lacks the {kind} {name!r}; not opened. {_OLDER}"
                )
            if objects[key] != expected[key]:
                raise DamagedReport(
                    f"{self._shown} has another definition of the {kind} {name!r}; not opened."
                    f" {_OLDER}"
                )

    def _authorize(
        self, operation: int, first: str | None, second: str | None, *_: str | None
    ) -> int:
        if operation not in _READING or (
            operation == apsw.SQLITE_FUNCTION and second == "load_extension"
        ):
            return apsw.SQLITE_DENY
        if operation == apsw.SQLITE_READ and first:
            return apsw.SQLITE_OK if first in TABLES else apsw.SQLITE_DENY
        return apsw.SQLITE_OK

    def _is_late(self) -> bool:
        return time.monotonic() > self._deadline

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        try:
            yield
        except apsw.InterruptError as error:
            raise QueryTooLong(
                f"A statement on {self._shown} took too long"
                " and was stopped. Request a smaller part."
            ) from error
        except apsw.ConnectionClosedError as error:
            raise ValueError("the report is closed") from error
        except apsw.AuthError as error:
            raise ValueError(f"unsupported statement on a report: {error}") from error
        except (UnicodeDecodeError, MemoryError) as error:
            raise DamagedReport(f"{self._shown} contains text that is not valid UTF-8.") from error
        except (apsw.SQLError, apsw.BindingsError) as error:
            if not self._is_setting_up and "overflow" not in str(error):
                raise ValueError(f"unsupported statement on a report: {error}") from error
            raise DamagedReport(f"{self._shown} is not readable: {_printable(error)}.") from error
        except apsw.Error as error:
            raise DamagedReport(f"{self._shown} is damaged: {_printable(error)}.") from error


@cache
def _expected_objects(
    version: int, report_kind: str
) -> dict[tuple[str, str], tuple[str, str | None]]:
    """Return the objects of a schema: (type, name) to (table, SQL on one line or None)."""
    connection = apsw.Connection(":memory:")
    for table in TABLES.values():
        if table.since <= version and table.kind in ("", report_kind):
            connection.execute(table.as_of(version).create)
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema").fetchall()
    connection.close()
    return {
        (str(kind), str(name)): (str(table_name), None if sql is None else _one_line(str(sql)))
        for kind, name, table_name, sql in rows
    }


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _printable(error: Exception) -> str:
    """Return the text of an error of SQLite, which may quote bytes of the file."""
    text = _one_line(str(error))[:_ERROR_CHARACTERS]
    return "".join(char if char.isprintable() else "�" for char in text)


def unsupported(name: str, version: int) -> UnsupportedSchema:
    """Return the error for an unsupported schema version."""
    advice = (
        "Update TileScope to read it"
        if version > SCHEMA_VERSION
        else "Run the program again to make a new report"
    )
    return UnsupportedSchema(
        f"{name} has report schema {version}; this TileScope supports {OLDEST_VERSION} to"
        f" {SCHEMA_VERSION}. {advice}."
    )
