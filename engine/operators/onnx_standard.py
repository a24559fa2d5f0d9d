"""ONNX, the operators' standard: versions, attributes with defaults, types, reference values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import defs, helper, numpy_helper, shape_inference

from tilescope.engine.errors import BadModel
from tilescope.engine.ir.operation import Node, ResultType

__all__ = ["OnnxStandard", "attribute_value", "version_of", "with_defaults"]

#: Larger inputs do not decide a shape, and take time to hand over.
_MOST_ELEMENTS = 1024
#: Attributes that name the type of a result.
_TYPE_ATTRIBUTES = ("to", "dtype", "output_dtype", "output_datatype")


class OnnxStandard:
    """ONNX as the standard of the operators (`tilescope.engine.ir.standard.Standard`)."""

    def version(self, op_type: str, domain: str, opset: int | None) -> int:
        """Return the version of an operator's schema in an opset, or in the newest."""
        return version_of(op_type, domain, opset)

    def with_defaults(
        self, op_type: str, domain: str, version: int, attributes: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return attributes together with the schema's defaults of those left out."""
        return with_defaults(op_type, domain, version, attributes)

    def infer(self, node: Node) -> tuple[ResultType, ...]:
        """Return the types of a node's results by the schema's own inference."""
        return _infer(node)

    def evaluate(
        self, node: Node, arrays: Sequence[NDArray[Any] | None]
    ) -> tuple[NDArray[Any], ...]:
        """Return a node's results by ONNX's reference implementation."""
        return _evaluate(node, arrays)

    def takes_half(self, node: Node, index: int) -> bool:
        """Return whether an operand may be half by its schema; where there is none, it may."""
        return _takes_half(node.operator.name, node.operator.domain, node.version, index)

    def half_attributes(self, node: Node) -> Mapping[str, Any]:
        """Return the attributes with half where they name float as the type of a result."""
        named = {
            name: onnx.TensorProto.FLOAT16
            for name in _TYPE_ATTRIBUTES
            if node.attributes.get(name) == onnx.TensorProto.FLOAT
        }
        return {**node.attributes, **named}


@cache
def _takes_half(name: str, domain: str, version: int, index: int) -> bool:
    if not defs.has(name, version, domain):
        return True
    inputs = defs.get_schema(name, version, domain).inputs
    if not inputs:
        return True
    return "tensor(float16)" in inputs[min(index, len(inputs) - 1)].types


def attribute_value(attribute: onnx.AttributeProto) -> Any:
    """Return an attribute as a Python value: text, number, tuple or ndarray."""
    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if attribute.type in (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS):
        return tuple(value)
    return value


@cache
def version_of(op_type: str, domain: str, opset: int | None = None) -> int:
    """Return the version of an operator's schema in an opset; in the newest if none is given."""
    newest = defs.onnx_opset_version() if domain == "" else 1
    opset = newest if opset is None else opset
    if not defs.has(op_type, opset, domain):
        return opset
    return int(defs.get_schema(op_type, opset, domain).since_version)


def with_defaults(
    op_type: str, domain: str, version: int, attributes: Mapping[str, Any]
) -> dict[str, Any]:
    """Return attributes together with the schema's defaults of those left out."""
    return {**_defaults(op_type, domain, version), **attributes}


@cache
def _defaults(op_type: str, domain: str, version: int) -> Mapping[str, Any]:
    """Return the attributes of a schema that have a default, with it."""
    if not defs.has(op_type, version, domain):
        return {}
    defaults = {}
    for name, attribute in defs.get_schema(op_type, version, domain).attributes.items():
        if attribute.default_value.type:
            value = attribute_value(attribute.default_value)
            # The schema holds floats of 32 bits: 1e-5 is the nearest short decimal.
            defaults[name] = float(f"{value:.7g}") if isinstance(value, float) else value
    return defaults


@cache
def _declared(op_type: str, domain: str, version: int, index: int, dtype: str) -> str:
    """Return the type that the inference sees of an operand.

    That is int64 for positions and sizes of other integers, and float for half, where ONNX has only
    these: on the machine they are the same, or the operator takes both. It is float for integers
    that a later version of the operator takes, too.
    """
    inputs = defs.get_schema(op_type, version, domain).inputs
    if not inputs:
        return dtype
    allowed = inputs[min(index, len(inputs) - 1)].types
    is_listed = f"tensor({dtype})" in allowed
    if dtype in ("int32", "uint32") and not is_listed and "tensor(int64)" in allowed:
        return "int64"
    if not is_listed and "tensor(float)" in allowed and _takes_later(op_type, domain, index, dtype):
        return "float32"
    if dtype == "float16" and "tensor(float16)" not in allowed:
        return "float32" if "tensor(float)" in allowed else dtype
    return dtype


@cache
def _takes_later(op_type: str, domain: str, index: int, dtype: str) -> bool:
    """Return whether the newest version of an operator takes an operand of a type."""
    inputs = defs.get_schema(op_type, domain=domain).inputs
    return bool(inputs) and f"tensor({dtype})" in inputs[min(index, len(inputs) - 1)].types


def _infer(node: Node) -> tuple[ResultType, ...]:
    """Return the types of a node's results by the schema's own inference.

    Raises
    ------
    BadModel
        When the operands break the schema, or a shape depends on data.
    """
    proto = _proto(node)
    schema = defs.get_schema(node.operator.name, node.version, node.operator.domain)
    types, data, narrow = {}, {}, ""
    for index, (name, value) in enumerate(zip(proto.input, node.inputs, strict=True)):
        if value is None:
            continue
        dtype = _declared(schema.name, schema.domain, node.version, index, value.dtype)
        if dtype == "float32" != value.dtype:
            narrow = value.dtype
        element_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        types[name] = helper.make_tensor_type_proto(element_type, value.shape)
        if value.known is not None and value.known.size <= _MOST_ELEMENTS:
            data[name] = numpy_helper.from_array(np.asarray(value.known).astype(dtype), name)
    try:
        inferred = shape_inference.infer_node_outputs(schema, proto, types, data)
    except (shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise BadModel(f"{node} does not fit its operands: {reason}") from None
    results = []
    for name in proto.output:
        tensor = inferred[name].tensor_type if name in inferred else onnx.TypeProto.Tensor()
        if not tensor.HasField("shape") or not all(
            dim.HasField("dim_value") for dim in tensor.shape.dim
        ):
            raise BadModel(f"{node}: the shape of its result depends on data, not supported yet")
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type)).name
        dtype = narrow if narrow and dtype == "float32" else dtype
        results.append((tuple(int(dim.dim_value) for dim in tensor.shape.dim), dtype))
    return tuple(results)


