"""Memory: categories per tile; liveness of steps is in arrays."""

from __future__ import annotations

from sqlalchemy import Boolean, Integer, Table, Text

from tilescope.reports.declaration.definition import column, metadata
from tilescope.reports.schema.vocabulary import MEMORY_CATEGORIES

__all__ = ["memory_category"]

memory_category = Table(
    "memory_category",
    metadata,
    column(
        "memory_category_id",
        Integer,
        "Identity; row of the memory arrays, from 0",
        primary_key=True,
    ),
    column(
        "name",
        Text,
        "One of " + ", ".join(category.name for category in MEMORY_CATEGORIES),
        unique=True,
    ),
    column("label", Text, "Display name"),
    column("is_overlapped", Boolean, "Whether its parts may share addresses at different times"),
    column("total_bytes", Integer, "Sum over tiles, bytes"),
    column("max_tile_bytes", Integer, "Largest tile, bytes"),
    comment="Categories of memory; the memory.* arrays hold bytes per tile and region",
)
