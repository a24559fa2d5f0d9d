"""Names of any length, made short: they go into messages, reports and pages."""

from __future__ import annotations

from collections.abc import Iterable, MutableSequence
from hashlib import blake2b

import onnx

from tilescope.engine.frontend.onnx.source.walk import graphs_of

__all__ = ["MOST_CHARACTERS", "shorten_names", "shortened"]

#: Longer names are cut. Exporters write up to about two hundred characters.
MOST_CHARACTERS = 250
_HEAD, _TAIL = 100, 40


def shortened(name: str) -> str:
    """Return a name, or a short one in its place that no other name gets."""
    if len(name) <= MOST_CHARACTERS:
        return name
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{name[:_HEAD]}…{name[-_TAIL:]}~{digest}"


def shorten_names(model: onnx.ModelProto) -> None:
    """Shorten all long names of a model, in place; a name is the same wherever it stands."""
    for imported in model.opset_import:
        imported.domain = shortened(imported.domain)
    for graph in graphs_of(model.graph):
        _shorten_graph(graph)
    for function in model.functions:
        function.name, function.domain = shortened(function.name), shortened(function.domain)
        for names in (function.input, function.output, function.attribute):
            _shorten_list(names)
        _shorten_nodes(function.node)
        for node in function.node:
            for attribute in node.attribute:
                for graph in graphs_of(attribute.g):
                    _shorten_graph(graph)


def _shorten_graph(graph: onnx.GraphProto) -> None:
    """Shorten the names of one graph, without its subgraphs."""
    graph.name = shortened(graph.name)
    for tensor in graph.initializer:
        tensor.name = shortened(tensor.name)
    for sparse in graph.sparse_initializer:
        sparse.values.name = shortened(sparse.values.name)
    for info in (*graph.input, *graph.output, *graph.value_info):
        info.name = shortened(info.name)
        if info.type.WhichOneof("value") == "tensor_type":
            for dim in info.type.tensor_type.shape.dim:
                if len(dim.dim_param) > MOST_CHARACTERS:
                    dim.dim_param = shortened(dim.dim_param)
    _shorten_nodes(graph.node)


def _shorten_nodes(nodes: Iterable[onnx.NodeProto]) -> None:
    """Shorten the names of nodes, of what they read and make, and of their attributes."""
    for node in nodes:
        node.name, node.op_type = shortened(node.name), shortened(node.op_type)
        node.domain = shortened(node.domain)
        _shorten_list(node.input)
        _shorten_list(node.output)
        for attribute in node.attribute:
            attribute.name = shortened(attribute.name)


def _shorten_list(names: MutableSequence[str]) -> None:
    for index, name in enumerate(names):
        if len(name) > MOST_CHARACTERS:
            names[index] = shortened(name)
