"""Changes of the number type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper

from tilescope.engine.errors import BadModel
from tilescope.engine.graph import Tensor, dtype_of
from tilescope.engine.ir import ENGINE_DOMAIN, Expansion, Node, Operation, Operator, Value
from tilescope.engine.library.elementwise import cast
from tilescope.engine.lower import Lowering

__all__ = ["CAST", "RECORDS"]


def _cast_array(node: Node, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Return the values in another type; what is too large for float8 becomes its largest."""
    x, dtype = arrays[0], node.attributes["dtype"]
    if dtype.startswith("float8"):
        grid = dtype_of(dtype).grid
        assert grid is not None
        x = grid.rounded(x)
    with np.errstate(invalid="ignore"):  # what no integer holds becomes whatever the processor has
        return [x.astype(dtype)]


def _lower_cast(at: Lowering, op: Operation) -> Tensor:
    x = at.tensor(op.operand(0))
    dtype = dtype_of(op.output.dtype)
    return x if x.dtype == dtype else cast(at.builder, x, dtype)


CAST = Operator(
    name="cast",
    domain=ENGINE_DOMAIN,
    infer=lambda node: [(node.operand(0).shape, node.attributes["dtype"])],
    evaluate=_cast_array,
    lower=_lower_cast,
)


def _cast(node: Node, into: Expansion) -> Value:
    x = node.operand(0)
    try:
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(node.attributes["to"])).name
    except KeyError:
        raise BadModel(
            f"{node} casts to element type {node.attributes['to']}, which ONNX does not define"
        ) from None
    if dtype.startswith("float8") and not node.attributes.get("saturate", 1):
        raise BadModel(
            f"{node} casts to {dtype} without saturation; the machine saturates: set saturate to 1"
        )
    is_same = x.dtype == dtype or {x.dtype, dtype} <= {"float32", "float64"}
    if x.known is None and is_same and node.attributes["to"] != TensorProto.BFLOAT16:
        return x
    return into.emit(CAST, x, dtype=dtype)


def _cast_like(node: Node, into: Expansion) -> Value:
    x, dtype = node.operand(0), node.operand(1).dtype
    return x if x.dtype == dtype else into.emit(CAST, x, dtype=dtype)


RECORDS = (
    CAST,
    Operator(name="Cast", decompose=_cast),
    Operator(name="CastLike", decompose=_cast_like),
)
