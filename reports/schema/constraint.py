"""Constraints on the values of columns and arrays, beyond their types.

Every reader relies on them: they are checked when a table, an array or a chunk is first read. What
is not listed here follows from the declaration: an integer is at least 0 and at most `MAX_INTEGER`,
a boolean is 0 or 1, a real number is finite and at least 0 (`MINIMA`, `MAXIMA`
have the exceptions), a reference names a row of its table.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import inf

from tilescope.reports.schema.vocabulary import (
    BOUNDS,
    HOST_RECORDS,
    MEMORY_CATEGORIES,
    MEMORY_ROWS,
    PROGRAM_KINDS,
    PURPOSES,
    REGIONS,
    SLICE_KINDS,
    SYNC_ZONES,
    TRAINING_PASSES,
)

__all__ = [
    "ARRAY_ROWS",
    "ASCENDING_ARRAYS",
    "COLUMN_CODES",
    "COLUMN_COUNTS",
    "COUNTED_ARRAYS",
    "FIXED_COUNTS",
    "MAXIMA",
    "MAX_INTEGER",
    "MAX_IPUS",
    "MAX_TILES_PER_IPU",
    "MAX_TOTAL",
    "MINIMA",
    "PARENT_COLUMNS",
    "UNCONSTRAINED_TABLES",
    "Count",
]

#: The largest integer that a float and JSON represent exactly.
MAX_INTEGER = 2**53
#: Largest sum over a column or an array of quantities: sums fit 64 bits.
MAX_TOTAL = 2**62
MAX_IPUS = 1 << 12
MAX_TILES_PER_IPU = 1 << 16

#: Tables that describe storage; their values are checked with the layouts of arrays and the chain.
UNCONSTRAINED_TABLES = frozenset(("array", "array_chunk", "chunk", "row_block", "milestone"))


@dataclass(frozen=True)
class Count:
    """A number of things in a report: rows of a table or an array, or tiles or IPUs.

    ``name`` is a table, an array, ``tiles`` or ``ipus``. ``more`` is added to the number. Without
    any, values are not constrained if ``is_optional``.
    """

    name: str
    more: int = 0
    is_optional: bool = False


#: Columns that number things from 0, other than rows of tables: the number of those.
COLUMN_COUNTS: dict[tuple[str, str], Count] = {
    ("run_trace", "ipu_id"): Count("ipus"),
    ("run_trace", "track"): Count("tracks"),
    ("trace_bar", "ipu_id"): Count("ipus"),
    ("trace_bar", "track"): Count("tracks"),
    ("compute_set_vertex", "vertices_pattern_id"): Count("vertices.pattern"),
    ("program", "code_pattern_id"): Count("code.pattern"),
}
#: Arrays that number things from 0, other than rows of tables: the number of those.
COUNTED_ARRAYS: dict[str, Count] = {
    "liveness.max_tile_id": Count("tiles"),
    "liveness.pattern_id": Count("liveness.pattern"),
    "cost.ipu_id": Count("ipus"),
    "cost.pattern_id": Count("cycles.pattern"),
    "cost.sync_zone": Count("sync_zones"),
    "lifetime.start_step": Count("liveness.step_id", is_optional=True),
    "lifetime.end_step": Count("liveness.step_id", more=1, is_optional=True),
    "lowered.tile_start": Count("lowered.bytes", more=1),
    "lowered.start_step": Count("liveness.step_id", is_optional=True),
    "lowered.end_step": Count("liveness.step_id", more=1, is_optional=True),
    "trace.pattern_id": Count("cycles.pattern"),
    "host_event.kind": Count("host_records"),
    "total.ipu_id": Count("ipus"),
    "total.track": Count("tracks"),
    "total.pattern_id": Count("cycles.pattern"),
    "bar.kind": Count("slice_kinds"),
    "bar_share.kind": Count("slice_kinds"),
}
#: Counts that the schema decides.
FIXED_COUNTS: dict[str, int] = {
    "sync_zones": max(SYNC_ZONES.values()) + 1,
    "slice_kinds": len(SLICE_KINDS),
    "tracks": 2,
    "host_records": len(HOST_RECORDS),
    "memory_rows": len(MEMORY_ROWS),
}
#: Number of rows of arrays that have a fixed one, unless they are empty.
ARRAY_ROWS: dict[str, Count] = {
    "lowered.tile_start": Count("tiles", more=1),
    "memory.tile": Count("memory_rows"),
    "liveness.ipu_bytes": Count("liveness.pattern"),
    **{region.array: Count("memory_category") for region in REGIONS},
}
ASCENDING_ARRAYS = frozenset(
    (
        "program_variable.program_id",
        "liveness.step_id",
        "cost.step_id",
        "dataflow.target_step_id",
        "lifetime.start_step",
        "lowered.tile_start",
    )
)
#: Columns that refer to a row before their own: trees without cycles.
PARENT_COLUMNS = frozenset((("program", "parent_id"), ("debug_context", "parent_id")))
#: Columns of texts that readers look up.
COLUMN_CODES: dict[tuple[str, str], Collection[str]] = {
    ("debug_context", "training_pass"): frozenset(TRAINING_PASSES),
    ("training_overflow", "training_pass"): frozenset(TRAINING_PASSES),
    ("program", "kind"): frozenset(PROGRAM_KINDS),
    ("program", "root_kind"): frozenset(("control", "function")),
    ("program", "pipeline_part"): frozenset(("work", "load", "store", "copies")),
    ("step", "kind"): frozenset(name for name, kind in PROGRAM_KINDS.items() if kind.is_step),
    ("memory_category", "name"): frozenset(category.name for category in MEMORY_CATEGORIES),
    ("variable", "purpose"): frozenset(
        purpose.name for purpose in PURPOSES.values() if purpose.is_stated
    ),
    ("variable", "category"): frozenset(
        category.name for category in MEMORY_CATEGORIES if category.is_variable
    ),
    ("plan", "bound"): frozenset(BOUNDS),
    ("plan_stage", "phase"): frozenset(("compute", "exchange")),
}
#: Minima other than 0.
MINIMA: dict[tuple[str, str], int | float] = {
    ("target", "n_ipus"): 1,
    ("target", "n_replicas"): 1,
    ("target", "tiles_per_ipu"): 1,
    ("target", "bytes_per_tile"): 1,
    ("target", "n_worker_contexts"): 1,
    ("target", "clock_hz"): 1.0,
    ("target", "exchange_bytes_per_cycle"): 1e-6,
    ("target", "host_bytes_per_cycle"): 1e-6,
    # What is left of a tile that is smaller than its non-interleaved region.
    ("target", "interleaved_bytes"): -(2**40),
    ("training_step", "loss"): -inf,
    ("host_sample", "value"): -inf,
    ("training_overflow", "n_values"): 1,
    # A track may repeat one of another IPU whose counter is ahead.
    ("run_trace", "shift_cycles"): -MAX_INTEGER,
}
#: Maxima other than those of the kind of a column.
MAXIMA: dict[tuple[str, str], int | float] = {
    ("training_step", "loss"): inf,
    ("host_sample", "value"): inf,
}
