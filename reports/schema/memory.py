"""Memory: categories per tile, and liveness per step."""

from __future__ import annotations

from sqlalchemy import Boolean, ForeignKey, Integer, Table, Text

from tilescope.reports.schema.definition import column, metadata
from tilescope.reports.schema.vocabulary import MEMORY_CATEGORIES

__all__ = ["liveness_step", "memory_category"]

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

liveness_step = Table(
    "liveness_step",
    metadata,
    column("liveness_step_id", Integer, "Identity, from 0 in program order", primary_key=True),
    column("step_id", Integer, "The step of the program", ForeignKey("step.step_id")),
    column("program_id", Integer, "The leaf of the program tree", ForeignKey("program.program_id")),
    column("not_always_live_bytes", Integer, "Live now but not always, sum over tiles, bytes"),
    column("max_tile_id", Integer, "Tile with the most not-always-live bytes"),
    column("max_tile_bytes", Integer, "Not-always-live bytes on that tile"),
    column("pattern_id", Integer, "Row of liveness.pattern with the bytes of every tile"),
    comment="Live memory at every step of the program, from compilation",
)
