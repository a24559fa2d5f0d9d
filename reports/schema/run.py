"""Execution: steps, runs and their traces; costs of steps are arrays."""

from __future__ import annotations

from tilescope.reports.schema.table import ColumnSpec, TableSpec

__all__ = [
    "run",
    "run_trace",
    "step",
    "trace_bar",
    "trace_total",
    "training_overflow",
    "training_step",
    "wall_clock",
]

step = TableSpec(
    "step",
    "The flattened program: one row per leaf, regardless of how often it runs",
    (
        ColumnSpec("step_id", "integer", "Identity, from 0 in program order"),
        ColumnSpec(
            "program_id",
            "integer",
            "The leaf of the program tree",
            refers_to=("program", "program_id"),
        ),
        ColumnSpec("kind", "text", "Kind of the program, such as OnTileExecute or DoExchange"),
        ColumnSpec("name", "text", "Debug name; levels are joined by /"),
        ColumnSpec(
            "compute_set_id",
            "integer",
            "For OnTileExecute",
            is_nullable=True,
            refers_to=("compute_set", "compute_set_id"),
        ),
        ColumnSpec("is_data_dependent", "boolean", "Whether its cycles depend on the data"),
        ColumnSpec(
            "plan_stage_id",
            "integer",
            "The stage of a plan it belongs to",
            is_nullable=True,
            refers_to=("plan_stage", "plan_stage_id"),
        ),
        ColumnSpec(
            "plan_part",
            "integer",
            "Serial part of the operation, from 0, if the plan has serial parts",
            is_nullable=True,
        ),
    ),
)

run = TableSpec(
    "run",
    "Recorded runs of the engine",
    (
        ColumnSpec("run_id", "integer", "Identity, from 0 in chronological order"),
        ColumnSpec("name", "text", "Debug name of the call"),
        ColumnSpec("program_index", "integer", "Index of the control program that ran"),
        ColumnSpec("start_cycle", "integer", "First cycle on the earliest IPU"),
        ColumnSpec("end_cycle", "integer", "First cycle after the run on the latest IPU"),
        ColumnSpec("is_data_dependent", "boolean", "Whether its cycles depend on the data"),
    ),
)

run_trace = TableSpec(
    "run_trace",
    "Range of trace entries of a run on one track of an IPU",
    (
        ColumnSpec("run_trace_id", "integer", "Identity"),
        ColumnSpec("run_id", "integer", "The run", refers_to=("run", "run_id")),
        ColumnSpec("ipu_id", "integer", "The IPU, from 0"),
        ColumnSpec("track", "integer", "0 for compute, 1 for overlapped input and output"),
        ColumnSpec("start_cycle", "integer", "Cycle counter of the IPU when the run began"),
        ColumnSpec("end_cycle", "integer", "Cycle counter of the IPU when the run ended"),
        ColumnSpec("first_entry", "integer", "First row in the trace.* arrays"),
        ColumnSpec("n_entries", "integer", "Number of rows there, sorted by start"),
        ColumnSpec(
            "shift_cycles",
            "integer",
            "Cycles to add to the entries of an earlier row that this one repeats; null if the"
            " entries are its own",
            is_nullable=True,
            since=7,
        ),
    ),
)

trace_total = TableSpec(
    "trace_total",
    "Rows of run_trace whose executions are summed by step, so that readers need no entries",
    (
        ColumnSpec("trace_total_id", "integer", "Identity", since=7),
        ColumnSpec(
            "first_run_trace",
            "integer",
            "First row of run_trace; these ranges adjoin, and a last part may be in none",
            since=7,
        ),
        ColumnSpec("n_run_traces", "integer", "Number of rows of run_trace", since=7),
        ColumnSpec("first_row", "integer", "First row in the total.* arrays", since=7),
        ColumnSpec("n_rows", "integer", "Number of rows there", since=7),
    ),
    since=7,
)

trace_bar = TableSpec(
    "trace_bar",
    "Consecutive runs on one track of a long trace as bars of a coarse resolution, so that readers"
    " of wide ranges need no entries",
    (
        ColumnSpec("trace_bar_id", "integer", "Identity", since=10),
        ColumnSpec("ipu_id", "integer", "The IPU whose entries they are of", since=10),
        ColumnSpec("track", "integer", "0 for compute, 1 for input and output", since=10),
        ColumnSpec("first_entry", "integer", "First entry of the first run", since=10),
        ColumnSpec(
            "stop_entry",
            "integer",
            "One past the last entry of the last run; all entries of this IPU and track between"
            " are of these runs",
            since=10,
        ),
        ColumnSpec("bin_entries", "integer", "Entries of a bin on average: 256 or 4,096", since=10),
        ColumnSpec("n_bins", "integer", "Bins of equal length that the runs take", since=10),
        ColumnSpec("first_row", "integer", "First row in the bar.* arrays", since=10),
        ColumnSpec("n_rows", "integer", "Number of rows there", since=10),
        ColumnSpec("first_share", "integer", "First row in the bar_share.* arrays", since=10),
        ColumnSpec("n_shares", "integer", "Number of rows there", since=10),
    ),
    since=10,
)

training_step = TableSpec(
    "training_step",
    "Steps of a training as its program reported them, in the order of the reports",
    (
        ColumnSpec("training_step_id", "integer", "Identity, from 0", since=6),
        ColumnSpec("step", "integer", "Number of the step, as the program counts", since=6),
        ColumnSpec("epoch", "integer", "Number of the epoch, as the program counts", since=6),
        ColumnSpec(
            "loss",
            "real",
            "Loss of the step; may be infinite, and null is not a number",
            is_nullable=True,
            since=6,
        ),
        ColumnSpec("rate", "real", "Learning rate of the step", since=6),
        ColumnSpec(
            "run_id",
            "integer",
            "The last run before the report of the step, if it was recorded",
            is_nullable=True,
            refers_to=("run", "run_id"),
            since=6,
        ),
    ),
    since=6,
)

training_overflow = TableSpec(
    "training_overflow",
    "Values of a training step that were infinite or no numbers in half, where they are counted",
    (
        ColumnSpec("training_overflow_id", "integer", "Identity, from 0", since=8),
        ColumnSpec(
            "training_step_id",
            "integer",
            "The step",
            refers_to=("training_step", "training_step_id"),
            since=8,
        ),
        ColumnSpec(
            "training_pass",
            "text",
            "Pass that computed the values: TRAINING_PASSES names them",
            since=8,
        ),
        ColumnSpec("n_values", "integer", "Number of values, 1 or more", since=8),
    ),
    since=8,
)

wall_clock = TableSpec(
    "wall_clock",
    "Wall-clock times of the simulator itself; never compared",
    (
        ColumnSpec("wall_clock_id", "integer", "Identity"),
        ColumnSpec("event", "text", "compile or run"),
        ColumnSpec(
            "run_id",
            "integer",
            "The run, for event run",
            is_nullable=True,
            refers_to=("run", "run_id"),
        ),
        ColumnSpec("wall_start_us", "integer", "Start since the Unix epoch, microseconds"),
        ColumnSpec("wall_duration_us", "integer", "Duration, microseconds"),
    ),
)
