"""A node as rules see it: attributes, and types and contents of its operands."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from popart.builder.graph import Graph
from popart.builder.inference import known_type
from popart.builder.types import shape_of_type
from popart.errors import popart_exception
from popart.tensor_info import type_of_onnx_element
from popart.type_names import type_name
from tilescope.engine.ir import Node, Parameter

__all__ = ["CheckedModel", "CheckedNode", "EngineNode", "FileNode", "shown"]

_ONNX = "ai.onnx"


def shown(shape: list[int]) -> str:
    """Return a shape as PopART writes it: ``[2 3]``."""
    return f"[{' '.join(map(str, shape))}]"


class CheckedModel:
    """A model whose nodes are checked; types are inferred when a rule asks for one.

    Parameters
    ----------
    proto
        The model.
    """

    def __init__(self, proto: onnx.ModelProto) -> None:
        self._proto = proto
        self.opsets = {entry.domain: entry.version for entry in proto.opset_import}

    def nodes(self) -> Iterator[FileNode]:
        """Yield all nodes, those of a subgraph before the node that has it."""
        for node in _nodes(self._proto.graph):
            yield FileNode(node, self)

    @cached_property
    def graph(self) -> Graph:
        """The graph with the types that follow from its inputs; empty if it cannot be read."""
        graph = Graph()
        try:
            graph.load(self._proto)
        except popart_exception:
            return Graph()
        return graph

    def type_of(self, name: str) -> onnx.TypeProto | None:
        """Return the type of a tensor, in a subgraph too; None if it is not known."""
        of = self.graph.type_of(name)
        return self._inner_types.get(name) if of is None else of

    def is_input(self, name: str) -> bool:
        """Whether a tensor is an input of the model, not an initializer."""
        graph = self._proto.graph
        return any(value.name == name for value in graph.input) and not self.is_weight(name)

    def is_weight(self, name: str) -> bool:
        """Whether a tensor is an initializer."""
        return any(tensor.name == name for tensor in self._proto.graph.initializer)

    @cached_property
    def _inner_types(self) -> dict[str, onnx.TypeProto]:
        """Types that subgraphs state, by name of the tensor."""
        found = {}
        for node in _nodes(self._proto.graph):
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    body = attribute.g
                    for value in (*body.input, *body.value_info, *body.output):
                        if known_type(value.type) is not None:
                            found[value.name] = value.type
        return found


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _nodes(attribute.g)
        yield node


class CheckedNode:
    """A node, and what is known of its operands: from the file, or from the engine.

    Parameters
    ----------
    proto
        The node.
    """

    def __init__(self, proto: onnx.NodeProto) -> None:
        self.proto = proto

    @property
    def key(self) -> tuple[str, str]:
        """Domain and name of the operator."""
        return self.proto.domain or _ONNX, self.proto.op_type

    @property
    def version(self) -> int:
        """Version of the operator: the set's in which it last changed."""
        raise NotImplementedError

    @property
    def identifier(self) -> str:
        """Domain, name and version of the operator, such as ``ai.onnx.MatMul:9``."""
        return f"{'.'.join(self.key)}:{self.version}"

    @property
    def label(self) -> str:
        """The node by its name, or that of its result, and its operator."""
        return f"{self.proto.name or self.proto.output[0]} ({self.identifier})"

    @property
    def debug_name(self) -> str:
        """The node as PopART's messages name it."""
        name = self.identifier
        if self.proto.name:
            name = f"{self.proto.name} ({name})"
        inputs, outputs = (", ".join(filter(None, ids)) for ids in (self.inputs, self.proto.output))
        return f"Op({name}, inputs=[{inputs}], outputs=[{outputs}])"

    @property
    def inputs(self) -> list[str]:
        """Names of the operands."""
        return list(self.proto.input)

    @property
    def settings(self) -> dict[str, Any]:
        """Attributes by name, subgraphs left out."""
        graph = onnx.AttributeProto.GRAPH
        return {
            a.name: onnx.helper.get_attribute_value(a)
            for a in self.proto.attribute
            if a.type != graph
        }

    def shape(self, place: int) -> list[int] | None:
        """Return the shape of an operand; None if it is not known."""
        raise NotImplementedError

    def element(self, place: int) -> str | None:
        """Return PopART's name of an operand's element type; None if it is not known."""
        raise NotImplementedError

    def content(self, place: int) -> NDArray[Any] | None:
        """Return the content of a constant operand; None for others."""
        raise NotImplementedError

    def is_weight(self, place: int) -> bool:
        """Whether an operand is an initializer of the model."""
        raise NotImplementedError

    def is_given(self, place: int) -> bool:
        """Whether an operand is an input of the model, whose content only a run knows."""
        raise NotImplementedError


