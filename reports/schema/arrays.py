"""The catalogue of packed arrays: values per tile and step, and columns too long for tables."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilescope.reports.schema.version import OLDEST_VERSION
from tilescope.reports.schema.vocabulary import HOST_RECORDS, MEMORY_ROWS, SYNC_ZONES

__all__ = [
    "ARRAYS",
    "BAR_COLUMNS",
    "BAR_SHARE_COLUMNS",
    "COST_COLUMNS",
    "DATAFLOW_COLUMNS",
    "HOST_EVENT_COLUMNS",
    "LIVENESS_COLUMNS",
    "TOTAL_COLUMNS",
    "TRACE_COLUMNS",
    "ArraySpec",
]


@dataclass(frozen=True)
class ArraySpec:
    """The definition of one packed array and its chunk size.

    ``columns`` is ``one`` for a plain column, ``tiles`` for a value per tile of the whole target,
    ``ipu_tiles`` for a value per tile of one IPU, ``ipus`` for a value per IPU. ``sum_of`` is the
    array with a value per tile whose rows are summed over the tiles of every IPU; the writer does
    that. ``refers_to`` is the table that the values
    identify rows of, if any. ``since`` is the version of the schema that brought the array.
    ``chunks_before`` is a version, and the rows and columns of a full chunk before it.
    """

    name: str
    dtype: str
    columns: str
    unit: str
    comment: str
    chunk_rows: int = 65_536
    chunk_columns: int = 1
    refers_to: str | None = None
    since: int = OLDEST_VERSION
    chunks_before: tuple[int, int, int] | None = None
    sum_of: str | None = None

    def as_of(self, version: int) -> ArraySpec:
        """Return the array as reports of a version of the schema have it."""
        if self.chunks_before is None or version >= self.chunks_before[0]:
            return self
        _, chunk_rows, chunk_columns = self.chunks_before
        return replace(self, chunk_rows=chunk_rows, chunk_columns=chunk_columns)


def _per_tile(name: str, columns: str, unit: str, comment: str) -> ArraySpec:
    return ArraySpec(name, "<i8", columns, unit, comment, chunk_rows=256, chunk_columns=64)


def _memory(name: str, comment: str) -> ArraySpec:
    """Return an array of a few rows, which are read for many tiles at a time."""
    return ArraySpec(
        name,
        "<i8",
        "tiles",
        "bytes",
        comment,
        chunk_rows=32,
        chunk_columns=2_048,
        chunks_before=(7, 256, 64),
    )


def _columns(
    group: str, rows: tuple[tuple[str, str, str, str], ...], since: int = OLDEST_VERSION
) -> tuple[ArraySpec, ...]:
    """Return plain columns of equal length: name, dtype, unit and meaning of each."""
    refers_to = {
        "step_id": "step",
        "source_step_id": "step",
        "target_step_id": "step",
        "program_id": "program",
        "variable_id": "variable",
        "host_label_id": "host_label",
        "host_thread_id": "host_thread",
    }
    return tuple(
        ArraySpec(
            f"{group}.{name}",
            dtype,
            "one",
            unit,
            comment,
            refers_to=refers_to.get(name),
            since=since,
        )
        for name, dtype, unit, comment in rows
    )


#: Live memory at every step of the program, from compilation; a row per step.
_LIVENESS = (
    ("step_id", "<i4", "", "The step; rows are in program order"),
    ("program_id", "<i4", "", "The leaf of the program tree"),
    ("not_always_live_bytes", "<i8", "bytes", "Live now but not always, sum over tiles"),
    ("max_tile_id", "<i4", "", "Tile with the most not-always-live bytes"),
    ("max_tile_bytes", "<i8", "bytes", "Not-always-live bytes on that tile"),
    ("pattern_id", "<i4", "", "Row of liveness.pattern with the bytes of every tile"),
)
#: Cost of one execution of a step on one IPU, by cause; a row per step and IPU.
_COST = (
    ("step_id", "<i4", "", "The step; sorted by step, then IPU"),
    ("ipu_id", "<i4", "", "The IPU, from 0"),
    ("cycles", "<i8", "cycles", "Time of one execution of the step on this IPU"),
    ("n_active_tiles", "<i4", "", "Tiles with work"),
    ("max_tile_cycles", "<i8", "cycles", "Busiest tile"),
    ("total_tile_cycles", "<i8", "cycles", "Sum over tiles"),
    ("max_sent_bytes", "<i8", "bytes", "Most bytes sent by a tile in an exchange"),
    ("max_received_bytes", "<i8", "bytes", "Most bytes received by a tile in an exchange"),
    ("total_sent_bytes", "<i8", "bytes", "Sent by all tiles, a multicast counted once"),
    ("total_received_bytes", "<i8", "bytes", "Received by all tiles"),
    (
        "total_paired_bytes",
        "<i8",
        "bytes",
        "Received bytes that both tiles of a pair take at once, at double rate",
    ),
    ("n_fragments", "<i8", "", "Separate fragments received on the busiest tile"),
    ("host_in_bytes", "<i8", "bytes", "From the host"),
    ("host_out_bytes", "<i8", "bytes", "To the host"),
    ("remote_in_bytes", "<i8", "bytes", "From remote buffers in streaming memory"),
    ("remote_out_bytes", "<i8", "bytes", "To remote buffers in streaming memory"),
    ("link_in_bytes", "<i8", "bytes", "From other IPUs"),
    ("link_out_bytes", "<i8", "bytes", "To other IPUs"),
    (
        "sync_zone",
        "<i4",
        "",
        "Tiles it syncs with: " + ", ".join(f"{code} {name}" for name, code in SYNC_ZONES.items()),
    ),
    ("flops", "<i8", "", "Useful floating-point operations"),
    ("pattern_id", "<i4", "", "Row of cycles.pattern with the cycles of every tile of the IPU"),
)
#: Data flow between steps; a row per step, variable and step that last wrote some of it.
_DATAFLOW = (
    ("target_step_id", "<i4", "", "Step that reads; sorted by it, then variable, then source"),
    ("variable_id", "<i4", "", "The variable, never a message buffer"),
    ("source_step_id", "<i4", "", "Step that may be the last to have written what is read"),
    ("bytes", "<i8", "bytes", "Most that one execution reads of what the source wrote"),
)
#: The trace; a row per execution of a step, or of a step in a loop.
_TRACE = (
    (
        "step_id",
        "<i4",
        "",
        "Step that ran; sorted by run, IPU, track, start. A track that repeats one is not stored"
        " again",
    ),
    ("start_cycle", "<i8", "cycles", "Start on the IPU's counter"),
    ("end_cycle", "<i8", "cycles", "First cycle after its end"),
    ("period", "<i8", "cycles", "Period of repetitions; 0 if once"),
    ("count", "<i4", "", "Number of executions at that period"),
    ("pattern_id", "<i4", "", "Row of cycles.pattern of this execution"),
)
#: Executions of some runs, summed; a row per IPU, track, step and pattern.
_TOTAL = (
    ("ipu_id", "<i4", "", "The IPU; sorted by it, track, step and pattern within a trace_total"),
    ("track", "<i4", "", "0 for compute, 1 for overlapped input and output"),
    ("step_id", "<i4", "", "The step"),
    ("pattern_id", "<i4", "", "Row of cycles.pattern of these executions"),
    ("n_executions", "<i8", "", "Executions in these runs"),
    ("cycles", "<i8", "cycles", "Time of these executions, from start to end"),
)
#: Records of a host's trace; a row per begin, end or mark, in order within a thread.
_HOST_EVENT = (
    ("wall_ns", "<i8", "ns", "Time since the trace began; ascends within a thread"),
    ("kind", "<i4", "", ", ".join(f"{code} {name}" for name, code in HOST_RECORDS.items())),
    ("host_label_id", "<i4", "", "Its label, and by that its channel"),
    ("host_thread_id", "<i4", "", "The thread"),
)
#: Bars of long traces at coarse resolutions; a row per bar, those of a trace_bar by level and time.
_BAR = (
    (
        "level",
        "<i4",
        "",
        "0 for executions side by side, else 1 more than the level of the names",
    ),
    ("start_cycle", "<i8", "cycles", "Start of its first slice, as in the trace"),
    ("end_cycle", "<i8", "cycles", "First cycle after its last slice"),
    ("n_slices", "<i8", "", "Slices that it stands for; several are shorter than a bin"),
    ("cycles", "<i8", "cycles", "Time of these, without what lies between them"),
    ("kind", "<i4", "", "Kind of slice with most of that time"),
    ("n_kinds", "<i4", "", "Number of its rows in the bar_share.* arrays; 0 for one slice"),
    ("step_id", "<i4", "", "Step with which its longest slice begins, the first of equal ones"),
    ("longest_cycles", "<i8", "cycles", "Time of its longest slice"),
)
#: What bars of several slices consist of; a row per kind of slice, in order of the bars.
_BAR_SHARE = (
    ("kind", "<i4", "", "The kind of slice; ascending within a bar"),
    ("share", "<i4", "", "Its part of the time of the bar's slices, in 255ths"),
)
#: Names of the columns of the groups ``liveness``, ``cost``, ``dataflow``, ``trace``, ``total``,
#: ``bar``, ``bar_share`` and ``host_event``.
LIVENESS_COLUMNS: tuple[str, ...] = tuple(name for name, *_ in _LIVENESS)
COST_COLUMNS: tuple[str, ...] = tuple(name for name, *_ in _COST)
DATAFLOW_COLUMNS: tuple[str, ...] = tuple(name for name, *_ in _DATAFLOW)
TOTAL_COLUMNS: tuple[str, ...] = tuple(name for name, *_ in _TOTAL)
BAR_COLUMNS: tuple[str, ...] = tuple(name for name, *_ in _BAR)
BAR_SHARE_COLUMNS: tuple[str, ...] = tuple(name for name, *_ in _BAR_SHARE)
TRACE_COLUMNS: tuple[str, ...] = tuple(name for name, *_ in _TRACE)
HOST_EVENT_COLUMNS: tuple[str, ...] = tuple(name for name, *_ in _HOST_EVENT)

ARRAYS: dict[str, ArraySpec] = {
    spec.name: spec
    for spec in (
        _memory(
            "memory.non_interleaved",
            "Non-interleaved memory; a row per memory_category in order of its id",
        ),
        _memory("memory.interleaved", "Interleaved memory; a row per memory_category"),
        _memory("memory.overflowed", "Memory past the tile's capacity; a row per memory_category"),
        _memory(
            "memory.tile",
            "Rows: " + ", ".join(f"{row.number} {row.meaning}" for row in MEMORY_ROWS.values()),
        ),
        _per_tile(
            "liveness.pattern",
            "tiles",
            "bytes",
            "Not-always-live bytes of every tile; a row per distinct pattern",
        ),
        ArraySpec(
            "liveness.ipu_bytes",
            "<i8",
            "ipus",
            "bytes",
            "Not-always-live bytes of every IPU, sum over its tiles; a row per row of"
            " liveness.pattern",
            chunk_rows=1_024,
            chunk_columns=64,
            since=7,
            sum_of="liveness.pattern",
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
        *_columns("liveness", _LIVENESS),
        *_columns("cost", _COST),
        *_columns("dataflow", _DATAFLOW),
        ArraySpec(
            "lifetime.variable_id",
            "<i4",
            "one",
            "",
            "Variable; sorted by start step",
            refers_to="variable",
        ),
        ArraySpec(
            "lifetime.start_step",
            "<i4",
            "one",
            "step",
            "First liveness step of a life; a variable may live several times",
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
        ArraySpec(
            "lowered.start_step", "<i4", "one", "step", "First liveness step of a life of the part"
        ),
        ArraySpec("lowered.end_step", "<i4", "one", "step", "First step after its lifetime"),
        *_columns("trace", _TRACE),
        *_columns("total", _TOTAL, since=7),
        *_columns("host_event", _HOST_EVENT, since=11),
        *_columns("bar", _BAR, since=10),
        *_columns("bar_share", _BAR_SHARE, since=10),
    )
}
