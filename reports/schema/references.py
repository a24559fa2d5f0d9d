"""Which columns and arrays name rows of other tables."""

from __future__ import annotations

import re
from functools import cache

from sqlalchemy import Column, Table

from tilescope.reports.schema.base import metadata

__all__ = ["ARRAY_REFERENCES", "references"]

#: Packed array to the table whose identity it holds.
ARRAY_REFERENCES = {
    "lifetime.variable_id": "variable",
    "lowered.variable_id": "variable",
    "trace.step_id": "step",
}
_NAMED = re.compile(r"\((\w+)\)")


@cache
def references() -> tuple[tuple[Table, Column[int], Table], ...]:
    """Return (table, column, table it refers to) as the comments of columns name it."""
    found = []
    for table in metadata.sorted_tables:
        for column in table.columns:
            match = _NAMED.search(column.comment or "")
            if match and match[1] in metadata.tables and column.name.endswith("_id"):
                found.append((table, column, metadata.tables[match[1]]))
    return tuple(found)
