from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest
from tests.generated_report import generate_report

from tilescope.reports.digests import chain, digest_columns
from tilescope.reports.schema import TABLES, milestone


@pytest.fixture(scope="session")
def small_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a small generated report."""
    directory = tmp_path_factory.mktemp("small")
    path = generate_report(
        directory, n_tiles=8, n_steps=30, n_variables=9, distinct_patterns=6, n_runs=2
    )
    return path.read_bytes()


@pytest.fixture
def small_report(tmp_path: Path, small_bytes: bytes) -> Path:
    path = tmp_path / "profile.pop"
    path.write_bytes(small_bytes)
    return path


@pytest.fixture
def tamper(small_report: Path) -> Callable[[], object]:
    """Open the small report for writing; afterwards, recompute all digests.

    An attacker who knows the format would do this: only the checks beyond the digests detect it.
    """

    @contextmanager
    def change() -> Iterator[apsw.Connection]:
        connection = apsw.Connection(str(small_report))
        yield connection
        _reseal(connection)
        connection.close()

    return change


def _reseal(connection: apsw.Connection) -> None:
    names = ["created", "compiled", "run", "finished"]
    connection.execute("DELETE FROM row_block")
    connection.execute("DELETE FROM milestone")
    blocks = []
    for table in TABLES.values():
        if table.name in ("row_block", "milestone"):
            continue
        listed = ", ".join(f'"{column.name}"' for column in table.digested)
        key = table.primary_key
        rows = connection.execute(
            f'SELECT {listed} FROM "{table.name}" ORDER BY "{key}"'
        ).fetchall()
        if rows:
            try:
                digest = digest_columns(table, list(zip(*rows, strict=True)))
            except (TypeError, ValueError):
                digest = bytes(16)  # values of another type have no digest
            blocks.append((table.name, rows[0][0], rows[-1][0], len(rows), digest))
    digest = b""
    seals: list[tuple[int, str, int, bytes]] = []
    for number, name in enumerate(names):
        is_last = number == len(names) - 1
        if is_last and seals:
            digest_of_seals = digest_columns(milestone, list(zip(*seals, strict=True)))
            blocks.append(("milestone", 0, len(seals) - 1, len(seals), digest_of_seals))
        numbered = [(i, *block) for i, block in enumerate(blocks)] if is_last else []
        digest = chain(digest, name, len(numbered), numbered)
        seals.append((number, name, len(numbered), digest))
    connection.executemany("INSERT INTO row_block VALUES (?, ?, ?, ?, ?, ?)", numbered)
    connection.executemany("INSERT INTO milestone VALUES (?, ?, ?, ?)", seals)
