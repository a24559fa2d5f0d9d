"""The tables and packed arrays of a report: the contract between writers and readers."""

from tilescope.reports.schema.arrays import (
    ARRAYS,
    BAR_COLUMNS,
    BAR_SHARE_COLUMNS,
    COST_COLUMNS,
    DATAFLOW_COLUMNS,
    LIVENESS_COLUMNS,
    TOTAL_COLUMNS,
    TRACE_COLUMNS,
    ArraySpec,
)
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
from tilescope.reports.schema.run import (
    run,
    run_trace,
    step,
    trace_bar,
    trace_total,
    training_overflow,
    training_step,
    wall_clock,
)
from tilescope.reports.schema.storage import array, array_chunk, chunk, milestone, row_block
from tilescope.reports.schema.table import ColumnSpec, TableSpec
from tilescope.reports.schema.version import (
    APPLICATION_ID,
    OLDEST_VERSION,
    REPORT_NAME,
    SCHEMA_VERSION,
)

__all__ = [
    "APPLICATION_ID",
    "ARRAYS",
    "BAR_COLUMNS",
    "BAR_SHARE_COLUMNS",
    "COST_COLUMNS",
    "DATAFLOW_COLUMNS",
    "LIVENESS_COLUMNS",
    "OLDEST_VERSION",
    "REPORT_NAME",
    "SCHEMA_VERSION",
    "TABLES",
    "TOTAL_COLUMNS",
    "TRACE_COLUMNS",
    "ArraySpec",
    "ColumnSpec",
    "TableSpec",
    "array",
    "array_chunk",
    "chunk",
    "compute_set",
    "compute_set_vertex",
    "debug_context",
    "engine_option",
    "memory_category",
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
    "trace_bar",
    "trace_total",
    "training_overflow",
    "training_step",
    "variable",
    "vertex_type",
    "wall_clock",
]

#: All tables by name, in the order in which a report creates them.
TABLES = {
    table.name: table
    for table in (
        array,
        chunk,
        debug_context,
        engine_option,
        memory_category,
        milestone,
        notice,
        provenance,
        row_block,
        run,
        target,
        vertex_type,
        array_chunk,
        compute_set,
        plan,
        run_trace,
        trace_total,
        trace_bar,
        training_step,
        training_overflow,
        variable,
        wall_clock,
        compute_set_vertex,
        plan_stage,
        program,
        step,
    )
}
