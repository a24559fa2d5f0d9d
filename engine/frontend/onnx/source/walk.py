"""Walks over the graphs of an ONNX model, and names of their operators."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

__all__ = ["domain_of", "graphs_of", "key_of", "nodes_of"]


def domain_of(node: onnx.NodeProto) -> str:
    """Return the domain of a node's operator; empty for ONNX's own."""
    return "" if node.domain == "ai.onnx" else node.domain


def key_of(node: onnx.NodeProto) -> str:
    """Return the name of a node's operator in the table of operators."""
    return f"{domain_of(node)}.{node.op_type}" if domain_of(node) else node.op_type


def graphs_of(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Return a graph and its subgraphs, at any depth."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from graphs_of(attribute.g)


def nodes_of(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Return the nodes of a graph, and after each those of its subgraphs."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from nodes_of(attribute.g)
