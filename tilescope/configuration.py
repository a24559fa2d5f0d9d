"""``tilescope.toml``: gates, acknowledged regressions and where baselines are stored."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tilescope.private_folder import foreign_owner

if TYPE_CHECKING:
    from tilescope.analyser.gates import Acknowledgement, Gate, Level

__all__ = ["FILE_NAME", "BadConfiguration", "Configuration", "find", "line_of", "read"]

FILE_NAME = "tilescope.toml"

_TABLES = {
    "diff": ("fail-on", "warn-on"),
    "baseline": ("store", "remote"),
    "acknowledge": ("metric", "limit", "until", "reason"),
}
_LARGEST_BYTES = 1 << 20
_REQUIRED = ("metric", "until", "reason")


class BadConfiguration(Exception):
    """The configuration is malformed; the message names file and key."""

    code = "bad_configuration"
    exit_code = 2


@dataclass(frozen=True)
class Configuration:
    """What ``tilescope.toml`` says; without a file, nothing.

    ``store`` and ``remote`` are those of ``tilescope baseline``.
    """

    path: Path | None = None
    gates: tuple[Gate, ...] = ()
    acknowledgements: tuple[Acknowledgement, ...] = ()
    store: str | None = None
    remote: str | None = None


def find(start: Path) -> Path | None:
    """Return the nearest ``tilescope.toml`` in a directory or those above it."""
    start = start.resolve()
    for directory in (start, *start.parents):
        if os.path.isfile(directory / FILE_NAME):  # False too where it may not look
            return directory / FILE_NAME
    return None


def read(path: Path | None) -> Configuration:
    """Return the configuration of a file; that of the nearest ``tilescope.toml`` if None.

    Raises
    ------
    BadConfiguration
        When the file is missing, not TOML, or has an unknown key, metric or value, or when the
        nearest one belongs to another user, or is in such a directory.
    """
    file = find(Path.cwd()) if path is None else path
    if file is None:
        return Configuration()
    try:
        content = tomllib.loads(_text_of(file, is_named=path is not None))
    except OSError as error:
        raise BadConfiguration(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadConfiguration(f"{file} is not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise BadConfiguration(f"{file} is not TOML: {error}") from None
    return _Reader(file).configuration(content)


def _text_of(path: Path, *, is_named: bool) -> str:
    """Return the content of a file; one that was not named must be this user's, or root's.

    Git uses a repository of another user only if it is told to: anyone can put a file into /tmp.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (0 if is_named else os.O_NONBLOCK))
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not is_named:
            statuses = (path.lstat(), status, path.parent.stat())
            owners = [owner for owner in map(foreign_owner, statuses) if owner]
            if owners:
                raise BadConfiguration(
                    f"{path} is not used: it or its directory belongs to {owners[0]};"
                    " name it with --config to use it, or /dev/null for no configuration"
                )
            if not stat.S_ISREG(status.st_mode):
                raise BadConfiguration(f"{path} is not a file; remove it, or name one in --config")
        content = file.read(_LARGEST_BYTES + 1)
    if len(content) > _LARGEST_BYTES:
        raise BadConfiguration(f"{path} is longer than {_LARGEST_BYTES:,} bytes")
    return content.decode("utf-8").replace("\r\n", "\n")


def line_of(path: Path, text: str) -> int:
    """Return the first line of a file that holds a text; 1 if none does."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if text in line:
            return number
    return 1


class _Reader:
    """Checks the content of one file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def configuration(self, content: Mapping[str, object]) -> Configuration:
        """Return what a file says."""
        self._check_keys("", content, tuple(_TABLES))
        diff, baseline = self._table(content, "diff"), self._table(content, "baseline")
        return Configuration(
            self._path,
            (*self._gates(diff, "fail-on", "fail"), *self._gates(diff, "warn-on", "warn")),
            tuple(self._acknowledgements(content.get("acknowledge", []))),
            self._text(baseline, "baseline", "store"),
            self._text(baseline, "baseline", "remote"),
        )

    def _bad(self, key: str, problem: str) -> BadConfiguration:
        """Return an error about a key."""
        return BadConfiguration(f"{self._path}: {key}: {problem}")

    def _check_keys(self, where: str, table: Mapping[str, object], known: tuple[str, ...]) -> None:
        """Refuse unknown keys."""
        for key in table:
            if key not in known:
                name = f"{where}.{key}" if where else key
                raise self._bad(name, f"unknown key; expected {', '.join(known)}")

    def _table(self, content: Mapping[str, object], name: str) -> Mapping[str, object]:
        """Return a table of the file; an empty one if it is missing."""
        table = content.get(name, {})
        if not isinstance(table, dict):
            raise self._bad(name, f"expected a table [{name}]")
        self._check_keys(name, table, _TABLES[name])
        return table

    def _text(self, table: Mapping[str, object], where: str, key: str) -> str | None:
        """Return a string of a table; None if it is missing."""
        value = table.get(key)
        if value is None or (isinstance(value, str) and value.strip()):
            return value
        raise self._bad(f"{where}.{key}", f"expected a string, got {value!r}")

    def _gates(self, diff: Mapping[str, object], key: str, level: Level) -> Iterator[Gate]:
        """Yield the gates of a list."""
        from tilescope.analyser.errors import BadQuestion
        from tilescope.analyser.gates import parse_gate

        listed = diff.get(key, [])
        if not isinstance(listed, list):
            raise self._bad(f"diff.{key}", 'expected a list such as ["cycles.total:+1%"]')
        for number, text in enumerate(listed):
            where = f"diff.{key}[{number}]"
            if not isinstance(text, str):
                raise self._bad(where, f"expected a gate such as 'cycles.total:+1%', got {text!r}")
            try:
                yield parse_gate(text, level, str(self._path))
            except BadQuestion as error:
                raise self._bad(where, str(error)) from None

    def _acknowledgements(self, listed: object) -> Iterator[Acknowledgement]:
        """Yield the acknowledged regressions."""
        from tilescope.analyser.errors import BadQuestion
        from tilescope.analyser.gates import parse_acknowledgement

        if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
            raise self._bad("acknowledge", "expected tables [[acknowledge]]")
        for number, item in enumerate(listed):
            where = f"acknowledge[{number}]"
            self._check_keys(where, item, _TABLES["acknowledge"])
            for key in _REQUIRED:
                if key not in item:
                    raise self._bad(where, f"the key {key!r} is missing")
            texts = {key: self._text(item, where, key) for key in ("metric", "limit", "reason")}
            try:
                yield parse_acknowledgement(
                    texts["metric"] or "",
                    self._date(item["until"], f"{where}.until"),
                    texts["reason"] or "",
                    texts["limit"],
                )
            except BadQuestion as error:
                raise self._bad(where, str(error)) from None

    def _date(self, value: object, where: str) -> date:
        """Return a date, written as one of TOML's or as a string."""
        if isinstance(value, date) and not isinstance(value, datetime):
            return value
        try:
            return date.fromisoformat(value if isinstance(value, str) else "")
        except ValueError:
            raise self._bad(where, f"expected a date such as 2026-12-31, got {value!s}") from None
