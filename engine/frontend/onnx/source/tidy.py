"""Models that are right but not in the usual form: nodes out of order, sparse initializers."""

from __future__ import annotations

from collections import defaultdict, deque
from math import prod

import numpy as np
import onnx
from onnx import defs, numpy_helper

from tilescope.engine.errors import BadModel
from tilescope.engine.frontend.onnx.source.walk import nodes_of

__all__ = [
    "check_imports",
    "name_domains",
    "name_results",
    "order_nodes",
    "with_dense_initializers",
]

#: Operators that onnxruntime writes without a domain, although ONNX does not define them.
#: Source: onnxruntime, onnxruntime/core/graph/contrib_ops/contrib_defs.cc, OnnxDomain.
_WITHOUT_DOMAIN = frozenset({"SimplifiedLayerNormalization"})
_MICROSOFT = "com.microsoft"
#: Operators of PopART that return nothing.
_WITHOUT_RESULT = frozenset({"Abort"})
_GRAPHCORE = "ai.graphcore"

#: Elements of a sparse initializer that is made dense.
_MOST_ELEMENTS = 1 << 28


def check_imports(model: onnx.ModelProto) -> None:
    """Refuse a model that imports a domain in two versions, or ONNX in one that is too new.

    Raises
    ------
    BadModel
        Names the domain and the versions.
    """
    versions: dict[str, int] = {}
    for imported in model.opset_import:
        domain = "" if imported.domain == "ai.onnx" else imported.domain
        if versions.setdefault(domain, imported.version) != imported.version:
            raise BadModel(
                f"The model imports domain {domain or 'ai.onnx'!r} in versions {versions[domain]}"
                f" and {imported.version}: expected one"
            )
    newest = defs.onnx_opset_version()
    if versions.get("", 0) > newest:
        raise BadModel(f"The model needs opset {versions['']}; the newest supported is {newest}")


def name_domains(model: onnx.ModelProto) -> None:
    """Give operators of onnxruntime that lack a domain their own, in place."""
    domains = [
        node
        for node in model.graph.node
        if node.op_type in _WITHOUT_DOMAIN and node.domain in ("", "ai.onnx")
    ]
    for node in domains:
        node.domain = _MICROSOFT
    if domains and all(imported.domain != _MICROSOFT for imported in model.opset_import):
        model.opset_import.add(domain=_MICROSOFT, version=1)


def name_results(model: onnx.ModelProto) -> None:
    """Name a result of nodes that PopART gives none: those that end the program, in place."""
    for number, node in enumerate(nodes_of(model.graph)):
        if node.domain == _GRAPHCORE and node.op_type in _WITHOUT_RESULT and not node.output:
            node.output.append(f"{node.op_type}___{number}")


def order_nodes(graph: onnx.GraphProto) -> None:
    """Put the nodes of a graph after those whose results they read; keep their order otherwise.

    Nodes in a circle stay where they are: the checker of ONNX names them.
    """
    producer = {name: i for i, node in enumerate(graph.node) for name in node.output if name}
    readers: dict[int, list[int]] = defaultdict(list)
    n_missing = [0] * len(graph.node)
    for i, node in enumerate(graph.node):
        for source in {producer[name] for name in _reads(node) if name in producer} - {i}:
            readers[source].append(i)
            n_missing[i] += 1
    if all(source < i for source, reader_list in readers.items() for i in reader_list):
        return
    ready = deque(i for i, n in enumerate(n_missing) if n == 0)
    order = []
    while ready:
        i = ready.popleft()
        order.append(i)
        for reader in readers[i]:
            n_missing[reader] -= 1
            if n_missing[reader] == 0:
                ready.append(reader)
    if len(order) == len(graph.node):
        nodes = [onnx.NodeProto() for _ in order]
        for copy, i in zip(nodes, order, strict=True):
            copy.CopyFrom(graph.node[i])
        del graph.node[:]
        graph.node.extend(nodes)


def _reads(node: onnx.NodeProto) -> set[str]:
    """Return the names that a node reads, in its subgraphs too."""
    names = set(node.input)
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            for inner in attribute.g.node:
                names |= _reads(inner)
            names.update(info.name for info in attribute.g.output)
    return names


def with_dense_initializers(graph: onnx.GraphProto) -> None:
    """Replace sparse initializers by dense ones.

    Raises
    ------
    BadModel
        When positions are outside of the tensor, or it is too large.
    """
    for sparse in graph.sparse_initializer:
        name, dims = sparse.values.name, tuple(sparse.dims)
        values, indices = (numpy_helper.to_array(t) for t in (sparse.values, sparse.indices))
        if min(dims, default=0) < 0 or prod(dims) > _MOST_ELEMENTS:
            raise BadModel(f"Sparse initializer {name!r} has shape {dims}: too large to hold")
        dense = np.zeros(dims, values.dtype)
        try:
            index = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), dims)
            dense.reshape(-1)[index] = values
        except (IndexError, ValueError):
            raise BadModel(
                f"Sparse initializer {name!r} has positions outside of its shape {dims}"
            ) from None
        graph.initializer.append(numpy_helper.from_array(dense, name))
    del graph.sparse_initializer[:]
