"""Memory: categories per tile; liveness of steps is in arrays."""

from __future__ import annotations

from tilescope.reports.schema.table import ColumnSpec, TableSpec
from tilescope.reports.schema.vocabulary import MEMORY_CATEGORIES

__all__ = ["memory_category"]

memory_category = TableSpec(
    "memory_category",
    "Categories of memory; the memory.* arrays hold bytes per tile and region",
    (
        ColumnSpec("memory_category_id", "integer", "Identity; row of the memory arrays, from 0"),
        ColumnSpec(
            "name",
            "text",
            "One of " + ", ".join(category.name for category in MEMORY_CATEGORIES),
            is_unique=True,
        ),
        ColumnSpec("label", "text", "Display name"),
        ColumnSpec(
            "is_overlapped", "boolean", "Whether its parts may share addresses at different times"
        ),
        ColumnSpec("total_bytes", "integer", "Sum over tiles, bytes"),
        ColumnSpec("max_tile_bytes", "integer", "Largest tile, bytes"),
    ),
)
