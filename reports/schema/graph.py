"""The compiled program: debug contexts, variables, compute sets, the program tree, plans."""

from __future__ import annotations

from sqlalchemy import Boolean, Float, ForeignKey, Integer, Table, Text

from tilescope.reports.schema.definition import column, metadata
from tilescope.reports.schema.vocabulary import BOUNDS, MEMORY_CATEGORIES, PROGRAM_KINDS

__all__ = [
    "compute_set",
    "compute_set_vertex",
    "debug_context",
    "plan",
    "plan_stage",
    "program",
    "variable",
    "vertex_type",
]

debug_context = Table(
    "debug_context",
    metadata,
    column("debug_context_id", Integer, "Identity", primary_key=True),
    column(
        "parent_id",
        Integer,
        "The enclosing context",
        ForeignKey("debug_context.debug_context_id"),
        nullable=True,
    ),
    column("layer", Text, "onnx, library or poplar: who created it"),
    column("name", Text, "Full name; levels are joined by /"),
    column("operation", Text, "Type of the operation, such as Conv or poplin.convolution"),
    column("detail", Text, "Arguments of the call as JSON"),
    comment="Why a variable, compute set or program exists",
)

variable = Table(
    "variable",
    metadata,
    column("variable_id", Integer, "Identity", primary_key=True),
    column("name", Text, "Debug name"),
    column("dtype", Text, "Type on the device, such as float32"),
    column("shape", Text, "Shape as JSON list"),
    column("n_elements", Integer, "Number of elements"),
    column("bytes", Integer, "Size over all tiles, bytes"),
    column(
        "category",
        Text,
        ", ".join(category.name for category in MEMORY_CATEGORIES if category.is_variable),
    ),
    column("is_always_live", Boolean, "Whether it occupies memory for the whole program"),
    column("n_tiles", Integer, "Number of tiles that hold a part"),
    column("max_tile_bytes", Integer, "Largest part on one tile, bytes"),
    column(
        "debug_context_id",
        Integer,
        "Who created it",
        ForeignKey("debug_context.debug_context_id"),
        nullable=True,
    ),
    comment="Variables of the graph and the message buffers of exchanges",
)

vertex_type = Table(
    "vertex_type",
    metadata,
    column("vertex_type_id", Integer, "Identity", primary_key=True),
    column("name", Text, "Name of the codelet with its types", unique=True),
    column("kind", Text, "worker or supervisor"),
    column("code_bytes", Integer, "Code, once per tile that uses it, bytes"),
    column("is_data_dependent", Boolean, "Whether its cycles depend on the data"),
    column("source", Text, "Where its cycle law comes from"),
    comment="Codelets in use",
)

compute_set = Table(
    "compute_set",
    metadata,
    column("compute_set_id", Integer, "Identity", primary_key=True),
    column("name", Text, "Debug name"),
    column("n_vertices", Integer, "Number of vertices"),
    column("n_edges", Integer, "Number of connected regions"),
    column(
        "debug_context_id",
        Integer,
        "Who created it",
        ForeignKey("debug_context.debug_context_id"),
        nullable=True,
    ),
    comment="Compute sets",
)

compute_set_vertex = Table(
    "compute_set_vertex",
    metadata,
    column("compute_set_vertex_id", Integer, "Identity", primary_key=True),
    column("compute_set_id", Integer, "The compute set", ForeignKey("compute_set.compute_set_id")),
    column("vertex_type_id", Integer, "The codelet", ForeignKey("vertex_type.vertex_type_id")),
    column("n_vertices", Integer, "Number of vertices"),
    column("n_tiles", Integer, "Number of tiles that run some"),
    column("max_cycles", Integer, "Slowest vertex, cycles of its context or of the supervisor"),
    column("total_cycles", Integer, "Sum over vertices, in the same cycles"),
    column("flops", Integer, "Useful floating-point operations, sum over vertices"),
    column("state_bytes", Integer, "Vertex instance state, sum over vertices, bytes"),
    comment="Which codelets a compute set runs",
)

program = Table(
    "program",
    metadata,
    column("program_id", Integer, "Identity; parents come before their children", primary_key=True),
    column(
        "parent_id",
        Integer,
        "The enclosing program",
        ForeignKey("program.program_id"),
        nullable=True,
    ),
    column("position", Integer, "Place among its siblings, from 0"),
    column("root_kind", Text, "control or function: which list the tree's root is in"),
    column("root_index", Integer, "Number of the control program or function"),
    column(
        "kind",
        Text,
        ", ".join(PROGRAM_KINDS),
    ),
    column("name", Text, "Debug name; may be empty"),
    column("n_children", Integer, "Number of children"),
    column("repeat_count", Integer, "Times the body runs, for Repeat; else 1"),
    column("n_tiles", Integer, "Number of tiles that take part; 0 for control"),
    column("code_bytes", Integer, "Control or exchange code, sum over tiles, bytes"),
    # Steps name their program: tables are sorted without this direction.
    column(
        "step_id",
        Integer,
        "The step it lowers to, for leaves",
        ForeignKey("step.step_id", use_alter=True),
        nullable=True,
    ),
    column(
        "compute_set_id",
        Integer,
        "For OnTileExecute",
        ForeignKey("compute_set.compute_set_id"),
        nullable=True,
    ),
    column(
        "debug_context_id",
        Integer,
        "Who created it",
        ForeignKey("debug_context.debug_context_id"),
        nullable=True,
    ),
    comment="The program tree after lowering",
)

plan = Table(
    "plan",
    metadata,
    column("plan_id", Integer, "Identity", primary_key=True),
    column("name", Text, "Debug name of the operation"),
    column("operation", Text, "convolution or matmul"),
    column("family", Text, "The vertices that compute: amp, slic, hmac …"),
    column(
        "grouping",
        Text,
        "Convolution groups, inputs and outputs worked on as one, and how many groups of the"
        " operation were combined into each if several, as JSON",
    ),
    column("split", Text, "Number of parts per dimension, as a JSON object"),
    column("swaps_operands", Boolean, "Whether a product is made as the transposed one"),
    column("n_tiles", Integer, "Tiles that compute"),
    column("tile_balance", Float, "Mean over max of compute cycles on the used IPU, 0 to 1"),
    column("predicted_cycles", Integer, "What the planner expects, cycles"),
    column("temporary_bytes", Integer, "Largest temporary memory on a tile, bytes"),
    column(
        "available_memory_proportion",
        Float,
        "Share of a tile's memory that temporary memory was to keep to, 0 to 1",
    ),
    column("bound", Text, f"Why no faster plan was taken: {', '.join(BOUNDS)}"),
    column("runner_up", Text, "The next best split and its cycles, as JSON"),
    column(
        "debug_context_id",
        Integer,
        "Who asked for it",
        ForeignKey("debug_context.debug_context_id"),
        nullable=True,
    ),
    comment="How convolutions and products are split over tiles, and why",
)

plan_stage = Table(
    "plan_stage",
    metadata,
    column("plan_stage_id", Integer, "Identity", primary_key=True),
    column("plan_id", Integer, "The plan (plan)"),
    column("position", Integer, "Place among the plan's stages, from 0, in the order they run"),
    column("name", Text, "Such as compute, exchange or reduce; unique in its plan"),
    column("phase", Text, "compute, or exchange for what brings operands and waits for them"),
    column(
        "predicted_cycles",
        Integer,
        "What the planner expects; null where it does not look at the stage",
        nullable=True,
    ),
    comment="Stages of plans; step.plan_stage_id says which steps each became",
)
