"""Schemas that are not those of a report, as a hostile writer would store them."""

from __future__ import annotations

from pathlib import Path

import apsw

__all__ = ["ADDED", "ALTERED", "FORGED", "forge"]

#: Statements that add something to the schema.
ADDED = [
    "CREATE VIEW extra AS SELECT 1",
    "CREATE VIEW extra AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n)"
    " SELECT * FROM n",
    "CREATE VIEW extra AS SELECT printf('%.*c', 500000000, 'x')",
    "CREATE VIEW extra AS SELECT load_extension('x')",
    "CREATE VIEW extra AS SELECT * FROM step, step, step, step",
    "CREATE TRIGGER extra AFTER INSERT ON step BEGIN DELETE FROM step; END",
    "CREATE TRIGGER extra BEFORE UPDATE ON step BEGIN SELECT zeroblob(1000000000); END",
    "CREATE TABLE extra (a)",
    "CREATE TABLE extra (a, b AS (zeroblob(200000000)))",
    "CREATE TABLE extra (a CHECK (a IN (1)))",
    "CREATE TABLE extra (a PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE extra (a DEFAULT (randomblob(1000000)))",
    'CREATE TABLE "a\'b" (a)',
    'CREATE TABLE "<script>alert(1)</script>" (a)',
    'CREATE TABLE "\x1b[31m" (a)',
    "CREATE TABLE sqlite (a)",
    "CREATE TABLE " + "x" * 10_000 + " (a)",
    "CREATE INDEX extra ON step (name)",
    "CREATE INDEX extra ON step (upper(name))",
    "CREATE INDEX extra ON step (name) WHERE step_id > 3",
    "CREATE UNIQUE INDEX extra ON step (step_id)",
    "CREATE VIRTUAL TABLE extra USING fts5(a)",
    "CREATE VIRTUAL TABLE extra USING fts3(a)",
    "CREATE VIRTUAL TABLE extra USING fts4(a)",
    "CREATE VIRTUAL TABLE extra USING rtree(i, a, b)",
    "CREATE VIRTUAL TABLE extra USING geopoly(a)",
    "CREATE TABLE extra (a INTEGER PRIMARY KEY AUTOINCREMENT)",
    "ANALYZE",
]
#: Statements that change it.
ALTERED = [
    "DROP TABLE notice",
    "DROP TABLE step",
    "ALTER TABLE step ADD COLUMN extra",
    "ALTER TABLE step ADD COLUMN extra AS (zeroblob(200000000))",
    "ALTER TABLE step DROP COLUMN name",
    "ALTER TABLE step RENAME COLUMN name TO title",
    "ALTER TABLE step RENAME TO phase",
    "DROP TABLE step; CREATE VIEW step AS SELECT 1 AS step_id",
    "DROP TABLE step; CREATE TABLE step (step_id INTEGER NOT NULL)",
    "DROP TABLE step; CREATE VIRTUAL TABLE step USING fts5(name)",
]
#: Changes to the rows of `sqlite_schema` that no regular statement allows.
FORGED = [
    "sql = replace(sql, 'TEXT', 'BLOB') WHERE name = 'step'",
    "sql = replace(sql, 'NOT NULL', '') WHERE name = 'step'",
    "sql = replace(sql, 'UNIQUE (name)', 'CHECK (length(name) > 1)') WHERE name = 'vertex_type'",
    "sql = replace(sql, 'name TEXT', 'name TEXT COLLATE NOCASE') WHERE name = 'step'",
    "sql = replace(sql, 'name TEXT', 'name TEXT DEFAULT 5') WHERE name = 'step'",
    "sql = 'CREATE TABLE step (' WHERE name = 'step'",
    "sql = x'00ff' WHERE name = 'step'",
    "sql = NULL WHERE name = 'step'",
    "sql = sql || ' STRICT' WHERE name = 'step'",
    "type = 'view' WHERE name = 'step'",
    "type = 'index' WHERE name = 'step'",
    "name = 'STEP' WHERE name = 'step'",
    "tbl_name = 'run' WHERE name = 'step'",
    "rootpage = 0 WHERE name = 'step'",
    "rootpage = 1 WHERE name = 'step'",
    "rootpage = 999999 WHERE name = 'step'",
    "rootpage = 'x' WHERE name = 'step'",
    "rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'run') WHERE name = 'step'",
]


def forge(path: Path, statement: str) -> None:
    """Change the schema of a report file.

    Raises
    ------
    apsw.SQLError
        This SQLite has no such module.
    """
    connection = apsw.Connection(str(path))
    if statement in FORGED:
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
        connection.execute("PRAGMA writable_schema=ON")
        statement = f"UPDATE sqlite_schema SET {statement}"
    try:
        connection.execute(statement)
    finally:
        connection.close()
