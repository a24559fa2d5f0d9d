"""Imports the nodes of a graph, and those of its subgraphs as regions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tilescope.engine.errors import BadModel
from tilescope.engine.frontend.onnx.nodes.counts import Counts
from tilescope.engine.frontend.onnx.nodes.deciding import body_of
from tilescope.engine.frontend.onnx.nodes.fixed_slices import FixedSlices
from tilescope.engine.frontend.onnx.nodes.hints import hints_of, placement_of, without_hints
from tilescope.engine.frontend.onnx.nodes.loops import Round, is_unrolled, unrolled
from tilescope.engine.frontend.onnx.source.external import array_of
from tilescope.engine.frontend.onnx.source.sequences import (
    SEQUENCES,
    ValueSequence,
    sequence_results,
    tensors_only,
)
from tilescope.engine.frontend.onnx.source.tensor_types import check_type, element_type
from tilescope.engine.frontend.onnx.source.walk import domain_of, key_of
from tilescope.engine.ir import (
    Constant,
    IrBuilder,
    Node,
    Parameter,
    Purpose,
    Region,
    ReplicaGroup,
    ResultType,
    State,
    Value,
)
from tilescope.engine.ir.standard import attributes_of, version_of
from tilescope.engine.operators import OPERATORS
from tilescope.engine.operators.control.control import branch_of
from tilescope.engine.operators.movement.slicing import FIXED_SIZES
from tilescope.engine.operators.onnx_standard import attribute_value, with_defaults

__all__ = ["GraphImport", "NodeObserver", "Scope"]

#: What is called with a node of the file, and with what the engine has of it.
NodeObserver = Callable[[onnx.NodeProto, Node], None]

#: Opset of the nodes that sequences are taken apart into.
_VERSION_OF_PARTS = 13

#: What numpy and ONNX raise for operands that no check foresaw.
_UNFORESEEN = (ArithmeticError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)


@dataclass(frozen=True)
class Scope:
    """What surrounds a graph.

    Parameters
    ----------
    values
        Values of the surrounding graphs, by name.
    counts
        Of the values whose number of entries data decide.
    path
        What the names of nodes begin with.
    labels
        Names of results in place of those that the graph gives them.
    observer
        What is called with every node before it is added; None if nothing is.
    variables
        Names of results of Constant nodes that are states of the model.
    shared_by
        The replicas that share an initializer, by its name, where not all do.
    """

    values: Mapping[str, Value] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    path: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    observer: NodeObserver | None = None
    variables: frozenset[str] = frozenset()
    shared_by: Mapping[str, ReplicaGroup] = field(default_factory=dict)


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
    folder
        Of the model's file, which external weights are relative to.
    scope
        What surrounds the graph; nothing for a model's own.
    """

    def __init__(
        self,
        builder: IrBuilder,
        graph: onnx.GraphProto,
        opsets: Mapping[str, int],
        folder: Path,
        scope: Scope | None = None,
    ) -> None:
        self.builder = builder
        self.graph = graph
        self.opsets = opsets
        self.folder = folder
        scope = Scope() if scope is None else scope
        self.values = dict(scope.values)
        self.counts = scope.counts
        self.path = scope.path
        self.labels = scope.labels
        self.observer = scope.observer
        self.variables, self.shared_by = scope.variables, scope.shared_by

    def add_parameters(self, trainable: frozenset[str] = frozenset()) -> None:
        """Take in the initializers.

        Raises
        ------
        BadModel
            When ONNX has no such element type.
        """
        for tensor in self.graph.initializer:
            subject = f"Initializer {tensor.name!r}"
            if element_type(tensor.data_type, subject) == "object":
                raise BadModel(f"{subject} holds strings, which is not supported")
            try:
                array = array_of(tensor, self.folder)
            except (TypeError, ValueError) as error:
                reason = str(error).splitlines()[0]
                raise BadModel(f"{subject} does not hold what it declares: {reason}") from None
            name = tensor.name
            self.values[name] = Parameter(
                name,
                array.shape,
                array.dtype.name,
                array,
                name in trainable,
                shared_by=self.shared_by.get(name),
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
        name = self.path + (proto.name or proto.output[0]).strip("/")
        if self._adds_sequence(name, proto):
            return
        operator = OPERATORS[key_of(proto)]
        version = version_of(operator, self.opsets.get(domain_of(proto), 1))
        stated: dict[str, Any] = {}
        regions: dict[str, Region] = {}
        inputs = tuple(self.values[key] if key else None for key in proto.input)
        if proto.op_type == "If":
            regions = self._branches(name, proto, inputs[0])
        for attribute in proto.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                if proto.op_type == "If" or is_unrolled(proto, inputs, None):
                    continue
                input_types = _given_to_a_body(proto, inputs, version)
                called, labels = proto.op_type == _CALL, {}
                if called:  # maybe several times: nodes have its name, results those of its own
                    inner = (info.name for info in attribute.g.output)
                    labels = dict(zip(inner, proto.output, strict=False))
                regions[attribute.name] = self._region(
                    f"{name}/{attribute.name}",
                    attribute.g,
                    input_types,
                    Scope(path=f"{name}/" if called else "", labels=labels),
                )
            else:
                stated[attribute.name] = attribute_value(attribute)
        if proto.op_type == "Slice" and len(inputs) > 1 and _is_computed(inputs[1:3]):
            fixed = FixedSlices(self.graph).sizes_of(proto)
            stated |= {FIXED_SIZES: fixed} if fixed else {}
        source = proto.op_type if operator.definition is None else operator.key
        subject = f"Node {name!r} ({source})"
        hints = hints_of(subject, stated, has_parts=proto.op_type == "MultiConv")
        placement = placement_of(subject, stated)
        stated = without_hints(stated)
        node = Node(
            operator=operator,
            name=name,
            source=source,
            inputs=inputs,
            attributes=attributes_of(operator, version, subject, stated),
            version=version,
            n_outputs=len(proto.output),
            regions=regions,
            hints=hints,
            placement=placement,
        )
        if self.observer is not None:
            self.observer(proto, node)
        if is_unrolled(proto, inputs, regions.get("body")):
            node = replace(node, regions={})
            result = unrolled(node, self.builder, self._round_of(name, proto))
            self.values.update(zip(proto.output, result, strict=True))
            return
        tensors_only(str(node), inputs)
        keys = [key if index == 0 or key in used else "" for index, key in enumerate(proto.output)]
        names = self.counts.with_number(node, [self.labels.get(key, key) for key in keys])
        results = self._with_reasons(node, names)
        for key, value in zip([*keys, *names[len(keys) :]], results, strict=True):
            if value is not None:
                is_variable = key in self.variables and isinstance(value, Constant)
                self.values[key] = entry = _variable(value) if is_variable else value
                if entry.known is None:
                    check_type(entry.dtype, f"Node {name!r}")

    def _adds_sequence(self, name: str, proto: onnx.NodeProto) -> bool:
        """Add a node whose operand or result is a sequence, and return whether it is one."""
        if proto.op_type == "Identity":
            sequence = self.values[proto.input[0]]
            if isinstance(sequence, ValueSequence):
                self.values[proto.output[0]] = sequence
                return True
        if key_of(proto) not in SEQUENCES:
            return False
        inputs = [self.values[key] if key else None for key in proto.input]
        subject = f"Node {name!r} ({proto.op_type})"

        def emit(
            key: str, operands: Sequence[Value], stated: Mapping[str, Any], n_results: int
        ) -> list[Value]:
            node = Node(
                operator=OPERATORS[key],
                name=name,
                source=proto.op_type,
                inputs=tuple(operands),
                attributes=with_defaults(key, "", _VERSION_OF_PARTS, stated),
                version=_VERSION_OF_PARTS,
                n_outputs=n_results,
            )
            result = self._with_reasons(node, [f"{proto.output[0]}/{i}" for i in range(n_results)])
            return [value for value in result if value is not None]

        attributes = {entry.name: attribute_value(entry) for entry in proto.attribute}
        results = sequence_results(subject, proto.op_type, inputs, attributes, emit)
        if isinstance(results, Constant):
            results = self.builder.constant(results.content, proto.output[0])
        self.values[proto.output[0]] = results
        return True

    def _with_reasons(self, node: Node, names: Sequence[str]) -> tuple[Value | None, ...]:
        """Add a node to the builder.

        Raises
        ------
        BadModel
            When it cannot be used with its operands, whatever the reason.
        """
        try:
            results = self.builder.add(node, names)
            self.counts.add(self.builder, node, results)
            return results
        except _UNFORESEEN as error:
            # Operands that no check foresaw; the cause is kept for the log.
            reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
            raise BadModel(f"{node} cannot be used with its operands: {reason}") from error

    def _round_of(self, name: str, proto: onnx.NodeProto) -> Round:
        """Return what adds a round of a loop."""
        body = body_of(proto)

        def add(number: int, inputs: Sequence[Value]) -> list[Value]:
            if len(inputs) != len(body.input):
                raise BadModel(
                    f"Node {name!r} (Loop): its body takes {len(body.input)} values, and the node"
                    f" gives {len(inputs)}"
                )
            values = {info.name: value for info, value in zip(body.input, inputs, strict=True)}
            inside = type(self)(
                self.builder,
                body,
                self.opsets,
                self.folder,
                Scope(
                    {**self.values, **values},
                    self.counts,
                    f"{name}/round{number}/",
                    observer=self.observer,
                ),
            )
            inside.add_parameters()
            return inside.add_nodes()

        return add

    def _branches(
        self, name: str, proto: onnx.NodeProto, condition: Value | None
    ) -> dict[str, Region]:
        """Return the branches of a decision, or the one that runs if its condition is known.

        One that cannot be imported fails when it is taken, if the other can.

        Raises
        ------
        BadModel
            When no branch can be imported.
        """
        regions: dict[str, Region] = {}
        refused: dict[str, BadModel] = {}
        for attribute in proto.attribute:
            key = attribute.name
            if attribute.type != onnx.AttributeProto.GRAPH:
                continue
            if (
                condition is not None
                and condition.known is not None
                and key != branch_of(condition)
            ):
                continue
            try:
                regions[key] = self._region(f"{name}/{key}", attribute.g, [])
            except BadModel as error:
                refused[key] = error
        if refused and not regions:
            raise next(iter(refused.values()))
        for key, reason in refused.items():
            text = f"Node {name!r} (If) has no valid {key}: {reason}"
            regions[key] = Region(f"{name}/{key}", (), (), (), (), text)
        return regions

    def _region(
        self,
        name: str,
        graph: onnx.GraphProto,
        input_types: Sequence[ResultType | None],
        scope: Scope | None = None,
    ) -> Region:
        """Return a subgraph as a region.

        The types of its inputs are given where they are known, and what its nodes and results are
        called in a scope.

        Raises
        ------
        BadModel
            When an input of it has no static shape, or it has no tensors.
        """
        inside = type(self)(
            self.builder.inside(name),
            graph,
            self.opsets,
            self.folder,
            replace(
                scope or Scope(),
                values=self.values,
                counts=self.counts,
                observer=self.observer,
            ),
        )
        inside.add_parameters()
        inputs = []
        for info, known in zip_longest(graph.input, input_types[: len(graph.input)]):
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
        outputs = inside.add_nodes()
        tensors_only(f"The result of subgraph {name!r}", outputs)
        self.counts.check_none(name, outputs)
        return inside.builder.region(inputs, outputs)


#: PopART's call of a subgraph.
_CALL = "Call"
#: PopART's block over packed sequences.
_PACKED = "PackedDataBlock"
#: Scan has no batch from this version on.
_UNBATCHED_SCAN = 9


def _variable(value: Value) -> State:
    """Return a state that begins as a constant."""
    array = np.asarray(value.content)
    return State(value.name, value.shape, value.dtype, array, purpose=Purpose.WEIGHT)


def _is_computed(values: Sequence[Value | None]) -> bool:
    """Return whether the content of a value is not known when the model is compiled."""
    return any(value is not None and value.known is None for value in values)


def _of_sequences(proto: onnx.NodeProto, inputs: Sequence[Value | None]) -> list[ResultType | None]:
    """Return the types of batches of padded sequences, of every third operand."""
    attributes = {
        attribute.name: attribute_value(attribute)
        for attribute in proto.attribute
        if attribute.type != onnx.AttributeProto.GRAPH
    }
    n_batch = attributes["callbackBatchSize"]
    return [
        None if value is None else ((n_batch, length, *value.shape[1:]), value.dtype)
        for value, length in zip(inputs[::3], attributes["maxSequenceLengths"], strict=False)
    ]


def _given_to_a_body(
    proto: onnx.NodeProto, inputs: Sequence[Value | None], version: int
) -> list[ResultType | None]:
    """Return the types that a loop gives its body, where they follow from its operands."""
    if proto.op_type == _CALL:
        return [None if value is None else (value.shape, value.dtype) for value in inputs]
    if proto.op_type == _PACKED:
        return _of_sequences(proto, inputs)
    if proto.op_type == "Loop":
        states = [None if value is None else (value.shape, value.dtype) for value in inputs[2:]]
        return [((), "int64"), ((), "bool"), *states]
    if proto.op_type != "Scan":
        return []
    attributes = {attribute.name: attribute_value(attribute) for attribute in proto.attribute}
    if version < _UNBATCHED_SCAN:  # lengths come first, and all operands have a batch
        inputs = [
            None if value is None else Value(value.name, value.shape[1:], value.dtype)
            for value in inputs[1:]
        ]
    n_states = len(inputs) - attributes.get("num_scan_inputs", 0)
    axes = attributes.get("scan_input_axes") or (0,) * (len(inputs) - n_states)
    types: list[ResultType | None] = []
    for i, value in enumerate(inputs):
        if value is None:
            types.append(None)
        elif i < n_states:
            types.append((value.shape, value.dtype))
        else:
            axis = axes[i - n_states] % max(1, len(value.shape))
            types.append(((*value.shape[:axis], *value.shape[axis + 1 :]), value.dtype))
    return types
