"""Tensors of a model that have gradients: floating-point values lead from them to the loss."""

from __future__ import annotations

from dataclasses import dataclass, field

import onnx

from tilescope.engine.ir import Node

__all__ = ["GradientFlow"]


@dataclass(frozen=True)
class _Step:
    """What a node reads that may have gradients, and what it writes."""

    proto: onnx.NodeProto
    reads: tuple[str, ...]


@dataclass
class GradientFlow:
    """The way of gradients through a model's graph, node by node."""

    _steps: list[_Step] = field(default_factory=list)

    def add(self, proto: onnx.NodeProto, node: Node) -> None:
        """Take in a node.

        Parameters
        ----------
        proto
            As the model has it.
        node
            As the engine has it.
        """
        if node.operator.stops_gradient:
            return
        reads = [
            name
            for name, value in zip(proto.input, node.inputs, strict=True)
            if value is not None and value.dtype.startswith("float")
        ]
        for attribute in proto.attribute:
            reads += _read_inside(attribute.g)
        self._steps.append(_Step(proto, tuple(reads)))

    def reached(self, loss: str) -> set[str]:
        """Return the names of the tensors that lead to a loss, itself among them."""
        names = {loss}
        for step in reversed(self._steps):
            if not names.isdisjoint(step.proto.output):
                names.update(step.reads)
        return names

    def nodes(self, reached: set[str]) -> list[onnx.NodeProto]:
        """Return the nodes whose results are among some tensors."""
        return [s.proto for s in self._steps if not reached.isdisjoint(s.proto.output)]


def _read_inside(graph: onnx.GraphProto) -> list[str]:
    """Return the names that the nodes of a subgraph read."""
    names = [info.name for info in graph.output]
    for node in graph.node:
        names += node.input
        for attribute in node.attribute:
            names += _read_inside(attribute.g)
    return names
