"""Weights that a model replaces itself, by nodes `CopyVarUpdate`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

import onnx

from tilescope.engine.ir import Model, Node, Parameter, Update

__all__ = ["VariableUpdates"]

_TYPE = "CopyVarUpdate"


@dataclass
class VariableUpdates:
    """What replaces weights after a run, node by node."""

    _updates: list[Update] = field(default_factory=list)

    @staticmethod
    def weights(graph: onnx.GraphProto) -> list[str]:
        """Return the names of the weights that are replaced."""
        names = {tensor.name for tensor in graph.initializer}
        return [n.input[0] for n in graph.node if n.op_type == _TYPE and n.input[0] in names]

    @staticmethod
    def results(graph: onnx.GraphProto) -> list[str]:
        """Return the names of the results of the nodes, which are computed in any case."""
        return [node.output[0] for node in graph.node if node.op_type == _TYPE]

    def add(self, proto: onnx.NodeProto, node: Node) -> None:
        """Take in a node."""
        if proto.op_type == _TYPE and isinstance(weight := node.operand(0), Parameter):
            self._updates.append(Update(weight, node.operand(1)))

    def of(self, model: Model, outputs: Collection[str]) -> Model:
        """Return a model that replaces its weights, with those outputs that were asked for."""
        if not self._updates:
            return model
        kept = [pair for pair in model.outputs if pair[0] in outputs]
        return replace(model, outputs=tuple(kept), updates=(*model.updates, *self._updates))
