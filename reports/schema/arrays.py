"""The catalogue of packed arrays: what is tiles × steps, or too long for rows."""

from __future__ import annotations

from dataclasses import dataclass

from tilescope.reports.schema.vocabulary import MEMORY_ROWS

__all__ = ["ARRAYS", "ArraySpec"]


@dataclass(frozen=True)
class ArraySpec:
    """What one packed array means and how it is cut into chunks.

    ``columns`` is ``one`` for a plain column, ``tiles`` for a value per tile of the whole target,
    ``ipu_tiles`` for a value per tile of one IPU. ``refers_to`` is the table whose identities the
    values are, if they are any.
    """

    name: str
    dtype: str
    columns: str
    unit: str
    comment: str
    chunk_rows: int = 65_536
    chunk_columns: int = 1
    refers_to: str | None = None


def _per_tile(name: str, columns: str, unit: str, comment: str) -> ArraySpec:
    return ArraySpec(name, "<i8", columns, unit, comment, chunk_rows=256, chunk_columns=64)


ARRAYS: dict[str, ArraySpec] = {
    spec.name: spec
    for spec in (
        _per_tile(
            "memory.non_interleaved",
            "tiles",
            "bytes",
            "Non-interleaved memory; a row per memory_category in order of its id",
        ),
        _per_tile(
            "memory.interleaved",
            "tiles",
            "bytes",
            "Interleaved memory; a row per memory_category",
        ),
        _per_tile(
            "memory.overflowed",
            "tiles",
            "bytes",
            "Memory past the tile's capacity; a row per memory_category",
        ),
        _per_tile(
            "memory.tile",
            "tiles",
            "bytes",
            "Rows: " + ", ".join(f"{row.number} {row.meaning}" for row in MEMORY_ROWS.values()),
        ),
        _per_tile(
            "liveness.pattern",
            "tiles",
            "bytes",
            "Not-always-live bytes of every tile; a row per distinct pattern",
        ),
        _per_tile(
            "cycles.pattern",
            "ipu_tiles",
            "cycles",
            "Busy cycles of every tile of an IPU in a step; a row per distinct pattern, row 0"
            " zeros",
        ),
        ArraySpec(
            "lifetime.variable_id",
            "<i4",
            "one",
            "",
            "Variable; sorted by start step",
            refers_to="variable",
        ),
        ArraySpec("lifetime.start_step", "<i4", "one", "step", "First liveness step it is live at"),
        ArraySpec("lifetime.end_step", "<i4", "one", "step", "First step it is no longer live at"),
        ArraySpec(
            "lowered.tile_start", "<i8", "one", "", "First row of each tile, and one past all"
        ),
        ArraySpec(
            "lowered.variable_id",
            "<i4",
            "one",
            "",
            "Variable a part belongs to; by tile",
            refers_to="variable",
        ),
        ArraySpec("lowered.offset", "<i8", "one", "bytes", "Address of the part on its tile"),
        ArraySpec("lowered.bytes", "<i8", "one", "bytes", "Size of the part"),
        ArraySpec("lowered.start_step", "<i4", "one", "step", "First liveness step of the part"),
        ArraySpec("lowered.end_step", "<i4", "one", "step", "First step it is no longer live at"),
        ArraySpec(
            "trace.step_id",
            "<i4",
            "one",
            "",
            "Step that ran; by run, IPU, track, start",
            refers_to="step",
        ),
        ArraySpec("trace.start_cycle", "<i8", "one", "cycles", "Start on the IPU's counter"),
        ArraySpec("trace.end_cycle", "<i8", "one", "cycles", "First cycle after it"),
        ArraySpec("trace.period", "<i8", "one", "cycles", "Distance of repetitions; 0 if once"),
        ArraySpec("trace.count", "<i4", "one", "", "How many times it ran at that distance"),
        ArraySpec("trace.pattern_id", "<i4", "one", "", "Row of cycles.pattern of this execution"),
    )
}
