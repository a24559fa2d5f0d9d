"""Types of the outputs of a node, from those of its inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import onnx
import onnx.shape_inference

from popart.builder import graphcore_types
from popart.builder.custom_types import custom_types, is_own_domain
from popart.builder.tensor import array_of
from popart.builder.types import Types, shape_of_type
from popart.errors import popart_exception

__all__ = ["NodeTypes", "known_type", "node_types", "state_type"]

_GRAPHCORE = "ai.graphcore"


@dataclass
class NodeTypes:
    """Types of outputs by name, and the contents of those that are constant."""

    types: dict[str, onnx.TypeProto] = field(default_factory=dict)
    contents: list[onnx.TensorProto] = field(default_factory=list)


def known_type(of: onnx.TypeProto | None) -> onnx.TypeProto | None:
    """Return a type if it states elements; None for one that says nothing."""
    return of if of is not None and of.tensor_type.elem_type else None


def state_type(value: onnx.ValueInfoProto, of: onnx.TypeProto | None) -> None:
    """Set the type of a tensor; one that is not known is stated as undefined."""
    if of is not None:
        value.type.CopyFrom(of)
    else:
        value.type.tensor_type.elem_type = onnx.TensorProto.UNDEFINED


def node_types(node: onnx.NodeProto, types: Types, opset: int, model: onnx.ModelProto) -> NodeTypes:
    """Return what is known of the outputs of a node.

    Parameters
    ----------
    node
        The node.
    types
        Types and contents of the tensors that it may read.
    opset
        Version of its domain.
    model
        States the version of the file's format and of the operator sets.
    """
    if node.op_type == "Constant" and not node.domain:
        return _constant(node)
    if node.domain == _GRAPHCORE:
        return NodeTypes(graphcore_types.output_types(node, types.type_of))
    own = _OWN.get(node.op_type) if not node.domain else None
    if own is not None:
        return NodeTypes(own(node, types))
    if is_own_domain(node.domain):
        return NodeTypes(custom_types(node, types, opset))
    return NodeTypes(_by_schema(node, types, opset, model))


def _by_schema(
    node: onnx.NodeProto, types: Types, opset: int, model: onnx.ModelProto
) -> dict[str, onnx.TypeProto]:
    """Return the types that ONNX's own inference finds."""
    schema = _schema(node.op_type, opset, node.domain)
    inputs = {name: types.type_of(name) for name in node.input if name}
    if schema is None or any(of is None for of in inputs.values()):
        return {}
    contents = {name: types.content_of(name) for name in inputs}
    plain = _without_reserved(node)
    try:
        return dict(
            onnx.shape_inference.infer_node_outputs(
                schema,
                plain,
                {name: of for name, of in inputs.items() if of is not None},
                {name: content for name, content in contents.items() if content is not None},
                opset_imports=list(model.opset_import),
                ir_version=model.ir_version,
            )
        )
    except onnx.checker.ValidationError:
        return _unchecked(plain, inputs, model)
    except onnx.shape_inference.InferenceError:
        return {}  # as PopART: a session refuses the node


def _unchecked(
    node: onnx.NodeProto, inputs: dict[str, onnx.TypeProto | None], model: onnx.ModelProto
) -> dict[str, onnx.TypeProto]:
    """Return what is known of a node whose inputs have types that ONNX does not allow it."""
    graph = onnx.GraphProto(name="node", node=[node])
    for name, of in inputs.items():
        graph.input.add(name=name, type=of)
    alone = onnx.ModelProto(ir_version=model.ir_version, graph=graph)
    alone.opset_import.extend(model.opset_import)
    values = onnx.shape_inference.infer_shapes(alone, check_type=False).graph.value_info
    return {value.name: value.type for value in values}


@cache
def _schema(name: str, opset: int, domain: str) -> onnx.defs.OpSchema | None:
    try:
        return onnx.defs.get_schema(name, opset, domain)
    except onnx.defs.SchemaError:
        return None


def _without_reserved(node: onnx.NodeProto) -> onnx.NodeProto:
    """Return a node without the attributes that PopART gives a meaning."""
    plain = onnx.NodeProto(op_type=node.op_type, input=node.input, output=node.output)
    plain.domain = node.domain
    plain.attribute.extend(a for a in node.attribute if not a.name.startswith("__"))
    return plain


def _constant(node: onnx.NodeProto) -> NodeTypes:
    for attribute in node.attribute:
        if attribute.name == "value":
            content = onnx.TensorProto()
            content.CopyFrom(attribute.t)
            content.name = node.output[0]
            of = onnx.helper.make_tensor_type_proto(content.data_type, content.dims)
            return NodeTypes({node.output[0]: of}, [content])
    return NodeTypes()


