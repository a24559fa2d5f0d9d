"""Graph, variables, tensors as views, tile mapping, compute sets, batches of vertices."""

from engine.graph.compute_set import ComputeSet, VertexBatch
from engine.graph.debug import ROOT, DebugContext
from engine.graph.dtype import BOOL, FLOAT16, FLOAT32, INT32, UINT8, DType, dtype_of, float8
from engine.graph.graph import Graph
from engine.graph.joined import Joined, View, aligned, concat
from engine.graph.mapping import TileMapping
from engine.graph.regions import Regions, blocks
from engine.graph.remote import RemoteBuffer
from engine.graph.tensor import Tensor
from engine.graph.variable import Variable

__all__ = [
    "BOOL",
    "FLOAT16",
    "FLOAT32",
    "INT32",
    "ROOT",
    "UINT8",
    "ComputeSet",
    "DType",
    "DebugContext",
    "Graph",
    "Joined",
    "Regions",
    "RemoteBuffer",
    "Tensor",
    "TileMapping",
    "Variable",
    "VertexBatch",
    "View",
    "aligned",
    "blocks",
    "concat",
    "dtype_of",
    "float8",
]
