"""The catalogue of packed arrays: values per tile and step, and columns too long for tables."""

from __future__ import annotations

from dataclasses import dataclass

from tilescope.reports.schema.vocabulary import MEMORY_ROWS

__all__ = ["ARRAYS", "ArraySpec"]


@dataclass(frozen=True)
class ArraySpec:
    """The definition of one packed array and its chunk size.

    ``columns`` is ``one`` for a plain column, ``tiles`` for a value per tile of the whole target,
    ``ipu_tiles`` for a value per tile of one IPU. ``refers_to`` is the table that the values
    identify rows of, if any.
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
        _per_tile(
            "vertices.pattern",
            "tiles",
            "",
            "Vertices of a codelet of a compute set on every tile; a row per distinct pattern",
        ),
        _per_tile(
            "code.pattern",
            "tiles",
            "bytes",
            "Control or exchange code of a program on every tile; a row per distinct pattern",
        ),
        ArraySpec(
            "program_variable.program_id",
            "<i4",
            "one",
            "",
            "Leaf program that reads or writes a variable; sorted by program, then variable",
            refers_to="program",
        ),
        ArraySpec(
            "program_variable.variable_id",
            "<i4",
            "one",
            "",
            "The variable, which may be a message buffer",
            refers_to="variable",
        ),
        ArraySpec(
            "lifetime.variable_id",
            "<i4",
            "one",
            "",
            "Variable; sorted by start step",
            refers_to="variable",
        ),
        ArraySpec(
            "lifetime.start_step", "<i4", "one", "step", "First liveness step of its lifetime"
        ),
        ArraySpec("lifetime.end_step", "<i4", "one", "step", "First step after its lifetime"),
        ArraySpec(
            "lowered.tile_start", "<i8", "one", "", "First row per tile, then the number of rows"
        ),
        ArraySpec(
            "lowered.variable_id",
            "<i4",
            "one",
            "",
            "Variable of the part; sorted by tile",
            refers_to="variable",
        ),
        ArraySpec("lowered.offset", "<i8", "one", "bytes", "Address of the part on its tile"),
        ArraySpec("lowered.bytes", "<i8", "one", "bytes", "Size of the part"),
        ArraySpec("lowered.start_step", "<i4", "one", "step", "First liveness step of the part"),
        ArraySpec("lowered.end_step", "<i4", "one", "step", "First step after its lifetime"),
        ArraySpec(
            "trace.step_id",
            "<i4",
            "one",
            "",
            "Step that ran; sorted by run, IPU, track, start",
            refers_to="step",
        ),
        ArraySpec("trace.start_cycle", "<i8", "one", "cycles", "Start on the IPU's counter"),
        ArraySpec("trace.end_cycle", "<i8", "one", "cycles", "First cycle after its end"),
        ArraySpec("trace.period", "<i8", "one", "cycles", "Period of repetitions; 0 if once"),
        ArraySpec("trace.count", "<i4", "one", "", "Number of executions at that period"),
        ArraySpec("trace.pattern_id", "<i4", "one", "", "Row of cycles.pattern of this execution"),
    )
}