def _evaluate(node: Node, arrays: Sequence[NDArray[Any] | None]) -> tuple[NDArray[Any], ...]:
    """Return a node's results by ONNX's reference implementation."""
    # Most models need none of it, and its operators take longer to import than all others.
    from onnx.reference import ReferenceEvaluator

    proto = _proto(node)
    opsets = [helper.make_opsetid(node.operator.domain, node.version)]
    feeds = {
        name: np.asarray(array)
        for name, array in zip(proto.input, arrays, strict=True)
        if array is not None
    }
    reference = ReferenceEvaluator(
        helper.make_model(
            helper.make_graph(
                [proto],
                "one",
                [onnx.ValueInfoProto(name=name) for name in feeds],
                [onnx.ValueInfoProto(name=name) for name in proto.output],
            ),
            opset_imports=opsets,
        )
    )
    return tuple(np.asarray(array) for array in reference.run(None, feeds))


def _proto(node: Node) -> onnx.NodeProto:
    """Return the node as ONNX has it, inputs and results called by their position."""
    operator = node.operator
    schema = defs.get_schema(operator.name, node.version, operator.domain)
    names = ["" if value is None else f"in{i}" for i, value in enumerate(node.inputs)]
    return helper.make_node(
        operator.name,
        names,
        [f"out{i}" for i in range(max(schema.min_output, node.n_outputs))],
        domain=operator.domain,
        **{
            name: numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
            for name, value in node.attributes.items()
            if name in schema.attributes
        },
    )
