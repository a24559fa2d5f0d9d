"""Faults of the storage below a recorded program: full disks, failing calls, loss of power.

The files of SQLite go through a VFS that counts the calls of the writer. It lets the nth one fail,
or keeps a log of all writes, from which the disk after a loss of power is made: what was synced is
there, of the rest an arbitrary part, whole sectors at a time.
"""

from __future__ import annotations

import os
import random
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw
from tests.faults.program import contradictions, run_names, start

from tilescope.engine.recorder.recording import without_warnings_of_loss
from tilescope.reports import (
    NotAReport,
    ReportError,
    ReportNotFound,
    State,
    open_report,
)

__all__ = ["run_disk_full", "run_failures", "run_power_loss"]

_SYSTEM = apsw.vfs_names()[0]
_SECTOR_BYTES = 512
#: The call after which the writes to a file before it are durable.
_DURABLE = "sync"
_N_RUNS = 12
_FLUSH_EVERY = 3


@dataclass
class _Ledger:
    """What the VFS was told: a count of calls, the one that fails, and the log of writes."""

    fails_at: int = 0
    error: Callable[[], Exception] = apsw.IOError
    n_calls: int = 0
    #: (file, kind, offset, bytes), in order; kind is write, truncate, sync or delete.
    log: list[tuple[str, str, int, bytes]] = field(default_factory=list)

    def call(self, kind: str) -> None:
        """Count a call and let it fail if it is its turn."""
        self.n_calls += 1
        if self.n_calls == self.fails_at:
            raise self.error()
        del kind


