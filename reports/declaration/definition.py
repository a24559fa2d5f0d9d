"""Shared definitions of the declarations: metadata, and columns with a comment."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, MetaData

__all__ = ["column", "metadata"]

metadata = MetaData()


def column(name: str, kind: Any, comment: str, *args: Any, **options: Any) -> Column[Any]:
    """Return a column; its comment gives meaning and unit in one line.

    Columns are NOT NULL unless ``nullable=True`` is given.
    """
    options.setdefault("nullable", False)
    return Column(name, kind, *args, comment=comment, **options)
