"""Walks over the graphs of an ONNX model."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

__all__ = ["graphs_of", "nodes_of"]


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
