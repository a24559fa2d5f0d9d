"""The compiled program: debug contexts, variables, compute sets, the program tree, plans."""

from __future__ import annotations

from sqlalchemy import Boolean, Float, ForeignKey, Integer, Table, Text

from tilescope.reports.declaration.definition import column, metadata
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
    column("layer", Text, "Creator: onnx, library or poplar"),
    column("name", Text, "Full name; levels are joined by /"),
    column("operation", Text, "Type of the operation, such as Conv or poplin.convolution"),
    column(
        "detail",
        Text,
        "Arguments of the call as JSON; for onnx, those of the model's own node: attributes with"
        " defaults, inputs as [name, type, shape, whether constant], outputs as [name, type,"
        " shape], and hints if given",
    ),
    column(
        "weights_digest",
        Text,
        "Digest of the operation's constant operands; null without any",
        nullable=True,
    ),
    column(
        "flops",
        Integer,
        "Useful floating-point operations of one execution, by the operation's definition; null"
        " if the definition does not determine them",
        nullable=True,
    ),
    column(
        "file_name",
        Text,
        "For calls of the graph API, base name of the calling source file",
        nullable=True,
    ),
    column("line_number", Integer, "Line of the call in that file, from 1", nullable=True),
    comment="Origin of variables, compute sets and programs",
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
    column("is_always_live", Boolean, "Whether it occupies memory throughout the program"),
    column("n_tiles", Integer, "Number of tiles that hold a part"),
    column("max_tile_bytes", Integer, "Largest part on one tile, bytes"),
    column(
        "mapping_digest",
        Text,
        "Digest of the tile mapping, and of a message buffer's parts by tile; null if not mapped",
        nullable=True,
    ),
    column(
        "content_digest",
        Text,
        "Digest of a constant or of initial values; null without any",
        nullable=True,
    ),
    column(
        "debug_context_id",
        Integer,
        "Debug context of its creator",
        ForeignKey("debug_context.debug_context_id"),
        nullable=True,
    ),
    comment="Variables of the graph, and message buffers of exchanges",
)

vertex_type = Table(
    "vertex_type",
    metadata,
    column("vertex_type_id", Integer, "Identity", primary_key=True),
    column("name", Text, "Name of the codelet with its types", unique=True),
    column("kind", Text, "worker or supervisor"),
    column("code_bytes", Integer, "Code, once per tile that uses it, bytes"),
    column("is_data_dependent", Boolean, "Whether its cycles depend on the data"),
    column("source", Text, "Source of its cycle law"),
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
        "Debug context of its creator",
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
    column("n_tiles", Integer, "Number of tiles that run vertices of the type"),
    column("max_cycles", Integer, "Slowest vertex, cycles of its context or of the supervisor"),
    column("total_cycles", Integer, "Sum over vertices, in the same cycles"),
    column("flops", Integer, "Useful floating-point operations, sum over vertices"),
    column("state_bytes", Integer, "Vertex instance state, sum over vertices, bytes"),
    column(
        "vertices_pattern_id",
        Integer,
        "Row of vertices.pattern with the number of vertices of every tile",
    ),
    comment="Codelets of compute sets",
)

program = Table(
    "program",
    metadata,
    column("program_id", Integer, "Identity; parents precede their children", primary_key=True),
    column(
        "parent_id",
        Integer,
        "The enclosing program",
        ForeignKey("program.program_id"),
        nullable=True,
    ),
    column("position", Integer, "Position among its siblings, from 0"),
    column("root_kind", Text, "List of the tree's root: control or function"),
    column("root_index", Integer, "Number of the control program or function"),
    column(
        "kind",
        Text,
        ", ".join(PROGRAM_KINDS),
    ),
    column("name", Text, "Debug name; may be empty"),
    column("n_children", Integer, "Number of children"),
    column("repeat_count", Integer, "Times the body runs, for Repeat; else 1"),
    column("n_tiles", Integer, "Number of participating tiles; 0 for control"),
    column("code_bytes", Integer, "Control or exchange code, sum over tiles, bytes"),
    column(
        "code_pattern_id",
        Integer,
        "Row of code.pattern with the code of every tile; null without code",
        nullable=True,
    ),
    # Steps refer to their program: the table order ignores this direction.
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
        "Debug context of its creator",
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
    column("operation", Text, "convolution, matmul or reduce"),
    column(
        "family", Text, "Family of vertices: amp, slic, hmac …; in place or grid for a reduction"
    ),
    column(
        "grouping",
        Text,
        "Convolution groups, inputs and outputs processed as one, and the number of groups of the"
        " operation combined into one, if several, as JSON",
    ),
    column("split", Text, "Number of parts per dimension, as a JSON object"),
    column("swaps_operands", Boolean, "Whether a product is computed as the transposed one"),
    column("n_tiles", Integer, "Tiles that compute"),
    column("tile_balance", Float, "Mean over max of compute cycles on the used IPU, 0 to 1"),
    column("predicted_cycles", Integer, "Predicted cycles"),
    column("temporary_bytes", Integer, "Largest temporary memory on a tile, bytes"),
    column(
        "available_memory_proportion",
        Float,
        "Largest share of tile memory for temporary memory, 0 to 1",
    ),
    column("bound", Text, f"Why no faster plan was chosen: {', '.join(BOUNDS)}"),
    column("runner_up", Text, "The next best split and its predicted cycles, as JSON"),
    column(
        "debug_context_id",
        Integer,
        "Debug context of the operation",
        ForeignKey("debug_context.debug_context_id"),
        nullable=True,
    ),
    comment="Plans of convolutions, products and reductions: their split over tiles",
)

plan_stage = Table(
    "plan_stage",
    metadata,
    column("plan_stage_id", Integer, "Identity", primary_key=True),
    column("plan_id", Integer, "The plan", ForeignKey("plan.plan_id")),
    column("position", Integer, "Position among the plan's stages, from 0, in execution order"),
    column("name", Text, "Name, such as compute, exchange or reduce; unique in its plan"),
    column("phase", Text, "compute, or exchange for moving operands and waiting for them"),
    column(
        "predicted_cycles",
        Integer,
        "Predicted cycles; null if the planner does not cost the stage",
        nullable=True,
    ),
    comment="Stages of plans; step.plan_stage_id refers to them",
)
