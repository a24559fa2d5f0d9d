"""The writer: stores rows and packed arrays in one crash-safe file."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import secrets
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import numpy as np

from tilescope.reports.errors import QueryTooLong, ReportError, ReportNotWritable
from tilescope.reports.reading.open import open_report
from tilescope.reports.schema import (
    APPLICATION_ID,
    ARRAYS,
    HOST_TRACE,
    REPORT_NAME,
    SCHEMA_VERSION,
    TABLES,
    TableSpec,
    target,
)
from tilescope.reports.state import ENDED_EARLY, FINISHED, TRACE_SUFFIX, is_trace_name
from tilescope.reports.writing.lock import DirectoryLock, FileLock
from tilescope.reports.writing.new_file import PAGE_BYTES, new_file, refusal
from tilescope.reports.writing.store import ReportStore
from tilescope.reports.writing.template import ReportTemplate

__all__ = ["ReportWriter"]
#: The log is written back into the file when it has this many pages, at most every so often, so
#: that readers of a running report can copy both while the file stays as it is.
_CHECKPOINT_PAGES = 16_384
_CHECKPOINT_S = 10.0
_MOST_LOG_PAGES = 262_144
_log = logging.getLogger(__name__)
_RESERVED = (FINISHED, ENDED_EARLY)
_live: weakref.WeakSet[ReportWriter] = weakref.WeakSet()


class ReportWriter:
    """Writes one report; committed data survives a crash of the process and a loss of power.

    After a disk failure, the first call raises `ReportNotWritable`. Later calls do nothing, so that
    the recorded run can continue, and `finish` raises the error again. The same holds after a call
    that an interrupt or lack of memory has ended halfway: nothing is committed any more.
    """

    def __init__(
        self,
        path: Path,
        lock: DirectoryLock | FileLock,
        connection: apsw.Connection,
        template: ReportTemplate | None = None,
    ) -> None:
        self.path = path
        self._is_renamed = isinstance(lock, DirectoryLock)
        self._lock = lock
        self._connection: apsw.Connection | None = connection
        self._pid = os.getpid()
        self._failure: ReportNotWritable | None = None
        self._store = (
            ReportStore(connection)
            if template is None
            else ReportStore.resumed(connection, template.state)
        )
        self._is_changing = False
        self._n_commits = 0
        self._beside = {} if template is None else dict(template.beside)
        self._before_finish: list[Callable[[], None]] = []
        self._inode = os.stat(path).st_ino
        self._checkpointed_at = time.monotonic()
        _live.add(self)

    @classmethod
    def create(cls, directory: Path | str, template: ReportTemplate | None = None) -> ReportWriter:
        """Create the directory if needed, lock it and start a report.

        Parameters
        ----------
        directory : Path or str
            Directory of the finished ``profile.pop``.
        template : ReportTemplate, optional
            What `template` returned of an earlier report, which this one begins as.

        Raises
        ------
        ReportInUse
            Another engine is writing in the directory.
        ReportNotWritable
            Permission denied, disk full, or no directory.
        """
        directory = Path(directory)
        lock = DirectoryLock(directory)
        path = directory / f"profile_{secrets.token_hex(4)}.pop"
        return cls._begun(path, lock, template)

    @classmethod
    def create_trace(cls, path: Path) -> ReportWriter:
        """Create the directory if needed and start the report of a host's trace.

        It has its name from the beginning, and is locked itself: other processes may write others
        into the directory.

        Parameters
        ----------
        path : Path
            The new file, which ends in ``.pvti``.

        Raises
        ------
        FileExistsError
            There is a file of that name.
        ReportNotWritable
            Permission denied, disk full, or no directory.
        """
        if not is_trace_name(path):
            raise ValueError(f"a trace is named *{TRACE_SUFFIX}; got {path.name}")
        return cls._begun(path, FileLock(path), None, HOST_TRACE)

    @classmethod
    def _begun(
        cls,
        path: Path,
        lock: DirectoryLock | FileLock,
        template: ReportTemplate | None,
        kind: str = "",
    ) -> ReportWriter:
        """Return the writer of a new file, whose lock is held.

        Raises
        ------
        ReportNotWritable
            Permission denied, disk full, or no directory.
        """
        directory = path.parent
        writer = None
        try:
            content = None if template is None else template.content
            writer = cls(path, lock, new_file(path, content), template)
            if template is None:
                writer._create_tables(kind)
            else:
                writer._open_log()
        except (apsw.Error, OSError) as error:
            if writer is not None:
                writer.abandon()
            lock.release()
            _remove(path)
            lock.remove_new_directory()
            raise refusal(directory, error) from error
        except BaseException:
            if writer is not None:
                writer.abandon()
            lock.release()
            _remove(path)
            raise
        return writer

    @property
    def has_failed(self) -> bool:
        """Whether a write failed; nothing is recorded any more."""
        return self._failure is not None

    def add(self, table: TableSpec, rows: Iterable[Mapping[str, object]]) -> None:
        """Add rows to a table.

        Parameters
        ----------
        table : TableSpec
            One of `tilescope.reports.schema`, except tables of arrays and digests.
        rows : iterable of mappings
            Column name to value. Identities are optional: by default, rows are numbered from 0.
            They must ascend across calls.

        Raises
        ------
        ValueError
            A column is missing, unknown or of the wrong type: a bug in the caller.
        """
        self._check_owner()
        if not self.has_failed:
            with self._changing():
                self._store.table(table).add(rows)
                self._note_machine(table)

    def add_columns(
        self, table: TableSpec, columns: Mapping[str, Sequence[Any] | np.ndarray | int | str | None]
    ) -> None:
        """Add rows given as columns; a scalar number, string or None applies to every row.

        Parameters
        ----------
        table : TableSpec
            As for `add`.
        columns : mapping of column name to sequence, ndarray of shape (n_rows,), number or text
            At least one sequence; identities are optional as in `add`.

        Raises
        ------
        ValueError
            A column is missing, unknown or of the wrong length or type: a bug in the caller.
        """
        self._check_owner()
        if not self.has_failed:
            with self._changing():
                self._store.table(table).add_columns(columns)
                self._note_machine(table)

    def _note_machine(self, table: TableSpec) -> None:
        """Let sums over the tiles of an IPU know how many there are."""
        if table is target:
            self._store.note_machine()

    def append(self, array_name: str, values: np.ndarray) -> int:
        """Append rows to a packed array and return the index of the first.

        Parameters
        ----------
        array_name : str
            A name in `tilescope.reports.schema.ARRAYS`.
        values : ndarray, shape (n_rows,), or for arrays per tile (n_rows, n_tiles) or (n_tiles,)
            Cast to the array's type; no value may change.

        Raises
        ------
        ValueError
            The shape or a value does not fit: a bug in the caller.
        ReportNotWritable
            A write failed.
        """
        self._check_owner()
        buffer = self._store.array(array_name)
        with self._changing():
            first = self._store.append(array_name, values)
            self._guard(lambda: self._store.write_chunks(buffer))
        return first

    def append_columns(self, group: str, columns: Mapping[str, np.ndarray | Sequence[int]]) -> None:
        """Append rows to a group of plain arrays, such as ``cost``, given as columns.

        Parameters
        ----------
        group : str
            What comes before the dot in the arrays' names.
        columns : mapping of column name to ndarray or sequence, shape (n_rows,)
            All columns of the group.

        Raises
        ------
        ValueError
            A column is missing, unknown or of another length: a bug in the caller.
        ReportNotWritable
            A write failed.
        """
        prefix = f"{group}."
        expected = {
            name.removeprefix(prefix)
            for name, spec in ARRAYS.items()
            if name.startswith(prefix) and spec.columns == "one"
        }
        lengths = {len(values) for values in columns.values()}
        if set(columns) != expected or len(lengths) > 1:
            raise ValueError(f"columns of {group}: expected {sorted(expected)}, all of one length")
        for name, values in columns.items():
            self.append(f"{group}.{name}", np.asarray(values))

    def pattern(self, array_name: str, values: np.ndarray) -> int:
        """Append one row unless `pattern` appended an equal row before; return its index.

        Parameters
        ----------
        array_name : str
            A name in `tilescope.reports.schema.ARRAYS` with a value per tile.
        values : ndarray, shape (n_tiles,)
            The row.

        Raises
        ------
        ValueError
            The shape or a value does not fit: a bug in the caller.
        ReportNotWritable
            A write failed.
        """
        self._check_owner()
        buffer = self._store.array(array_name)
        with self._changing():
            row = self._store.pattern(array_name, values)
            self._guard(lambda: self._store.write_chunks(buffer))
        return row

    def attach(self, name: str, content: bytes) -> None:
        """Have a file written beside ``profile.pop`` when the report is complete.

        A failure to write it is a warning: the report is whole without it.

        Parameters
        ----------
        name : str
            Name of the file in the report's directory; one that is there is replaced.
        content : bytes
            What it holds.
        """
        self._check_owner()
        self._beside[name] = content

    def template(self) -> ReportTemplate:
        """Return the report so far, so that others can begin as it.

        Raises
        ------
        ValueError
            When the last call was not a `commit` that does not grow.
        ReportNotWritable
            A write failed.
        """
        self._check_owner()
        if self._failure is not None:
            raise ReportNotWritable(str(self._failure))
        content = self._open_connection().serialize("main")
        return ReportTemplate(content, self._store.state(), dict(self._beside))

    def call_before_finish(self, work: Callable[[], None]) -> None:
        """Have something done before the report is sealed, which may write to it.

        Parameters
        ----------
        work : callable
            Without parameters.
        """
        self._before_finish.append(work)

    def commit(self, milestone: str, *, grows: bool = False) -> None:
        """Write all data so far durably, and record a milestone.

        Parameters
        ----------
        milestone : str
            Such as ``compiled`` or ``run``; ``finished`` and ``ended early`` are reserved for
            `finish`.
        grows : bool
            Whether commits of the same milestone follow: they replace this one, and their number
            does not matter for the size of the file.

        Raises
        ------
        ReportNotWritable
            A write failed; the file still has all earlier commits.
        """
        self._check_owner()
        if milestone in _RESERVED:
            raise ValueError(f"the milestone {milestone!r} is reserved for finish()")
        with self._changing():
            self._guard(lambda: self._commit(milestone, grows=grows))

    def finish(self, *, ended_early: bool = False) -> Path:
        """Seal and verify the report, one self-contained file, and return its path.

        Parameters
        ----------
        ended_early : bool
            Whether the run was interrupted. The report keeps the name of an unfinished one and does
            not replace an earlier ``profile.pop``.

        Raises
        ------
        ReportNotWritable
            A write failed, now or earlier; the unfinished file keeps all commits.
        """
        self._check_owner()
        if self._failure is not None:
            raise ReportNotWritable(str(self._failure))
        self._open_connection()
        for work in self._before_finish:
            work()
        with self._changing():
            self._guard(lambda: self._seal(ENDED_EARLY if ended_early else FINISHED))
        return self.path

    def sign_life(self) -> None:
        """Touch a file beside the report: its time of modification tells readers of life."""
        if self._pid == os.getpid() and self._connection is not None:
            with contextlib.suppress(OSError):
                os.utime(f"{self.path}-shm")

    def abandon(self) -> None:
        """Close the file, unfinished; remove it if nothing was committed.

        Repeated calls and calls after `finish` are harmless.
        """
        if self._pid != os.getpid():
            return
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(apsw.Error, OSError):
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            with contextlib.suppress(apsw.Error, OSError):
                connection.close()
            if self._n_commits == 0:  # it holds nothing
                _remove(self.path)
                self._lock.remove_new_directory()
        self._lock.release()

    def __enter__(self) -> ReportWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.abandon()

    def __del__(self) -> None:
        if hasattr(self, "_connection"):
            self.abandon()

    def _create_tables(self, kind: str) -> None:
        """Write the header fields and tables in one transaction: no file has a partial schema.

        Parameters
        ----------
        kind
            The kind of reports whose own tables it has; empty for none.
        """
        connection = self._open_connection()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        for table in TABLES.values():
            if table.kind in ("", kind):
                connection.execute(table.create)
        self._store.commit("created")
        # From here on, the file identifies itself without its -wal.
        self._open_log()

    def _open_log(self) -> None:
        """Have commits go to the log beside the file, which is written back now and then."""
        connection = self._open_connection()
        connection.execute("PRAGMA journal_mode=WAL").fetchall()
        connection.execute("PRAGMA wal_autocheckpoint=0").fetchall()
        self._lock.sync()

    def _commit(self, milestone: str, *, grows: bool) -> None:
        self._open_connection()
        self._require_place()
        self._store.commit(milestone, grows=grows)
        self._require_place()
        self._n_commits += 1
        self._checkpoint()

    def _is_in_place(self) -> bool:
        """Return whether the path still leads to the file that is written."""
        try:
            return os.stat(self.path).st_ino == self._inode
        except OSError:
            return False

    def _require_place(self) -> None:
        """Refuse to acknowledge what nobody can find.

        Raises
        ------
        ReportNotWritable
            The file, or a directory on its path, was removed, renamed or replaced.
        """
        if not self._is_in_place():
            raise ReportNotWritable(
                f"The report {self.path} was removed, renamed or replaced while it was written."
                " Leave the directory as it is until the program has ended."
            )

    def _checkpoint(self) -> None:
        """Write a long log back into the file, but not often."""
        connection = self._open_connection()
        n_pages = self._n_log_pages()
        is_due = time.monotonic() - self._checkpointed_at >= _CHECKPOINT_S
        if n_pages >= _MOST_LOG_PAGES or (is_due and n_pages >= _CHECKPOINT_PAGES):
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            self._checkpointed_at = time.monotonic()

    def _n_log_pages(self) -> int:
        try:
            return os.stat(f"{self.path}-wal").st_size // PAGE_BYTES
        except OSError:
            return 0

    def _seal(self, milestone: str) -> None:
        connection = self._open_connection()
        self._require_place()
        self._store.finish(milestone)
        self._n_commits += 1
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.execute("PRAGMA journal_mode=DELETE").fetchall()
        connection.close()
        self._connection = None
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._verify()
        if milestone == FINISHED and self._is_renamed:
            final = self.path.with_name(REPORT_NAME)
            os.replace(self.path, final)
            self.path = final
            self._write_beside()
        self._lock.sync()
        self._lock.release()

    def _write_beside(self) -> None:
        """Write the attached files, each whole or not at all."""
        for name, content in self._beside.items():
            path = self.path.with_name(name)
            draft = path.with_name(f"{name}.{secrets.token_hex(4)}")
            try:
                draft.write_bytes(content)
                os.replace(draft, path)
            except OSError as error:
                _remove(draft)
                _log.warning("warning: %s is not written: %s. The report is whole.", path, error)

    def _verify(self) -> None:
        """Read the sealed file as every reader does, before it takes the place of another.

        Raises
        ------
        ReportNotWritable
            It does not read as it was written.
        """
        try:
            with open_report(self.path) as report:
                report.verify()
        except QueryTooLong:  # the process was stopped, or the disk is slow: no sign of damage
            return
        except ReportError as error:
            raise ReportNotWritable(
                f"The finished report does not read as it was written: {error}"
                f" It stays as {self.path}; take its sound runs out with"
                f" `tilescope recover {self.path}`."
            ) from error

    def _open_connection(self) -> apsw.Connection:
        if self._connection is None:
            raise ValueError("the report is finished or abandoned")
        return self._connection

    def _check_owner(self) -> None:
        if self._pid != os.getpid():
            raise ReportNotWritable(
                f"The report {self.path} belongs to process {self._pid};"
                " a forked process must not write to it."
            )

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Let a call change the buffers; if it ends halfway, nothing is committed any more."""
        if self._is_changing and self._failure is None:
            self._fail(
                ReportNotWritable(
                    f"The report {self.path} ended at its last commit:"
                    " a write to it was interrupted."
                )
            )
        self._is_changing = True
        try:
            yield
        except (ValueError, ReportNotWritable):  # nothing was changed, or all is ended
            self._is_changing = False
            raise
        self._is_changing = False

    def _guard(self, work: Callable[[], None]) -> None:
        """Run work on the file; turn the first failed write into a report error."""
        if self._failure is not None:
            return
        try:
            work()
        except apsw.ConstraintError as error:
            self.abandon()
            raise ValueError(f"two rows violate a unique constraint: {error}") from error
        except ReportNotWritable as error:
            self._fail(error)
        except (apsw.Error, OSError, MemoryError) as error:
            self._fail(refusal(self.path.parent, error), error)

    def _fail(self, failure: ReportNotWritable, cause: BaseException | None = None) -> None:
        """End the report at its last commit.

        Raises
        ------
        ReportNotWritable
            Always.
        """
        if self._n_commits and self.path.name not in str(failure) and self._is_in_place():
            failure = ReportNotWritable(f"{failure} {self.path.name} holds what was committed.")
        self._failure = failure
        self.abandon()
        raise failure from cause


def _remove(path: Path) -> None:
    """Remove a report that could not be begun, with all files beside it."""
    for suffix in ("", "-journal", "-wal", "-shm"):
        with contextlib.suppress(OSError):
            Path(f"{path}{suffix}").unlink(missing_ok=True)


def _after_fork_in_child() -> None:
    """Keep a forked child from closing its parent's file, which would remove its journal."""
    for writer in list(_live):
        if writer._connection is not None:
            # Never destroyed in this process, not even at exit.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(writer._connection))
            writer._lock.forget()


os.register_at_fork(after_in_child=_after_fork_in_child)
