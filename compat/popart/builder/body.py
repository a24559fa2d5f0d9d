"""Subgraphs as nodes hold them: their inputs, and types that follow from those of the node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx

from popart.builder.inference import known_type, node_types, state_type
from popart.builder.types import Types, shape_of_type

__all__ = ["complete_bodies"]


class _Scope:
    """Types and contents inside a body, above which stand those of the graph around it."""

    def __init__(self, body: onnx.GraphProto, around: Types) -> None:
        self._around = around
        self.types: dict[str, onnx.TypeProto] = {}
        self.contents = {content.name: content for content in body.initializer}
        for value in (*body.input, *body.value_info):
            self.note(value.name, value.type if value.HasField("type") else None)

    def note(self, name: str, of: onnx.TypeProto | None) -> None:
        """Take a type if it states anything."""
        if known_type(of) is not None and of is not None:
            self.types[name] = of

    def type_of(self, name: str) -> onnx.TypeProto | None:
        """Return the type of a tensor; None if it is not known."""
        return self.types.get(name) or self._around.type_of(name)

    def content_of(self, name: str) -> onnx.TensorProto | None:
        """Return the content of a tensor; None if it is not constant."""
        return self.contents.get(name) or self._around.content_of(name)

    def has_tensor(self, name: str) -> bool:
        """Whether there is a tensor of this name."""
        return name in self.types or self._around.has_tensor(name)


def complete_bodies(node: onnx.NodeProto, types: Types, model: onnx.ModelProto) -> None:
    """Make the bodies of a node those of a valid model.

    Inputs that are tensors of the graph around a branch or loop are read from there, as ONNX has
    it. Types that a body leaves open are inferred from the inputs of the node.

    Parameters
    ----------
    node
        The node, which is changed.
    types
        Types and contents of the tensors around it.
    model
        The whole model, which states the versions of the operator sets.
    """
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    for attribute in node.attribute:
        if attribute.type != onnx.AttributeProto.GRAPH:
            continue
        body = attribute.g
        if node.op_type != "Call":
            for value in [value for value in body.input if types.has_tensor(value.name)]:
                body.input.remove(value)
        _complete(body, _given(node, types), types, opsets, model)


def _complete(
    body: onnx.GraphProto,
    given: Sequence[onnx.TypeProto | None],
    around: Types,
    opsets: Mapping[str, int],
    model: onnx.ModelProto,
) -> None:
    for value, of in zip(body.input, given, strict=False):
        if of is not None and known_type(value.type) is None:
            value.type.CopyFrom(of)
    for value in body.input:
        state_type(value, known_type(value.type))
    scope = _Scope(body, around)
    for node in body.node:
        complete_bodies(node, scope, model)
        inferred = node_types(node, scope, opsets.get(node.domain, 1), model)
        scope.contents.update({content.name: content for content in inferred.contents})
        for name in node.output:
            if name not in scope.types:
                scope.note(name, inferred.types.get(name))
    for value in (*body.value_info, *body.output):
        if known_type(value.type) is None:
            state_type(value, scope.type_of(value.name))


def _given(node: onnx.NodeProto, types: Types) -> list[onnx.TypeProto | None]:
    """Return the types that the inputs of a node give those of its body."""
    inputs = [types.type_of(name) if name else None for name in node.input]
    if node.op_type == "Loop":
        counter = onnx.helper.make_tensor_type_proto(onnx.TensorProto.INT64, [])
        condition = onnx.helper.make_tensor_type_proto(onnx.TensorProto.BOOL, [])
        return [counter, condition, *inputs[2:]]
    if node.op_type == "Scan":
        return _scanned(node, inputs)
    return inputs if node.op_type == "Call" else []


def _scanned(
    node: onnx.NodeProto, inputs: list[onnx.TypeProto | None]
) -> list[onnx.TypeProto | None]:
    """Return the types of what a scan carries, and of one step of its other inputs."""
    settings: dict[str, Any] = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    n_scanned = settings["num_scan_inputs"]
    has_batch = not node.input[0]  # version 8: lengths of sequences stand first
    if has_batch:
        inputs = inputs[1:]
    n_carried = len(inputs) - n_scanned
    axes = settings.get("scan_input_axes") or [0] * n_scanned
    carried = [_without(of, [0] if has_batch else []) for of in inputs[:n_carried]]
    # PopART keeps the axis of a vector, so that a step of it is no scalar.
    ranks = [len(shape_of_type(of) or ()) for of in inputs[n_carried:]]
    if not has_batch and 1 in ranks:
        inputs = [
            *inputs[:n_carried],
            *(
                _step_of_vector(of) if r == 1 else of
                for of, r in zip(inputs[n_carried:], ranks, strict=True)
            ),
        ]
    dropped = [
        [0, 1] if has_batch else [] if rank == 1 else [axis]
        for axis, rank in zip(axes, ranks, strict=False)
    ]
    scanned = [_without(of, gone) for of, gone in zip(inputs[n_carried:], dropped, strict=False)]
    return [*carried, *scanned]


def _step_of_vector(of: onnx.TypeProto | None) -> onnx.TypeProto | None:
    return of and onnx.helper.make_tensor_type_proto(of.tensor_type.elem_type, [1])


def _without(of: onnx.TypeProto | None, axes: Sequence[int]) -> onnx.TypeProto | None:
    shape = shape_of_type(of)
    if of is None or shape is None:
        return None
    kept = [size for axis, size in enumerate(shape) if axis not in {a % len(shape) for a in axes}]
    return onnx.helper.make_tensor_type_proto(of.tensor_type.elem_type, kept)
