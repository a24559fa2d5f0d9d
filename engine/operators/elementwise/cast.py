"""Changes of the number type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper

from tilescope.engine.errors import BadModel
from tilescope.engine.graph import Tensor, dtype_of
from tilescope.engine.ir import (
    ENGINE_DOMAIN,
    Expansion,
    NarrowConstant,
    Node,
    Operation,
    Operator,
    Parameter,
    Value,
)
from tilescope.engine.library.popops.elementwise.bit_cast import bit_cast
from tilescope.engine.library.popops.elementwise.operations import cast
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.carried import elementwise
from tilescope.engine.operators.parts import broadcast

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


def _lower_cast(lowering: Lowering, op: Operation) -> Tensor:
    x = lowering.tensor(op.operand(0))
    dtype = dtype_of(op.output.dtype)
    return x if x.dtype == dtype else cast(lowering.builder, x, dtype)


def _cast_gradient(
    op: Operation, expansion: Expansion, gradients: Sequence[Value | None]
) -> Sequence[Value | None]:
    (gradient,), x = gradients, op.operand(0)
    assert gradient is not None
    return [expansion.emit(CAST, gradient, dtype=x.dtype) if x.dtype.startswith("float") else None]


CAST = Operator(
    name="cast",
    domain=ENGINE_DOMAIN,
    infer=lambda node: [(node.operand(0).shape, node.attributes["dtype"])],
    evaluate=_cast_array,
    lower=_lower_cast,
    gradient=_cast_gradient,
    parts=broadcast,
)


def _cast(node: Node, expansion: Expansion) -> Value:
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
    if isinstance(x, Parameter) and x.known is not None and _is_widened(x.dtype, dtype):
        return NarrowConstant(x.name, x.shape, dtype, x.known.astype(dtype), x.dtype)
    if x.known is None and x.dtype == dtype and node.attributes["to"] != TensorProto.BFLOAT16:
        return x
    return expansion.emit(CAST, x, dtype=dtype)


def _is_widened(dtype: str, to: str) -> bool:
    """Whether a weight is in float8 and the model widens it: to fold it would double its memory."""
    return dtype.startswith("float8") and to in ("float16", "float32")


def _cast_like(node: Node, expansion: Expansion) -> Value:
    x, dtype = node.operand(0), node.operand(1).dtype
    return x if x.dtype == dtype else expansion.emit(CAST, x, dtype=dtype)


def _bit_cast_types(node: Node) -> list[tuple[tuple[int, ...], str]]:
    """Return the type of the result, which has as many bits as the operand's.

    Raises
    ------
    BadModel
        When it has not, or the device stores either in another way.
    """
    x = node.operand(0)
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(node.attributes["to"]))
    kinds = (np.dtype(x.dtype), dtype)
    is_held = x.known is not None or all(
        kind.itemsize < 8 and (kind.kind in "iub" or kind == np.float32) for kind in kinds
    )
    if kinds[0].itemsize != dtype.itemsize or not is_held:
        raise BadModel(
            f"{node} takes {x.dtype} as {dtype.name}: expected types of one size, float32 or"
            " integers of at most 32 bits"
        )
    return [(x.shape, dtype.name)]


def _bit_cast_array(node: Node, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    x = np.ascontiguousarray(arrays[0])
    dtype = helper.tensor_dtype_to_np_dtype(node.attributes["to"])
    return [x.reshape(-1).view(dtype).reshape(arrays[0].shape)]


RECORDS = (
    CAST,
    Operator(
        name="BitCast",
        infer=_bit_cast_types,
        evaluate=_bit_cast_array,
        lower=lambda offset, op: bit_cast(
            offset.builder, offset.tensor(op.operand(0)), op.output.dtype
        ),
        carries=elementwise,
        parts=broadcast,
        no_gradient="it takes bits as they are",
    ),
    Operator(name="Cast", decompose=_cast, carries=elementwise),
    Operator(name="CastLike", decompose=_cast_like),
)
