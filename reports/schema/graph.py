"""The compiled program: debug contexts, variables, compute sets, the program tree, plans."""

from __future__ import annotations

from tilescope.reports.schema.table import ColumnSpec, TableSpec
from tilescope.reports.schema.vocabulary import (
    BOUNDS,
    MEMORY_CATEGORIES,
    PROGRAM_KINDS,
    PURPOSES,
    TRAINING_PASSES,
)

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

debug_context = TableSpec(
    "debug_context",
    "Origin of variables, compute sets and programs",
    (
        ColumnSpec("debug_context_id", "integer", "Identity"),
        ColumnSpec(
            "parent_id",
            "integer",
            "The enclosing context",
            is_nullable=True,
            refers_to=("debug_context", "debug_context_id"),
        ),
        ColumnSpec("layer", "text", "Creator: library, poplar, or the front end, such as onnx"),
        ColumnSpec("name", "text", "Full name; levels are joined by /"),
        ColumnSpec(
            "operation", "text", "Type of the operation, such as Conv or poplin.convolution"
        ),
        ColumnSpec(
            "detail",
            "text",
            "Arguments of the call as JSON; for onnx, those of the model's own node: attributes"
            " with defaults, inputs as [name, type, shape, whether constant], outputs as [name,"
            " type, shape], and hints if given; in training, pass and, of a gradient, origin: the"
            " name of the forward operation",
        ),
        ColumnSpec(
            "weights_digest",
            "text",
            "Digest of the operation's constant operands; null without any",
            is_nullable=True,
        ),
        ColumnSpec(
            "flops",
            "integer",
            "Useful floating-point operations of one execution, by the operation's definition; null"
            " if the definition does not determine them",
            is_nullable=True,
        ),
        ColumnSpec(
            "file_name",
            "text",
            "For calls of the graph API, base name of the calling source file",
            is_nullable=True,
        ),
        ColumnSpec(
            "line_number", "integer", "Line of the call in that file, from 1", is_nullable=True
        ),
        ColumnSpec(
            "training_pass",
            "text",
            f"Part of a training step that the operation belongs to: {', '.join(TRAINING_PASSES)};"
            " null for what is inside it, and outside training",
            is_nullable=True,
            since=6,
        ),
        ColumnSpec(
            "origin_id",
            "integer",
            "Of a gradient, the forward operation that it is the gradient of; null if that has no"
            " steps",
            is_nullable=True,
            refers_to=("debug_context", "debug_context_id"),
            since=6,
        ),
    ),
)

variable = TableSpec(
    "variable",
    "Variables of the graph, and message buffers of exchanges",
    (
        ColumnSpec("variable_id", "integer", "Identity"),
        ColumnSpec("name", "text", "Debug name"),
        ColumnSpec("dtype", "text", "Type on the device, such as float32"),
        ColumnSpec("shape", "text", "Shape as JSON list"),
        ColumnSpec("n_elements", "integer", "Number of elements"),
        ColumnSpec("bytes", "integer", "Size over all tiles, bytes"),
        ColumnSpec(
            "category",
            "text",
            ", ".join(category.name for category in MEMORY_CATEGORIES if category.is_variable),
        ),
        ColumnSpec(
            "is_always_live", "boolean", "Whether it occupies memory throughout the program"
        ),
        ColumnSpec("n_tiles", "integer", "Number of tiles that hold a part"),
        ColumnSpec("max_tile_bytes", "integer", "Largest part on one tile, bytes"),
        ColumnSpec(
            "mapping_digest",
            "text",
            "Digest of the tile mapping, and of a message buffer's parts by tile; null if not"
            " mapped",
            is_nullable=True,
        ),
        ColumnSpec(
            "content_digest",
            "text",
            "Digest of a constant or of initial values; null without any",
            is_nullable=True,
        ),
        ColumnSpec(
            "debug_context_id",
            "integer",
            "Debug context of its creator",
            is_nullable=True,
            refers_to=("debug_context", "debug_context_id"),
        ),
        ColumnSpec(
            "sender_id",
            "integer",
            "For a message buffer, the variable whose elements it receives; null otherwise",
            is_nullable=True,
            refers_to=("variable", "variable_id"),
            since=5,
        ),
        ColumnSpec(
            "purpose",
            "text",
            "What a model needs it for: "
            + ", ".join(item.name for item in PURPOSES.values() if item.is_stated)
            + "; null for what lives within an operation, and where no model is",
            is_nullable=True,
            since=8,
        ),
    ),
)