def _batch_normalization(node: onnx.NodeProto, types: Types) -> dict[str, onnx.TypeProto]:
    """Return the types of the result, and of the statistics in training."""
    found = {}
    sources = [0, 3, 4, 3, 4]
    for output, place in zip(node.output, sources, strict=False):
        of = types.type_of(node.input[place]) if place < len(node.input) else None
        if of is not None:
            found[output] = of
    return found


def _split(node: onnx.NodeProto, types: Types) -> dict[str, onnx.TypeProto]:
    """Return the types of the parts; refuse parts that do not add up to the whole."""
    whole = types.type_of(node.input[0])
    shape = shape_of_type(whole)
    if whole is None or shape is None:
        return {}
    settings = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    axis, n_parts = settings.get("axis", 0), len(node.output)
    if not -len(shape) <= axis < len(shape):
        raise popart_exception(f"Invalid value of attribute 'axis'. Rank={len(shape)} Value={axis}")
    size, sizes = shape[axis], list(settings.get("split", ()))
    if sizes and len(sizes) != n_parts:
        raise popart_exception(
            f"Mismatch between number of splits ({len(sizes)}) and outputs ({n_parts})"
        )
    if sizes and sum(sizes) != size:
        raise popart_exception(
            f"Mismatch between the sum of 'split' ({sum(sizes)}) and the split dimension of the"
            f" input ({size})"
        )
    if not sizes:
        if size % n_parts:
            raise popart_exception("The input is not evenly splittable")
        sizes = [size // n_parts] * n_parts
    found = {}
    for output, part in zip(node.output, sizes, strict=True):
        shape[axis] = part
        found[output] = onnx.helper.make_tensor_type_proto(whole.tensor_type.elem_type, shape)
    return found


def _outputs_of_body(node: onnx.NodeProto, name: str) -> list[onnx.TypeProto | None]:
    body = next(a.g for a in node.attribute if a.name == name)
    return [known_type(value.type if value.HasField("type") else None) for value in body.output]


def _known(names: list[str], types: list[onnx.TypeProto | None]) -> dict[str, onnx.TypeProto]:
    return {name: of for name, of in zip(names, types, strict=False) if of is not None}


def _if(node: onnx.NodeProto, types: Types) -> dict[str, onnx.TypeProto]:
    """Return the types of a branch's outputs."""
    del types
    first, second = (_outputs_of_body(node, f"{side}_branch") for side in ("then", "else"))
    both = [of if of is not None else other for of, other in zip(first, second, strict=False)]
    return _known(list(node.output), both)


def _loop(node: onnx.NodeProto, types: Types) -> dict[str, onnx.TypeProto]:
    """Return the types of what a loop carries; of what it collects, if the rounds are known."""
    n_carried = len(node.input) - 2
    results = _outputs_of_body(node, "body")[1:]
    rounds = types.content_of(node.input[0]) if node.input[0] else None
    n_rounds = None if rounds is None else int(array_of(rounds).reshape(()))
    carried = [
        of if of is not None else types.type_of(name)
        for of, name in zip(results, node.input[2:], strict=False)
    ]
    collected = [_stacked(of, n_rounds) for of in results[n_carried:]]
    return _known(list(node.output), [*carried, *collected])


def _stacked(
    of: onnx.TypeProto | None, n_rounds: int | None, axis: int = 0
) -> onnx.TypeProto | None:
    """Return the type of the results of all rounds along a new dimension."""
    shape = shape_of_type(of)
    if of is None or shape is None or n_rounds is None:
        return None
    shape.insert(axis % (len(shape) + 1), n_rounds)
    return onnx.helper.make_tensor_type_proto(of.tensor_type.elem_type, shape)


def _scan(node: onnx.NodeProto, types: Types) -> dict[str, onnx.TypeProto]:
    """Return the types of what a scan carries, and of what it collects along its first inputs."""
    settings = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    n_scanned = settings["num_scan_inputs"]
    n_carried = len(node.input) - n_scanned
    if not node.input[0]:  # version 8: lengths of sequences, and a batch before the steps
        return {}
    axes = settings.get("scan_input_axes") or [0] * n_scanned
    shape = shape_of_type(types.type_of(node.input[n_carried]))
    results = _outputs_of_body(node, "body")
    n_steps = shape[axes[0]] if shape else None
    stacked_along = settings.get("scan_output_axes") or [0] * (len(results) - n_carried)
    collected = [
        _stacked(of, n_steps, axis)
        for of, axis in zip(results[n_carried:], stacked_along, strict=False)
    ]
    carried = [
        of if of is not None else types.type_of(name)
        for of, name in zip(results, node.input[:n_carried], strict=False)
    ]
    return _known(list(node.output), [*carried, *collected])


#: Operators whose types PopART finds otherwise than ONNX, or whose bodies hold them.
_OWN: dict[str, Callable[[onnx.NodeProto, Types], dict[str, onnx.TypeProto]]] = {
    "BatchNormalization": _batch_normalization,
    "If": _if,
    "Loop": _loop,
    "Scan": _scan,
    "Split": _split,
}
