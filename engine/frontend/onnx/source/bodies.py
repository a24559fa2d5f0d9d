"""Operators that others define: replaced by their bodies where the engine has none."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import onnx
from onnx import defs, helper, inliner, shape_inference

from tilescope.engine.errors import BadModel
from tilescope.engine.frontend.onnx.source.quantised_lstm import quantised_lstm
from tilescope.engine.frontend.onnx.source.walk import graphs_of, key_of

__all__ = ["OWN_BODIES", "has_body", "with_bodies"]

#: Domain of functions that are made of bodies; gone after inlining.
_DOMAIN = "tilescope.bodies"


#: Bodies of operators that ONNX does not have, by the operator's key.
OWN_BODIES: Mapping[str, Callable[[onnx.NodeProto, int], onnx.FunctionProto]] = {
    "com.microsoft.DynamicQuantizeLSTM": quantised_lstm,
}


def has_body(op_type: str, opset: int) -> bool:
    """Return whether an operator is defined as a function of others."""
    if op_type in OWN_BODIES:
        return True
    if not defs.has(op_type, opset, ""):
        return False
    schema = defs.get_schema(op_type, opset, "")
    # The stubs of onnx leave these two out.
    flags = ("has_function", "has_context_dependent_function")
    return any(getattr(schema, flag) for flag in flags)


def with_bodies(model: onnx.ModelProto, op_types: Collection[str], opset: int) -> onnx.ModelProto:
    """Return a model with every node of some operators replaced by the operator's body.

    Raises
    ------
    BadModel
        When a body does not fit its node.
    """
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    types = _types(model)
    functions: list[onnx.FunctionProto] = []
    for graph in graphs_of(changed.graph):
        for node in graph.node:
            key = key_of(node)
            if key not in op_types:
                continue
            result = OWN_BODIES.get(key)
            body = result(node, opset) if result else _body(node, types, opset)
            body.name, body.domain = f"{node.op_type}{len(functions)}", _DOMAIN
            del node.attribute[:]
            node.op_type, node.domain = body.name, _DOMAIN
            functions.append(body)
    changed.functions.extend(functions)
    changed.opset_import.append(helper.make_opsetid(_DOMAIN, 1))
    try:
        return inliner.inline_local_functions(changed)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[0]
        raise BadModel(f"Functions of {model.graph.name!r} cannot be inlined: {reason}") from None


def _types(model: onnx.ModelProto) -> dict[str, onnx.TypeProto]:
    """Return the types of the values that are known, by name."""
    try:
        inferred = shape_inference.infer_shapes(model)
    except (shape_inference.InferenceError, RuntimeError, ValueError):
        inferred = model
    types = {
        tensor.name: helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
        for tensor in model.graph.initializer
    }
    for graph in graphs_of(inferred.graph):
        for info in (*graph.input, *graph.value_info, *graph.output):
            types[info.name] = info.type
    return types


def _body(node: onnx.NodeProto, types: dict[str, onnx.TypeProto], opset: int) -> onnx.FunctionProto:
    """Return what a node stands for, its attributes filled in.

    Raises
    ------
    BadModel
        When ONNX has no body for the node's operands.
    """
    schema: Any = defs.get_schema(node.op_type, opset, "")  # its stub lacks what follows
    input_types = [types.get(name, onnx.TypeProto()).SerializeToString() for name in node.input]
    function = onnx.FunctionProto()
    try:
        if schema.has_context_dependent_function:
            text = schema.get_context_dependent_function(node.SerializeToString(), input_types)
        else:
            text = schema.get_function_with_opset_version(opset)
    except (AttributeError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise BadModel(
            f"Node {node.name or node.output[0]!r} ({node.op_type}) has no body: {reason}"
        ) from None
    function.ParseFromString(text)
    return _with_attributes(function, node, schema)


def _with_attributes(
    function: onnx.FunctionProto, node: onnx.NodeProto, schema: defs.OpSchema
) -> onnx.FunctionProto:
    """Return a function with references to attributes replaced by the node's or the defaults."""
    values = {attribute.name: attribute for attribute in node.attribute}
    for name, attribute in schema.attributes.items():
        if name not in values and attribute.default_value.type:
            values[name] = attribute.default_value
    for inner in function.node:
        attributes_ = []
        for attribute in inner.attribute:
            if not attribute.ref_attr_name:
                attributes_.append(attribute)
            elif attribute.ref_attr_name in values:
                value = onnx.AttributeProto()
                value.CopyFrom(values[attribute.ref_attr_name])
                value.name = attribute.name
                attributes_.append(value)
        del inner.attribute[:]
        inner.attribute.extend(attributes_)
    del function.attribute[:]
    del function.attribute_proto[:]
    return function