vertex_type = TableSpec(
    "vertex_type",
    "Codelets in use",
    (
        ColumnSpec("vertex_type_id", "integer", "Identity"),
        ColumnSpec("name", "text", "Name of the codelet with its types", is_unique=True),
        ColumnSpec("kind", "text", "worker or supervisor"),
        ColumnSpec("code_bytes", "integer", "Code, once per tile that uses it, bytes"),
        ColumnSpec("is_data_dependent", "boolean", "Whether its cycles depend on the data"),
        ColumnSpec("source", "text", "Source of its cycle law"),
        ColumnSpec(
            "is_copy",
            "boolean",
            "Whether it moves elements and computes nothing",
            is_nullable=True,
            since=5,
        ),
    ),
)

compute_set = TableSpec(
    "compute_set",
    "Compute sets",
    (
        ColumnSpec("compute_set_id", "integer", "Identity"),
        ColumnSpec("name", "text", "Debug name"),
        ColumnSpec("n_vertices", "integer", "Number of vertices"),
        ColumnSpec("n_edges", "integer", "Number of connected regions"),
        ColumnSpec(
            "debug_context_id",
            "integer",
            "Debug context of its creator",
            is_nullable=True,
            refers_to=("debug_context", "debug_context_id"),
        ),
    ),
)

compute_set_vertex = TableSpec(
    "compute_set_vertex",
    "Codelets of compute sets",
    (
        ColumnSpec("compute_set_vertex_id", "integer", "Identity"),
        ColumnSpec(
            "compute_set_id",
            "integer",
            "The compute set",
            refers_to=("compute_set", "compute_set_id"),
        ),
        ColumnSpec(
            "vertex_type_id", "integer", "The codelet", refers_to=("vertex_type", "vertex_type_id")
        ),
        ColumnSpec("n_vertices", "integer", "Number of vertices"),
        ColumnSpec("n_tiles", "integer", "Number of tiles that run vertices of the type"),
        ColumnSpec(
            "max_cycles", "integer", "Slowest vertex, cycles of its context or of the supervisor"
        ),
        ColumnSpec("total_cycles", "integer", "Sum over vertices, in the same cycles"),
        ColumnSpec("flops", "integer", "Useful floating-point operations, sum over vertices"),
        ColumnSpec("state_bytes", "integer", "Vertex instance state, sum over vertices, bytes"),
        ColumnSpec(
            "vertices_pattern_id",
            "integer",
            "Row of vertices.pattern with the number of vertices of every tile",
        ),
    ),
)

