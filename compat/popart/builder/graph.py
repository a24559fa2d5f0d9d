"""A graph that is being built: its tensors, nodes, names and scopes, as an ONNX model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx

from popart.builder import reserved
from popart.builder.attribute import attribute_of, node_attribute
from popart.builder.body import complete_bodies
from popart.builder.inference import NodeTypes, known_type, node_types, state_type
from popart.builder.types import shape_of_type
from popart.errors import popart_exception
from popart.logger import getLogger
from popart.tensor_info import type_of_onnx_element

__all__ = ["Graph", "OperatorIdentifier", "OperatorUse"]

_DELIMITER = "/"
#: Version of the file format: PopART writes 3 for operator sets up to 8.
_IR_VERSION, _OLD_IR_VERSION, _LAST_OLD_OPSET = 4, 3, 8
_ONNX = "ai.onnx"
_LOGGER = getLogger("builder")
_OPSETS = {_ONNX: (6, 11), "ai.graphcore": (1, 1)}


class OperatorIdentifier:
    """Domain, name and version of an operator."""

    def __init__(self, domain: str, type: str, version: int) -> None:
        self.domain, self.type, self.version = domain, type, version

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OperatorIdentifier) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.domain, self.type, self.version))

    def __repr__(self) -> str:
        return f"{self.domain}.{self.type}:{self.version}"


@dataclass(frozen=True)
class OperatorUse:
    """An operator as it is added to a graph.

    Parameters
    ----------
    identifier
        Of the operator.
    opset
        Version of its domain.
    n_inputs
        Fewest and most inputs; no most for -1, and no check if the fewest are 0.
    most_outputs
        Most outputs; 0 for any number.
    optional_inputs
        Positions before the fewest inputs that may be left out.
    """

    identifier: OperatorIdentifier
    opset: int
    n_inputs: tuple[int, int] = (0, 0)
    most_outputs: int = 0
    optional_inputs: frozenset[int] = frozenset()


class Graph:
    """The graph behind a builder.

    Nodes are added one by one; the types of their outputs are inferred from those of their
    inputs, so adding a node does not depend on the size of the graph.

    Parameters
    ----------
    parent
        The graph whose node this one will be a part of.
    """

    def __init__(self, parent: Graph | None = None) -> None:
        self.parent = parent
        self.root: Graph = self if parent is None else parent.root
        self.children: list[Graph] = []
        self.n_graphs = self.n_nodes = 0
        self.n_replicas = 1
        self.proto = onnx.ModelProto(ir_version=_IR_VERSION)
        self.attributes: dict[str, Any] = {}
        self.scopes: list[str] = []
        self.opsets: dict[str, int] = {}
        self._types: dict[str, onnx.TypeProto | None] = {}
        self._contents: dict[str, onnx.TensorProto] = {}
        self._names: set[str] = set()
        self._inputs: set[str] = set()
        self._counts: dict[str, int] = {}
        self._node_of: dict[str, onnx.NodeProto] = {}
        self.set_name("")
        if parent is not None:
            parent.children.append(self)

    @property
    def graph(self) -> onnx.GraphProto:
        """The graph itself."""
        return self.proto.graph

    def set_name(self, name: str) -> None:
        """Name the graph; without a name, by its number among those of the model."""
        if not name:
            name = f"BuilderGraph_{self.root.n_graphs}"
            self.root.n_graphs += 1
        self.graph.name = name

    def load(self, proto: onnx.ModelProto) -> None:
        """Take the content of a model that a builder then adds to."""
        for entry in proto.opset_import:
            domain = entry.domain or _ONNX
            least, most = _OPSETS.get(domain, (entry.version, entry.version))
            if not least <= entry.version <= most:
                raise popart_exception(
                    f"Encountered {domain} opset version {entry.version}, Maximum supported"
                    f" opset is {most}, minimum {least}."
                )
            self.opsets[domain] = entry.version
        self.proto = proto
        for value in (*self.graph.value_info, *self.graph.output, *self.graph.input):
            self._types[value.name] = known_type(value.type)
            self._names.add(value.name)
        for content in self.graph.initializer:
            self.add_content(content)
        for node in self.graph.node:
            inferred = self._infer(node)
            for name in node.output:
                self._names.add(name)
                self._node_of[name] = node
                self._types.setdefault(name, inferred.types.get(name))

    # Names

    def new_name(self, name: str, output: int | None = None) -> str:
        """Return a name that no tensor of the graph, its parents and its children has."""
        stem = _DELIMITER.join([*self.scopes, name]) + ("" if output is None else f":{output}")
        # Names are never given back, so that those before the last one are taken still.
        count = self._counts.get(stem, 0)
        proposed = f"{stem}{_DELIMITER}{count}" if count else stem
        while self._is_taken(proposed):
            count += 1
            proposed = f"{stem}{_DELIMITER}{count}"
        self._counts[stem] = count + 1
        self._names.add(proposed)
        return proposed

    def _is_taken(self, name: str) -> bool:
        return name in self._names or self._is_above(name) or self._is_below(name)

    def _is_above(self, name: str) -> bool:
        above = self.parent
        return above is not None and (name in above._names or above._is_above(name))

    def _is_below(self, name: str) -> bool:
        return any(name in child._names or child._is_below(name) for child in self.children)

    def scoped(self, name: str) -> str:
        """Return a name below the scopes that are open."""
        return "".join(f"{scope}{_DELIMITER}" for scope in self.scopes) + name

    # Tensors

    def add_input(
        self,
        name: str,
        of: onnx.TypeProto | None = None,
        of_replica: onnx.TypeProto | None = None,
    ) -> None:
        """Add an input of a type; one without a type is that of a subgraph.

        Nodes read it with the type that it has on a replica, where that is another.
        """
        value = self.graph.input.add(name=name)
        if of is not None:
            value.type.CopyFrom(of)
        self._types[name] = of_replica or of
        self._inputs.add(name)

    def add_parent_input(self, name: str) -> None:
        """Add a tensor of a graph above as an input."""
        if not self._is_above(name):
            raise popart_exception(
                f"Failed to add unrecognised Tensor {name} from higher scope, Currently, a Tensor"
                " must already exist in a higher (parent) scope to add it as an input in a lower"
                " scope."
            )
        self.graph.input.add(name=name)
        self._inputs.add(name)

    def add_output(self, name: str) -> None:
        """Make a tensor an output."""
        state_type(self.graph.output.add(name=name), self.type_of(name))

    def add_content(self, content: onnx.TensorProto) -> None:
        """Note the content of a constant or initializer, which may decide shapes."""
        if content.data_location != onnx.TensorProto.EXTERNAL:
            self._contents[content.name] = content

    def add_metadata(self, key: str, value: int, tensor: str = "") -> None:
        """Add an entry to the metadata of the model, of a tensor if one is named."""
        entry = self.proto.metadata_props.add()
        entry.key = f"{key}{_DELIMITER}{tensor}" if tensor else key
        entry.value = str(value)

    def has_tensor(self, name: str) -> bool:
        """Whether a node of the graph may read a tensor of this name."""
        is_own = name in self._types or name in self._inputs
        return is_own or (self.parent is not None and self.parent.has_tensor(name))

    def tensor_names(self) -> list[str]:
        """Return the names that a node may read, sorted."""
        above = [] if self.parent is None else self.parent.tensor_names()
        return sorted({*self._types, *self._inputs, *above})

    def type_of(self, name: str) -> onnx.TypeProto | None:
        """Return the type of a tensor, here or above; None if it is not known."""
        of = self._types.get(name)
        return of if of is not None or self.parent is None else self.parent.type_of(name)

    def content_of(self, name: str) -> onnx.TensorProto | None:
        """Return the content of a constant or initializer, here or above; None if there is none."""
        content = self._contents.get(name)
        if content is None and self.parent is not None and name not in self._types:
            return self.parent.content_of(name)
        return content

    def shape_of(self, name: str) -> list[int] | None:
        """Return the shape of a tensor; None if it is not known."""
        return shape_of_type(self.type_of(name))

    def described(self, name: str) -> tuple[list[int], int]:
        """Return shape and ONNX's type of an input, output or value; refuse other names."""
        if name not in self._types and name not in self._inputs:
            raise popart_exception(
                f"{name} is not an known tensor. Must be one of"
                f" (inputs:{' '.join(value.name for value in self.graph.input)})"
                f" (outputs:{' '.join(value.name for value in self.graph.output)})"
                f" (values:{' '.join(value.name for value in self.graph.value_info)}). Its shape"
                " is known if it could be inferred."
            )
        of = self.type_of(name)
        return shape_of_type(of) or [], 0 if of is None else of.tensor_type.elem_type

    # Nodes

    def add_node(
        self,
        use: OperatorUse,
        inputs: Sequence[str],
        n_outputs: int,
        attributes: Mapping[str, Any],
        name: str = "",
        check: Callable[[], None] | None = None,
    ) -> list[str]:
        """Add a node and return the names of its outputs.

        Parameters
        ----------
        use
            The operator.
        inputs
            Names of tensors; empty ones are left out.
        n_outputs
            Number of outputs.
        attributes
            Values by name, or attributes.
        name
            Of the node, below the scopes; that of the operator if empty.
        check
            Called when the inputs are known to be tensors.
        """
        kind = use.identifier.type
        _LOGGER.debug(
            f"Adding {use.identifier} to builder opset:{use.opset}, numInputs:{len(inputs)}"
            f" numOutputs:{n_outputs} numAttributes:{len(attributes)} name:{name}"
        )
        if use.most_outputs and n_outputs > use.most_outputs:
            raise popart_exception(
                f"{kind} has an invalid number of outputs {n_outputs}. Must be between"
                f" 0..{use.most_outputs}"
            )
        outputs = [self.new_name(kind, index) for index in range(n_outputs)]
        self._check_inputs(use, inputs)
        if check is not None:
            check()
        self._require_opset(use)
        node = self.graph.node.add(op_type=kind, input=inputs, output=outputs)
        if use.identifier.domain != _ONNX:
            node.domain = use.identifier.domain
        if name or self.scopes:
            node.name = self.scoped(name or kind)
        for key, value in sorted(attributes.items()):
            is_made = isinstance(value, onnx.AttributeProto)
            node.attribute.append(value if is_made else attribute_of(key, value))
        self.root.n_nodes += 1
        node.attribute.append(attribute_of(reserved.DEBUG_INFO, self.root.n_nodes))
        for key, value in self.attributes.items():
            self._add_attribute(node, attribute_of(key, value))
        self._node_of.update(dict.fromkeys(outputs, node))
        complete_bodies(node, self, self.root.proto)
        self._note_types(node)
        return outputs

    def _check_inputs(self, use: OperatorUse, inputs: Sequence[str]) -> None:
        least, most = use.n_inputs
        if least > 0 and not least <= len(inputs) <= (most if most > 0 else len(inputs)):
            raise popart_exception(
                f"{use.identifier.type} has invalid number of inputs {len(inputs)}. Must be"
                f" between {least}..{most if most > 0 else 'inf'}"
            )
        for place, name in enumerate(inputs):
            is_optional = place >= least or place in use.optional_inputs
            if (is_optional and name == "") or self.has_tensor(name):
                continue
            names = self.tensor_names()
            known = (
                f"valid tensors are {', '.join(names)}"
                if names
                else ("there are no valid tensors yet")
            )
            raise popart_exception(f"Unknown tensor '{name}' ({known}).")

    def _require_opset(self, use: OperatorUse) -> None:
        domain = use.identifier.domain
        version = self.opsets.setdefault(domain, use.opset)
        if version != use.opset:
            raise popart_exception(
                f"Invalid opset {use.opset} used to add an operation. Opset for domain {domain}"
                f" already defined as {version}"
            )
        self._state_opset(domain, version)
        if self.root is not self and domain not in self.root.opsets:
            self.root._state_opset(domain, version)

    def _state_opset(self, domain: str, version: int) -> None:
        """State the version of a domain in the model; that of its own nodes replaces a child's."""
        stated = "" if domain == _ONNX else domain
        entry = next((e for e in self.proto.opset_import if e.domain == stated), None)
        if entry is None:
            entry = self.proto.opset_import.add(domain=stated)
        if entry.version == version:
            return
        entry.version = version
        if domain == _ONNX:
            is_old = version <= _LAST_OLD_OPSET
            self.proto.ir_version = _OLD_IR_VERSION if is_old else _IR_VERSION

    def _infer(self, node: onnx.NodeProto) -> NodeTypes:
        domain = node.domain or _ONNX
        inferred = node_types(node, self, self.opsets.get(domain, 1), self.proto)
        for content in inferred.contents:
            self.add_content(content)
        return inferred

    def _note_types(self, node: onnx.NodeProto) -> None:
        inferred = self._infer(node)
        for output in node.output:
            of = known_type(inferred.types.get(output))
            shape = shape_of_type(of)
            if shape is not None and any(size < 0 for size in shape):
                raise popart_exception(
                    f"Output '{output}' of node '{node.name or node.op_type}' has invalid shape,"
                    f" [{' '.join(map(str, shape))}]. Values must be non-negative in each shape"
                    " dimension."
                )
            self._types[output] = of
            state_type(self.graph.value_info.add(name=output), of)

    # Attributes of nodes

    def node_with_outputs(self, names: Collection[str]) -> onnx.NodeProto:
        """Return the node whose outputs have these names, all of them."""
        wanted = set(names)
        node = self._node_of.get(next(iter(wanted), ""))
        if node is None or set(node.output) != wanted:
            raise popart_exception(
                f"Could not find a node with outputs {' ,'.join(sorted(wanted))}. Must specify all"
                " outputs of a node"
            )
        return node

    def add_attribute(self, name: str, value: Any, outputs: Collection[str]) -> None:
        """Add an attribute to the node with these outputs; refuse one that it has."""
        self._add_attribute(self.node_with_outputs(outputs), node_attribute(name, value))

    @staticmethod
    def _add_attribute(node: onnx.NodeProto, attribute: onnx.AttributeProto) -> None:
        if any(present.name == attribute.name for present in node.attribute):
            raise popart_exception(f"Node already has attribute {attribute.name}.")
        node.attribute.append(attribute)

    def attribute(self, name: str, outputs: Collection[str]) -> onnx.AttributeProto | None:
        """Return an attribute of the node with these outputs, None if it has none of the name."""
        node = self.node_with_outputs(outputs)
        return next((present for present in node.attribute if present.name == name), None)

    def remove_attribute(self, name: str, outputs: Collection[str]) -> None:
        """Remove an attribute of the node with these outputs; refuse one that it lacks."""
        attribute = self.attribute(name, outputs)
        if attribute is None:
            raise popart_exception(f"Cannot remove attribute {name} as it does not exist.")
        self.node_with_outputs(outputs).attribute.remove(attribute)

    def type_name_of(self, name: str) -> str:
        """Return the name of the type of a tensor, as `DataType` has it."""
        return type_of_onnx_element(self.described(name)[1]).name
