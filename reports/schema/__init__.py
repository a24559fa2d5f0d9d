"""The tables and packed arrays of a report: the contract between what writes and what reads."""

from reports.schema.arrays import ARRAYS, ArraySpec
from reports.schema.base import APPLICATION_ID, SCHEMA_VERSION, metadata
from reports.schema.graph import (
    compute_set,
    compute_set_vertex,
    debug_context,
    plan,
    program,
    variable,
    vertex_type,
)
from reports.schema.header import engine_option, notice, provenance, target
from reports.schema.memory import liveness_step, memory_category
from reports.schema.run import run, run_trace, step, step_cost, wall_clock
from reports.schema.storage import array, array_chunk, chunk, milestone, row_block

__all__ = [
    "APPLICATION_ID",
    "ARRAYS",
    "SCHEMA_VERSION",
    "ArraySpec",
    "array",
    "array_chunk",
    "chunk",
    "compute_set",
    "compute_set_vertex",
    "debug_context",
    "engine_option",
    "liveness_step",
    "memory_category",
    "metadata",
    "milestone",
    "notice",
    "plan",
    "program",
    "provenance",
    "row_block",
    "run",
    "run_trace",
    "step",
    "step_cost",
    "target",
    "variable",
    "vertex_type",
    "wall_clock",
]
