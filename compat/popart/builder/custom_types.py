"""Types of the outputs of operators that a program registers itself."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from popart.builder.tensor import array_of
from popart.builder.types import Types, shape_of_type
from tilescope.engine.errors import EngineError
from tilescope.engine.ir import Constant, Node, Value
from tilescope.engine.ir.builder import results_of
from tilescope.engine.ir.registered import REGISTERED
from tilescope.engine.ir.standard import attributes_of, version_of
from tilescope.engine.operators.onnx_standard import attribute_value

__all__ = ["custom_types", "is_own_domain"]

#: Domains of ONNX's operators, and of PopART's.
_STANDARD = frozenset({"", "ai.onnx", "ai.onnx.ml", "ai.graphcore"})


def is_own_domain(domain: str) -> bool:
    """Return whether the operators of a domain are a program's own."""
    return domain not in _STANDARD


def custom_types(node: onnx.NodeProto, types: Types, opset: int) -> dict[str, onnx.TypeProto]:
    """Return the types that an operator infers, of outputs by name.

    There are none where it is not registered, a type is not known, or it refuses the node, which a
    session then refuses.

    Parameters
    ----------
    node
        A node of a domain of the program's own.
    types
        Types and contents of the tensors that it may read.
    opset
        Version of its domain.
    """
    operator = REGISTERED.get(f"{node.domain}.{node.op_type}")
    inputs = [_value(name, types) if name else None for name in node.input]
    if operator is None or any(
        value is None for name, value in zip(node.input, inputs, strict=True) if name
    ):
        return {}
    where = f"Node {node.name!r} ({operator.key})"
    stated = {a.name: attribute_value(a) for a in node.attribute if not a.name.startswith("__")}
    try:
        version = version_of(operator, opset)
        results = results_of(
            Node(
                operator=operator,
                name=node.name or node.output[0],
                source=operator.key,
                inputs=tuple(inputs),
                attributes=attributes_of(operator, version, where, stated),
                version=version,
                n_outputs=len(node.output),
            ),
            node.output,
        )
    except EngineError:
        return {}
    return {
        name: helper.make_tensor_type_proto(
            helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype)), value.shape
        )
        for name, value in zip(node.output, results, strict=True)
        if value is not None
    }


def _value(name: str, types: Types) -> Value | None:
    """Return a tensor as the engine has it; None where its type is not known."""
    of, content = types.type_of(name), types.content_of(name)
    shape = shape_of_type(of)
    if of is None or shape is None or not of.tensor_type.elem_type:
        return None
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(of.tensor_type.elem_type)).name
    if content is not None:
        return Constant(name, tuple(shape), dtype, array_of(content))
    return Value(name, tuple(shape), dtype)
