"""Cuts a part out of a model: from some tensors or nodes to others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx
from onnx.utils import Extractor

from tilescope.engine.errors import BadInput, BadModel
from tilescope.engine.frontend.onnx.refusal import refusing_plainly

__all__ = ["cut_model"]

_MOST_NAMES = 6


@refusing_plainly
def cut_model(path: Path, first: Sequence[str], last: Sequence[str]) -> onnx.ModelProto:
    """Return the part of a model between tensors or nodes, weights included.

    Parameters
    ----------
    path
        An ONNX file.
    first
        Names of tensors that become the inputs, or of nodes that the part begins with; those of the
        model if empty.
    last
        Names of tensors that become the outputs, or of nodes that the part ends with; those of the
        model if empty.

    Raises
    ------
    BadInput
        When a name is neither a tensor nor a node, the type of a new input is unknown, or the part
        needs other inputs.
    BadModel
        When the file is not a model.
    """
    try:
        model = onnx.load(path)
    except FileNotFoundError:
        raise BadModel(f"Model {path} does not exist") from None
    model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    graph = model.graph
    weights = {tensor.name for tensor in (*graph.initializer, *graph.sparse_initializer)}
    starts = [name for text in first for name in _starts(graph, text, weights)]
    ends = [name for text in last for name in _ends(graph, text)]
    starts = starts or [info.name for info in graph.input if info.name not in weights]
    ends = ends or [info.name for info in graph.output]
    starts, ends = list(dict.fromkeys(starts)), list(dict.fromkeys(ends))
    typed = {info.name for info in (*graph.input, *graph.output, *graph.value_info)}
    untyped = [name for name in (*starts, *ends) if name not in typed]
    if untyped:
        raise BadInput(
            f"The type of tensor {untyped[0]!r} does not follow from the model; cut it elsewhere"
        )
    reached = _reached(graph, starts, ends, weights)
    return Extractor(model).extract_model([name for name in starts if name in reached], ends)


def _starts(graph: onnx.GraphProto, text: str, weights: set[str]) -> list[str]:
    """Return the tensor of a name, or what a node of that name reads besides weights."""
    node = _node(graph, text)
    if node is None:
        return [text]
    constants = {name for item in graph.node if item.op_type == "Constant" for name in item.output}
    return [name for name in node.input if name and name not in weights | constants]


def _ends(graph: onnx.GraphProto, text: str) -> list[str]:
    """Return the tensor of a name, or the results of a node of that name."""
    node = _node(graph, text)
    return [text] if node is None else [name for name in node.output if name]


def _node(graph: onnx.GraphProto, text: str) -> onnx.NodeProto | None:
    """Return the node of a name; None for the name of a tensor.

    Raises
    ------
    BadInput
        When it is neither.
    """
    tensors = {info.name for info in graph.input}
    tensors |= {name for node in graph.node for name in node.output}
    if text in tensors:
        return None
    nodes_: list[onnx.NodeProto] = [node for node in graph.node if node.name == text]
    if len(nodes_) == 1:
        return nodes_[0]
    if nodes_:
        raise BadInput(f"{len(nodes_)} nodes are called {text!r}; name one of their results")
    from difflib import get_close_matches

    names = sorted(tensors | {node.name for node in graph.node if node.name})
    near = get_close_matches(text, names, n=3, cutoff=0.6)
    hint = f"; near are {', '.join(map(repr, near))}" if near else ""
    raise BadInput(f"The model has no tensor or node {text!r}{hint}")


def _reached(
    graph: onnx.GraphProto, starts: Sequence[str], ends: Sequence[str], weights: set[str]
) -> set[str]:
    """Return the tensors that the part reads or computes.

    Raises
    ------
    BadInput
        When it also needs inputs of the model that are not among its own.
    """
    producer = {name: node for node in graph.node for name in node.output if name}
    input_names = {info.name for info in graph.input} - weights
    visited: set[str] = set()
    waiting, missing = list(ends), []
    while waiting:
        name = waiting.pop()
        if not name or name in visited:
            continue
        visited.add(name)
        if name in starts:
            continue
        if name in input_names:
            missing.append(name)
        node = producer.get(name)
        waiting += [] if node is None else _reads(node)
    if missing:
        names = ", ".join(map(repr, sorted(missing)[:_MOST_NAMES]))
        raise BadInput(f"The part also reads {names} of the model; add them with --from")
    return visited


def _reads(node: onnx.NodeProto) -> list[str]:
    """Return the names that a node reads, in its subgraphs too."""
    names = list(node.input)
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            for inner in attribute.g.node:
                names += _reads(inner)
    return names
