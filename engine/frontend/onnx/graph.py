"""Imports the nodes of a graph, and those of its subgraphs as regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import onnx
from onnx import numpy_helper

from tilescope.engine.errors import BadModel
from tilescope.engine.frontend.onnx.hints import HINT_ATTRIBUTES, hints_of
from tilescope.engine.frontend.onnx.read import domain_of, key_of
from tilescope.engine.frontend.onnx.tensor_types import check_type, element_type
from tilescope.engine.ir import IrBuilder, Node, Parameter, Region, ResultType, Value
from tilescope.engine.ir.schema import attribute_value, version_of, with_defaults
from tilescope.engine.operators import OPERATORS

__all__ = ["GraphImport"]

#: What numpy and ONNX raise for operands that no check foresaw.
_UNFORESEEN = (ArithmeticError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)


class GraphImport:
    """Imports a graph into a builder.

    Parameters
    ----------
    builder
        Where operations go.
    graph
        A model's graph or a subgraph of a node.
    opsets
        Version of every operator set, by domain.
    values
        Values of the surrounding graphs, by name.
    """

    def __init__(
        self,
        builder: IrBuilder,
        graph: onnx.GraphProto,
        opsets: Mapping[str, int],
        values: Mapping[str, Value] | None = None,
    ) -> None:
        self.builder = builder
        self.graph = graph
        self.opsets = opsets
        self.values = dict(values or {})

    def add_parameters(self, trainable: frozenset[str] = frozenset()) -> None:
        """Take in the initializers.

        Raises
        ------
        BadModel
            When ONNX has no such element type.
        """
        for tensor in self.graph.initializer:
            what = f"Initializer {tensor.name!r}"
            if element_type(tensor.data_type, what) == "object":
                raise BadModel(f"{what} holds strings, which is not supported")
            try:
                array = numpy_helper.to_array(tensor)
            except (TypeError, ValueError) as error:
                reason = str(error).splitlines()[0]
                raise BadModel(f"{what} does not hold what it declares: {reason}") from None
            self.values[tensor.name] = Parameter(
                tensor.name, array.shape, array.dtype.name, array, tensor.name in trainable
            )

    def add_nodes(self) -> list[Value]:
        """Add the nodes and return the graph's outputs.

        Raises
        ------
        BadModel
            When a node cannot be used.
        """
        used = {name for node in self.graph.node for name in self._reads(node)}
        used.update(info.name for info in self.graph.output)
        for node in self.graph.node:
            self._add(node, used)
        return [self.values[info.name] for info in self.graph.output]

    def _reads(self, node: onnx.NodeProto) -> set[str]:
        """Return the names that a node reads, in its subgraphs too."""
        names = set(node.input)
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                names.update(info.name for info in attribute.g.output)
                for inner in attribute.g.node:
                    names |= self._reads(inner)
        return names

    def _add(self, proto: onnx.NodeProto, used: set[str]) -> None:
        """Add one node; `used` has the names that other nodes or the outputs read."""
        name = (proto.name or proto.output[0]).strip("/")
        operator = OPERATORS[key_of(proto)]
        version = version_of(proto.op_type, domain_of(proto), self.opsets.get(domain_of(proto), 1))
        stated: dict[str, Any] = {}
        regions: dict[str, Region] = {}
        inputs = tuple(self.values[key] if key else None for key in proto.input)
        for attribute in proto.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                given = _given_to_a_body(proto, inputs)
                regions[attribute.name] = self._region(
                    f"{name}/{attribute.name}", attribute.g, given
                )
            else:
                stated[attribute.name] = attribute_value(attribute)
        hints = hints_of(f"Node {name!r} ({proto.op_type})", stated)
        stated = {key: value for key, value in stated.items() if key not in HINT_ATTRIBUTES}
        node = Node(
            operator=operator,
            name=name,
            source=proto.op_type,
            inputs=inputs,
            attributes=with_defaults(proto.op_type, domain_of(proto), version, stated),
            version=version,
            n_outputs=len(proto.output),
            regions=regions,
            hints=hints,
        )
        names = [key if index == 0 or key in used else "" for index, key in enumerate(proto.output)]
        try:
            results = self.builder.add(node, names)
        except (
            ArithmeticError,
            LookupError,
            MemoryError,
            RuntimeError,
            TypeError,
            ValueError,
        ) as error:
            # Operands that no check foresaw; the cause is kept for the log.
            reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
            raise BadModel(f"{node} cannot be used with its operands: {reason}") from error
        for key, value in zip(names, results, strict=True):
            if value is not None:
                if value.known is None:
                    check_type(value.dtype, f"Node {name!r}")
                self.values[key] = value

    def _region(
        self, name: str, graph: onnx.GraphProto, given: Sequence[ResultType | None]
    ) -> Region:
        """Return a subgraph as a region; `given` are the types of its inputs, where known.

        Raises
        ------
        BadModel
            When an input of it has no static shape, or it has no tensors.
        """
        inside = GraphImport(self.builder.inside(name), graph, self.opsets, self.values)
        inside.add_parameters()
        inputs = []
        for info, known in zip_longest(graph.input, given[: len(graph.input)]):
            tensor = info.type.tensor_type
            if known is not None:
                value = Value(info.name, *known)
                inside.values[info.name] = value
                inputs.append(value)
                continue
            if not tensor.HasField("shape") or not all(
                dim.HasField("dim_value") for dim in tensor.shape.dim
            ):
                raise BadModel(
                    f"Input {info.name!r} of subgraph {name!r} has no static shape: state its sizes"
                    " in the model"
                )
            sizes = tuple(dim.dim_value for dim in tensor.shape.dim)
            value = Value(info.name, sizes, element_type(tensor.elem_type, f"Input {info.name!r}"))
            inside.values[info.name] = value
            inputs.append(value)
        return inside.builder.region(inputs, inside.add_nodes())


def _given_to_a_body(
    proto: onnx.NodeProto, inputs: Sequence[Value | None]
) -> list[ResultType | None]:
    """Return the types that a loop gives its body, where they follow from its operands."""
    if proto.op_type == "Loop":
        states = [None if value is None else (value.shape, value.dtype) for value in inputs[2:]]
        return [((), "int64"), ((), "bool"), *states]
    if proto.op_type != "Scan":
        return []
    attributes = {attribute.name: attribute_value(attribute) for attribute in proto.attribute}
    n_states = len(inputs) - attributes.get("num_scan_inputs", 0)
    axes = attributes.get("scan_input_axes") or (0,) * (len(inputs) - n_states)
    found: list[ResultType | None] = []
    for i, value in enumerate(inputs):
        if value is None:
            found.append(None)
        elif i < n_states:
            found.append((value.shape, value.dtype))
        else:
            axis = axes[i - n_states] % max(1, len(value.shape))
            found.append(((*value.shape[:axis], *value.shape[axis + 1 :]), value.dtype))
    return found