class _File(apsw.VFSFile):
    """A file whose calls are counted."""

    def __init__(self, ledger: _Ledger, vfs: str, name: Any, flags: list[int]) -> None:
        self._ledger = ledger
        self._name = Path(name.filename() if isinstance(name, apsw.URIFilename) else name).name
        ledger.call("open")
        super().__init__(vfs, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        """Write, unless it fails."""
        self._ledger.call("write")
        super().xWrite(data, offset)
        self._ledger.log.append((self._name, "write", offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        """Truncate, unless it fails."""
        self._ledger.call("truncate")
        super().xTruncate(newsize)
        self._ledger.log.append((self._name, "truncate", newsize, b""))

    def xSync(self, flags: int) -> None:  # noqa: N802
        """Sync, unless it fails."""
        self._ledger.call("sync")
        super().xSync(flags)
        self._ledger.log.append((self._name, "sync", 0, b""))

    def xLock(self, level: int) -> None:  # noqa: N802
        """Lock, unless it fails."""
        self._ledger.call("lock")
        super().xLock(level)


class _Vfs(apsw.VFS):
    """The system's files, counted."""

    def __init__(self, ledger: _Ledger) -> None:
        self._ledger = ledger
        super().__init__("tilescope-faults", _SYSTEM, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        """Open a file, unless it fails."""
        return _File(self._ledger, _SYSTEM, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        """Delete a file, unless it fails."""
        self._ledger.call("delete")
        super().xDelete(filename, syncdir)
        self._ledger.log.append((Path(filename).name, "delete", 0, b""))


@contextmanager
def _counted(ledger: _Ledger) -> Iterator[None]:
    """Send all files of SQLite through the VFS."""
    vfs = _Vfs(ledger)
    try:
        yield
    finally:
        vfs.unregister()


@dataclass
class _Outcome:
    """What a recorded program knows after its end."""

    acknowledged: list[int] = field(default_factory=list)
    calls_at: list[int] = field(default_factory=list)
    n_done: int = 0
    lost: str = ""
    path: Path | None = None


def _record(directory: Path, ledger: _Ledger | None = None) -> _Outcome:
    """Run the program to its end, and note when runs were acknowledged."""
    outcome = _Outcome()
    with start(directory) as engine:
        for number in range(_N_RUNS):
            engine.run(name=f"r{number}")
            outcome.n_done += 1
            if number % _FLUSH_EVERY == _FLUSH_EVERY - 1:
                engine.flush_report()
                if not engine.recorder.lost:
                    outcome.acknowledged.append(number + 1)
                    outcome.calls_at.append(len(ledger.log) if ledger else 0)
    outcome.lost, outcome.path = engine.recorder.lost, engine.recorder.path
    return outcome


def _judge(directory: Path, outcome: _Outcome) -> list[str]:
    """Return what is wrong after a failure: results, acknowledged runs, the state, the sentence."""
    problem = [] if outcome.n_done == _N_RUNS else [f"only {outcome.n_done} runs gave results"]
    acknowledged = max(outcome.acknowledged, default=0)
    try:
        with open_report(directory) as report:
            names, state = run_names(report), report.state.state
        problem += contradictions(directory)
    except (ReportNotFound, NotAReport):
        names, state = [], State.ENDED_EARLY
    except ReportError as error:
        return [*problem, f"unreadable: {error}"]
    if names != [f"r{number}" for number in range(len(names))] or len(names) < acknowledged:
        problem.append(f"{acknowledged} runs were acknowledged; there are {names}")
    if not outcome.lost and (state is not State.COMPLETE or len(names) != _N_RUNS):
        problem.append(f"nothing was said, and the report of {len(names)} runs is {state}")
    if outcome.lost and ("\n" in outcome.lost or len(outcome.lost) > 600):
        problem.append(f"not one sentence: {outcome.lost!r}")
    return problem


def run_failures(number: int = 0) -> dict[str, int | float | list[str]]:
    """Let each call of the storage layer fail once; return counts and failures.

    Parameters
    ----------
    number
        Calls, evenly chosen; 0 for all.
    """
    began = time.monotonic()
    failures: list[str] = []
    with TemporaryDirectory() as folder, without_warnings_of_loss():
        ledger = _Ledger()
        with _counted(ledger):
            _record(Path(folder) / "all")
        n_calls = ledger.n_calls
        chosen = range(1, n_calls + 1, max(1, n_calls // number) if number else 1)
        for nth in chosen:
            for error in (apsw.IOError, apsw.FullError):
                directory = Path(folder) / f"{nth}{error.__name__}"
                with _counted(_Ledger(fails_at=nth, error=error)):
                    outcome = _record(directory)
                failures += [
                    f"call {nth}, {error.__name__}: {sentence}"
                    for sentence in _judge(directory, outcome)
                ]
        for name in ("fsync", "replace", "open"):
            failures += _fail_python(Path(folder), name)
    return {
        "calls": n_calls,
        "trials": 2 * len(chosen),
        "failures": failures,
        "seconds": round(time.monotonic() - began, 1),
    }


def _fail_python(folder: Path, name: str) -> list[str]:
    """Let every call of a function of ``os`` by the writer fail once."""
    problem = []
    real = getattr(os, name)
    for nth in range(1, 6):
        count = 0

        def fail(*arguments: Any, nth: int = nth, **options: Any) -> Any:
            nonlocal count
            is_ours = isinstance(arguments[0], int) or "profile" in str(arguments[0])
            count += is_ours
            if is_ours and count == nth:
                raise OSError(5, os.strerror(5))
            return real(*arguments, **options)

        directory = folder / f"{name}{nth}"
        setattr(os, name, fail)
        try:
            outcome = _record(directory)
        finally:
            setattr(os, name, real)
        problem += [f"os.{name} {nth}: {sentence}" for sentence in _judge(directory, outcome)]
    return problem


def run_disk_full(number: int, seed: int = 0) -> dict[str, int | float | list[str]]:
    """Limit the size of files at many points; return counts and failures."""
    began = time.monotonic()
    failures: list[str] = []
    n_lost = 0
    dice = random.Random(seed)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for trial in range(number):
        limit = dice.randrange(0, 300_000) if trial else 0
        with TemporaryDirectory() as folder, without_warnings_of_loss():
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
            try:
                outcome = _record(Path(folder) / "r")
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            n_lost += bool(outcome.lost)
            failures += [
                f"limit {limit}: {sentence}" for sentence in _judge(Path(folder) / "r", outcome)
            ]
    return {
        "trials": number,
        "lost_reports": n_lost,
        "failures": failures,
        "seconds": round(time.monotonic() - began, 1),
    }


def run_power_loss(number: int, seed: int = 0) -> dict[str, int | float | list[str]]:
    """Lose the power after random writes of a recorded program; return counts and failures."""
    began = time.monotonic()
    failures: list[str] = []
    n_readable = 0
    with TemporaryDirectory() as folder:
        ledger = _Ledger()
        with _counted(ledger):
            outcome = _record(Path(folder) / "r", ledger)
        marks = list(zip(outcome.calls_at, outcome.acknowledged, strict=True))
        for trial in range(seed, seed + number):
            dice = random.Random(trial)
            end = dice.randrange(len(ledger.log) + 1)
            directory = Path(folder) / f"crash{trial}"
            directory.mkdir()
            for name, content in _disk_after(ledger.log[:end], dice).items():
                (directory / name).write_bytes(content)
            acknowledged = max((n for offset, n in marks if offset <= end), default=0)
            problem, is_readable = _judge_crash(directory, acknowledged)
            n_readable += is_readable
            failures += [f"seed {trial}: {sentence}" for sentence in problem]
    return {
        "trials": number,
        "readable": n_readable,
        "failures": failures,
        "seconds": round(time.monotonic() - began, 1),
    }


def _judge_crash(directory: Path, acknowledged: int) -> tuple[list[str], bool]:
    """Return what is wrong with a disk after a loss of power, and whether its report opens."""
    try:
        with open_report(directory) as report:
            names = run_names(report)
    except (ReportNotFound, NotAReport):
        return ([f"{acknowledged} acknowledged runs are gone"] if acknowledged else []), False
    except ReportError as error:
        return [f"unreadable: {error}"], False
    problem = contradictions(directory)
    if len(names) < acknowledged:
        problem.append(f"{acknowledged} runs were acknowledged, {len(names)} are there")
    return problem, True


def _disk_after(
    log: list[tuple[str, str, int, bytes]], dice: random.Random
) -> dict[str, bytearray]:
    """Return the files on a disk that kept all synced writes and some of the others."""
    last_sync: dict[str, int] = {}
    for number, (name, kind, _, _) in enumerate(log):
        if kind == _DURABLE:
            last_sync[name] = number
    files: dict[str, bytearray] = {}
    for number, (name, kind, offset, data) in enumerate(log):
        if kind == "delete":
            files.pop(name, None)
            continue
        content = files.setdefault(name, bytearray())
        is_durable = number < last_sync.get(name, -1)
        if kind == "truncate" and (is_durable or dice.random() < 0.5):
            del content[offset:]
        elif kind == "write":
            _write_sectors(content, offset, data, 1.0 if is_durable else dice.random(), dice)
    return files


def _write_sectors(
    content: bytearray, offset: int, data: bytes, share: float, dice: random.Random
) -> None:
    """Write a share of the sectors of a write."""
    for first in range(0, len(data), _SECTOR_BYTES):
        if share < 1.0 and dice.random() > share:
            continue
        part = data[first : first + _SECTOR_BYTES]
        position = offset + first
        if len(content) < position + len(part):
            content.extend(bytes(position + len(part) - len(content)))
        content[position : position + len(part)] = part
