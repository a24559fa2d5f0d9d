"""Execution: steps and their costs, runs, and their traces."""

from __future__ import annotations

from sqlalchemy import Boolean, ForeignKey, Integer, Table, Text

from tilescope.reports.schema.definition import column, metadata

__all__ = ["run", "run_trace", "step", "step_cost", "wall_clock"]

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

step_cost = Table(
    "step_cost",
    metadata,
    column("step_cost_id", Integer, "Identity", primary_key=True),
    column("step_id", Integer, "The step", ForeignKey("step.step_id")),
    column("ipu_id", Integer, "The IPU, from 0"),
    column("cycles", Integer, "Time of one execution on this IPU, cycles"),
    column("n_active_tiles", Integer, "Tiles with work"),
    column("max_tile_cycles", Integer, "Busiest tile, cycles"),
    column("total_tile_cycles", Integer, "Sum over tiles, cycles"),
    column("max_sent_bytes", Integer, "Most bytes sent by a tile in an exchange"),
    column("max_received_bytes", Integer, "Most bytes received by a tile in an exchange"),
    column("total_sent_bytes", Integer, "Bytes sent by all tiles, a multicast counted once"),
    column("total_received_bytes", Integer, "Bytes received by all tiles"),
    column(
        "total_paired_bytes",
        Integer,
        "Received bytes that both tiles of a pair take at once, at double rate",
    ),
    column("n_fragments", Integer, "Separate fragments received on the busiest tile"),
    column("host_in_bytes", Integer, "Bytes from the host"),
    column("host_out_bytes", Integer, "Bytes to the host"),
    column("remote_in_bytes", Integer, "Bytes from remote buffers in streaming memory"),
    column("remote_out_bytes", Integer, "Bytes to remote buffers in streaming memory"),
    column("link_in_bytes", Integer, "Bytes from other IPUs"),
    column("link_out_bytes", Integer, "Bytes to other IPUs"),
    column("sync_zone", Text, "internal, external or none"),
    column("flops", Integer, "Useful floating-point operations"),
    column("pattern_id", Integer, "Row of cycles.pattern with the cycles of every tile of the IPU"),
    comment="Cost of one execution of a step on one IPU, by cause",
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
