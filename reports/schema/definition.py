"""Shared definitions of the tables: metadata, schema version, application id."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, MetaData

__all__ = ["APPLICATION_ID", "SCHEMA_VERSION", "column", "metadata"]

#: The four letters "TSCP", kept in SQLite's header field ``application_id``.
APPLICATION_ID = 0x54534350
#: Kept in SQLite's header field ``user_version``; raised when a table or array changes meaning.
SCHEMA_VERSION = 3

metadata = MetaData()


def column(name: str, kind: Any, comment: str, *args: Any, **options: Any) -> Column[Any]:
    """Return a column; its comment gives meaning and unit in one line.

    Columns are NOT NULL unless ``nullable=True`` is given.
    """
    options.setdefault("nullable", False)
    return Column(name, kind, *args, comment=comment, **options)
