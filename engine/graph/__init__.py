"""Graphs, variables, tensors as views, tile mappings, compute sets, batches of vertices."""

from tilescope.engine.graph.graph import Graph, own_graph
from tilescope.engine.graph.identity.debug import OUTLINE_COPY, ROOT, DebugContext
from tilescope.engine.graph.image import GraphCopy, GraphImage, OwnGraph
from tilescope.engine.graph.mapping.mapping import TileMapping
from tilescope.engine.graph.mapping.tile_set import TileSet
from tilescope.engine.graph.remote import RemoteBuffer
from tilescope.engine.graph.tensor.joined import Joined, View, aligned, concat, section
from tilescope.engine.graph.tensor.tensor import Tensor
from tilescope.engine.graph.unchecked_graph import UncheckedGraph
from tilescope.engine.graph.variable import Variable
from tilescope.engine.graph.vertex.compute_set import ComputeSet, VertexBatch
from tilescope.engine.graph.vertex.interval_list import interval_lists
from tilescope.engine.graph.vertex.plan_stage import PlanStage, Stage
from tilescope.engine.graph.vertex.regions import Regions, blocks, unchecked_blocks
from tilescope.engine.number.dtype import (
    BOOL,
    FLOAT16,
    FLOAT32,
    INT8,
    INT16,
    INT32,
    UINT8,
    UINT16,
    UINT32,
    DType,
    dtype_of,
    float8,
)

__all__ = [
    "BOOL",
    "FLOAT16",
    "FLOAT32",
    "INT8",
    "INT16",
    "INT32",
    "OUTLINE_COPY",
    "ROOT",
    "UINT8",
    "UINT16",
    "UINT32",
    "ComputeSet",
    "DType",
    "DebugContext",
    "Graph",
    "GraphCopy",
    "GraphImage",
    "Joined",
    "OwnGraph",
    "PlanStage",
    "Regions",
    "RemoteBuffer",
    "Stage",
    "Tensor",
    "TileMapping",
    "TileSet",
    "UncheckedGraph",
    "Variable",
    "VertexBatch",
    "View",
    "aligned",
    "blocks",
    "concat",
    "dtype_of",
    "float8",
    "interval_lists",
    "own_graph",
    "section",
    "unchecked_blocks",
]
