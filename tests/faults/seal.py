"""Recomputes the digests of a changed report, as someone who knows the format would."""

from __future__ import annotations

import apsw

from tilescope.reports.integrity.digests import chain, digest_columns
from tilescope.reports.schema import TABLES, TableSpec, milestone

__all__ = ["reseal", "stored_tables"]

_MILESTONES = ("created", "compiled", "run", "finished")


def stored_tables(connection: apsw.Connection) -> list[TableSpec]:
    """Return the tables that a report has: some are of a kind of reports only."""
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema").fetchall()}
    return [table for table in TABLES.values() if table.name in names]


def reseal(connection: apsw.Connection) -> None:
    """Write the digests of all rows, and the chain of milestones, anew."""
    connection.execute("DELETE FROM row_block")
    connection.execute("DELETE FROM milestone")
    blocks = []
    for table in stored_tables(connection):
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
    for number, name in enumerate(_MILESTONES):
        is_last = number == len(_MILESTONES) - 1
        if is_last and seals:
            digest_of_seals = digest_columns(milestone, list(zip(*seals, strict=True)))
            blocks.append(("milestone", 0, len(seals) - 1, len(seals), digest_of_seals))
        numbered = [(i, *block) for i, block in enumerate(blocks)] if is_last else []
        digest = chain(digest, name, len(numbered), numbered)
        seals.append((number, name, len(numbered), digest))
    connection.executemany("INSERT INTO row_block VALUES (?, ?, ?, ?, ?, ?)", numbered)
    connection.executemany("INSERT INTO milestone VALUES (?, ?, ?, ?)", seals)
