"""The tables of the catalogue, for any database that SQLAlchemy knows."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, MetaData, Table, Text

__all__ = ["VERSION", "metadata", "reports"]

#: Increases with each change of a table; another version is another file.
VERSION = 1

metadata = MetaData()

reports = Table(
    "report",
    metadata,
    Column("path", LargeBinary, primary_key=True, comment="Path as the system spells it"),
    Column("stamp", Text, nullable=False, comment="Digest of inode, time and size of the file"),
    Column("state", Text, nullable=False, comment="complete, ended early, damaged, or why not"),
    Column("model", Text, comment="Name of the model, else of the engine; null if unreadable"),
    Column("machine", Text, comment="Name of the machine"),
    Column("n_ipus", Integer, comment="IPUs of the machine"),
    Column("n_runs", Integer, comment="Recorded runs"),
    Column("cycles", BigInteger, comment="Of all recorded runs; null without a run"),
    Column("max_tile_bytes", BigInteger, comment="What the fullest tile holds, gaps excluded"),
    Column("fullest_tile_id", Integer, comment="The fullest tile, over all IPUs, from 0"),
    Column("n_tiles_over", Integer, comment="Tiles that do not fit; null without memory"),
    comment="What was last read of a report file",
)