program = TableSpec(
    "program",
    "The program tree after lowering",
    (
        ColumnSpec("program_id", "integer", "Identity; parents precede their children"),
        ColumnSpec(
            "parent_id",
            "integer",
            "The enclosing program",
            is_nullable=True,
            refers_to=("program", "program_id"),
        ),
        ColumnSpec("position", "integer", "Position among its siblings, from 0"),
        ColumnSpec("root_kind", "text", "List of the tree's root: control or function"),
        ColumnSpec("root_index", "integer", "Number of the control program or function"),
        ColumnSpec("kind", "text", ", ".join(PROGRAM_KINDS)),
        ColumnSpec("name", "text", "Debug name; may be empty"),
        ColumnSpec("n_children", "integer", "Number of children"),
        ColumnSpec("repeat_count", "integer", "Times the body runs, for Repeat; else 1"),
        ColumnSpec("n_tiles", "integer", "Number of participating tiles; 0 for control"),
        ColumnSpec("code_bytes", "integer", "Control or exchange code, sum over tiles, bytes"),
        ColumnSpec(
            "code_pattern_id",
            "integer",
            "Row of code.pattern with the code of every tile; null without code",
            is_nullable=True,
        ),
        ColumnSpec(
            "step_id",
            "integer",
            "The step it lowers to, for leaves",
            is_nullable=True,
            refers_to=("step", "step_id"),
        ),
        ColumnSpec(
            "compute_set_id",
            "integer",
            "For OnTileExecute",
            is_nullable=True,
            refers_to=("compute_set", "compute_set_id"),
        ),
        ColumnSpec(
            "debug_context_id",
            "integer",
            "Debug context of its creator",
            is_nullable=True,
            refers_to=("debug_context", "debug_context_id"),
        ),
        ColumnSpec(
            "pipeline_part",
            "text",
            "What the root of a function is for in a pipeline: work, load or store of stages, or"
            " copies from stage to stage; null otherwise",
            is_nullable=True,
            since=9,
        ),
        ColumnSpec(
            "pipeline_stages",
            "text",
            "The stages that it is of, as forward or backward and the number of the author, joined"
            " by a comma and a space; null of copies, and otherwise",
            is_nullable=True,
            since=9,
        ),
    ),
)

plan = TableSpec(
    "plan",
    "Plans of convolutions, products and reductions: their split over tiles",
    (
        ColumnSpec("plan_id", "integer", "Identity"),
        ColumnSpec("name", "text", "Debug name of the operation"),
        ColumnSpec("operation", "text", "convolution, matmul or reduce"),
        ColumnSpec(
            "family",
            "text",
            "Family of vertices: amp, slic, hmac …; in place or grid for a reduction",
        ),
        ColumnSpec(
            "grouping",
            "text",
            "Convolution groups, inputs and outputs processed as one, and the number of groups of"
            " the operation combined into one, if several, as JSON",
        ),
        ColumnSpec("split", "text", "Number of parts per dimension, as a JSON object"),
        ColumnSpec(
            "swaps_operands", "boolean", "Whether a product is computed as the transposed one"
        ),
        ColumnSpec("n_tiles", "integer", "Tiles that compute"),
        ColumnSpec(
            "tile_balance", "real", "Mean over max of compute cycles on the used IPU, 0 to 1"
        ),
        ColumnSpec("predicted_cycles", "integer", "Predicted cycles"),
        ColumnSpec("temporary_bytes", "integer", "Largest temporary memory on a tile, bytes"),
        ColumnSpec(
            "available_memory_proportion",
            "real",
            "Largest share of tile memory for temporary memory, 0 to 1",
        ),
        ColumnSpec("bound", "text", f"Why no faster plan was chosen: {', '.join(BOUNDS)}"),
        ColumnSpec("runner_up", "text", "The next best split and its predicted cycles, as JSON"),
        ColumnSpec(
            "debug_context_id",
            "integer",
            "Debug context of the operation",
            is_nullable=True,
            refers_to=("debug_context", "debug_context_id"),
        ),
    ),
)

plan_stage = TableSpec(
    "plan_stage",
    "Stages of plans; step.plan_stage_id refers to them",
    (
        ColumnSpec("plan_stage_id", "integer", "Identity"),
        ColumnSpec("plan_id", "integer", "The plan", refers_to=("plan", "plan_id")),
        ColumnSpec(
            "position", "integer", "Position among the plan's stages, from 0, in execution order"
        ),
        ColumnSpec("name", "text", "Name, such as compute, exchange or reduce; unique in its plan"),
        ColumnSpec(
            "phase", "text", "compute, or exchange for moving operands and waiting for them"
        ),
        ColumnSpec(
            "predicted_cycles",
            "integer",
            "Predicted cycles; null if the planner does not cost the stage",
            is_nullable=True,
        ),
    ),
)
