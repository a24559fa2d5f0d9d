"""The tables and packed arrays of a report: the contract between writers and readers."""

from tilescope.reports.schema.arrays import ARRAYS, COST_COLUMNS, LIVENESS_COLUMNS, ArraySpec
from tilescope.reports.schema.definition import APPLICATION_ID, SCHEMA_VERSION, metadata
from tilescope.reports.schema.graph import (
    compute_set,
    compute_set_vertex,
    debug_context,
    plan,
    plan_stage,
    program,
    variable,
    vertex_type,
)
from tilescope.reports.schema.header import engine_option, notice, provenance, target
from tilescope.reports.schema.memory import memory_category
from tilescope.reports.schema.run import run, run_trace, step, wall_clock
from tilescope.reports.schema.storage import array, array_chunk, chunk, milestone, row_block

__all__ = [
    "APPLICATION_ID",
    "ARRAYS",
    "COST_COLUMNS",
    "LIVENESS_COLUMNS",
    "SCHEMA_VERSION",
    "ArraySpec",
    "array",
    "array_chunk",
    "chunk",
    "compute_set",
    "compute_set_vertex",
    "debug_context",
    "engine_option",
    "memory_category",
    "metadata",
    "milestone",
    "notice",
    "plan",
    "plan_stage",
    "program",
    "provenance",
    "row_block",
    "run",
    "run_trace",
    "step",
    "target",
    "variable",
    "vertex_type",
    "wall_clock",
]