class FileNode(CheckedNode):
    """A node of a model's file, whose types are inferred when a rule asks for one.

    Parameters
    ----------
    proto
        The node.
    model
        Which has it.
    """

    def __init__(self, proto: onnx.NodeProto, model: CheckedModel) -> None:
        super().__init__(proto)
        self._model = model

    @property
    def version(self) -> int:
        """Return the version of the operator."""
        domain = "" if self.proto.domain in ("", _ONNX) else self.proto.domain
        version: int = self._model.opsets.get(domain, 1)
        try:
            return int(onnx.defs.get_schema(self.proto.op_type, version, domain).since_version)
        except onnx.defs.SchemaError:
            return version  # an operator of PopART's has the version of its set

    def shape(self, place: int) -> list[int] | None:
        """Return the shape of an operand; None if it is not known."""
        return shape_of_type(self._type(place))

    def element(self, place: int) -> str | None:
        """Return PopART's name of an operand's element type; None if it is not known."""
        of = self._type(place)
        return None if of is None else type_of_onnx_element(of.tensor_type.elem_type).name

    def content(self, place: int) -> NDArray[Any] | None:
        """Return the content of a constant operand; None for others."""
        if place >= len(self.inputs):
            return None
        content = self._model.graph.content_of(self.inputs[place])
        return None if content is None else np.asarray(numpy_helper.to_array(content))

    def is_weight(self, place: int) -> bool:
        """Whether an operand is an initializer of the model."""
        return place < len(self.inputs) and self._model.is_weight(self.inputs[place])

    def is_given(self, place: int) -> bool:
        """Whether an operand is an input of the model, whose content only a run knows."""
        return place < len(self.inputs) and self._model.is_input(self.inputs[place])

    def _type(self, place: int) -> onnx.TypeProto | None:
        return self._model.type_of(self.inputs[place]) if place < len(self.inputs) else None


class EngineNode(CheckedNode):
    """A node that the front end is about to add, with what the engine has of its operands.

    Parameters
    ----------
    proto
        As the model has it.
    node
        As the engine has it.
    """

    def __init__(self, proto: onnx.NodeProto, node: Node) -> None:
        super().__init__(proto)
        self._node = node

    @property
    def settings(self) -> dict[str, Any]:
        """Attributes by name, with the defaults of those that are left out."""
        return dict(self._node.attributes)

    @property
    def version(self) -> int:
        """Return the version of the operator."""
        return self._node.version

    def shape(self, place: int) -> list[int] | None:
        """Return the shape of an operand; None if it is not known."""
        value = self._node.optional(place)
        return None if value is None else list(value.shape)

    def element(self, place: int) -> str | None:
        """Return PopART's name of an operand's element type; None if it is not known."""
        value = self._node.optional(place)
        return None if value is None else type_name(value.dtype)

    def content(self, place: int) -> NDArray[Any] | None:
        """Return the content of a constant operand; None for others."""
        value = self._node.optional(place)
        return None if value is None or value.known is None else np.asarray(value.known)

    def is_weight(self, place: int) -> bool:
        """Whether an operand is an initializer of the model."""
        return isinstance(self._node.optional(place), Parameter)

    def is_given(self, place: int) -> bool:
        """Whether an operand is an input of the model, whose content only a run knows."""
        value = self._node.optional(place)
        return value is not None and value.is_computed
