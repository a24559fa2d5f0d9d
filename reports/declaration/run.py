"""Execution: steps, runs and their traces; costs of steps are arrays."""

from __future__ import annotations

from sqlalchemy import Boolean, ForeignKey, Integer, Table, Text

from tilescope.reports.declaration.definition import column, metadata

__all__ = ["run", "run_trace", "step", "wall_clock"]

step = Table(
    "step",
    metadata,
    column("step_id", Integer, "Identity, from 0 in program order", primary_key=True),
    column("program_id", Integer, "The leaf of the program tree", ForeignKey("program.program_id")),
    column("kind", Text, "Kind of the program, such as OnTileExecute or DoExchange"),
    column("name", Text, "Debug name; levels are joined by /"),
    column(
        "compute_set_id",
        Integer,
        "For OnTileExecute",
        ForeignKey("compute_set.compute_set_id"),
        nullable=True,
    ),
    column("is_data_dependent", Boolean, "Whether its cycles depend on the data"),
    column(
        "plan_stage_id",
        Integer,
        "The stage of a plan it belongs to",
        ForeignKey("plan_stage.plan_stage_id"),
        nullable=True,
    ),
    column(
        "plan_part",
        Integer,
        "Serial part of the operation, from 0, if the plan has serial parts",
        nullable=True,
    ),
    comment="The flattened program: one row per leaf, regardless of how often it runs",
)

run = Table(
    "run",
    metadata,
    column("run_id", Integer, "Identity, from 0 in chronological order", primary_key=True),
    column("name", Text, "Debug name of the call"),
    column("program_index", Integer, "Index of the control program that ran"),
    column("start_cycle", Integer, "First cycle on the earliest IPU"),
    column("end_cycle", Integer, "First cycle after the run on the latest IPU"),
    column("is_data_dependent", Boolean, "Whether its cycles depend on the data"),
    comment="Recorded runs of the engine",
)

run_trace = Table(
    "run_trace",
    metadata,
    column("run_trace_id", Integer, "Identity", primary_key=True),
    column("run_id", Integer, "The run", ForeignKey("run.run_id")),
    column("ipu_id", Integer, "The IPU, from 0"),
    column("track", Integer, "0 for compute, 1 for overlapped input and output"),
    column("start_cycle", Integer, "Cycle counter of the IPU when the run began"),
    column("end_cycle", Integer, "Cycle counter of the IPU when the run ended"),
    column("first_entry", Integer, "First row in the trace.* arrays"),
    column("n_entries", Integer, "Number of rows there, sorted by start"),
    comment="Range of trace entries of a run on one track of an IPU",
)

wall_clock = Table(
    "wall_clock",
    metadata,
    column("wall_clock_id", Integer, "Identity", primary_key=True),
    column("event", Text, "compile or run"),
    column("run_id", Integer, "The run, for event run", ForeignKey("run.run_id"), nullable=True),
    column("wall_start_us", Integer, "Start since the Unix epoch, microseconds"),
    column("wall_duration_us", Integer, "Duration, microseconds"),
    comment="Wall-clock times of the simulator itself; never compared",
)
