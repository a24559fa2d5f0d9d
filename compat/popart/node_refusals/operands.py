"""Operands that do not fit, in the words by which PopART refuses them.

Source: graphcore/popart sdk-release-3.4, willow/src/op, willow/src/tensorinfo.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from popart.checked_node import CheckedNode, shown
from popart.node_refusals.quotation import UNKNOWN_CONTENT

__all__ = ["RULES", "SILENT_RULES"]

_Rule = Callable[[CheckedNode], str | None]
_ONNX, _GRAPHCORE = "ai.onnx", "ai.graphcore"

#: Operators of two operands of one type, which broadcast.
_BINARY = {
    _ONNX: ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor"),
    _GRAPHCORE: ("Atan2", "BitwiseAnd", "BitwiseOr", "BitwiseXnor", "BitwiseXor", "Fmod"),
}
#: The version of operators of many operands that takes them of one shape.
_OF_ONE_SHAPE = 6


def _matmul(node: CheckedNode) -> str | None:
    left, right = node.shape(0), node.shape(1)
    if left is None or right is None:
        return None
    for shape, name, side in zip((left, right), node.inputs, ("lhs", "rhs"), strict=True):
        if not shape:
            return f"{node.debug_name} doesn't support scalar tensor {name} as the {side} input"
    if left[-1] == right[-2 if len(right) > 1 else 0]:
        return None
    return (
        f"{node.debug_name} contracting dimensions unequal: lhs '{node.inputs[0]}' {shown(left)},"
        f" rhs '{node.inputs[1]}' {shown(right)}"
    )


def _binary(node: CheckedNode) -> str | None:
    elements, left, right = (node.element(0), node.element(1)), node.shape(0), node.shape(1)
    if None in elements or left is None or right is None or elements[0] == elements[1]:
        return None
    return (
        f"np broadcasting failed on {node.debug_name}, incompatible types {elements[0]} and"
        f" {elements[1]} (shapes {shown(left)} and {shown(right)})"
    )


def _of_one_shape(node: CheckedNode) -> str | None:
    if node.version != _OF_ONE_SHAPE:
        return None
    kinds = {(node.element(i), str(node.shape(i))) for i in range(len(node.inputs))}
    if len(kinds) < 2:
        return None
    return (
        f"Inputs to {node.identifier} do not all the same type & shape, with opid.version ="
        f" {_OF_ONE_SHAPE}"
    )


def _reshape(node: CheckedNode) -> str | None:
    sizes, shape = node.settings.get("shape"), node.shape(0)
    if sizes is None and len(node.inputs) > 1:
        content = node.content(1)
        if content is None:
            return _unknown(node, 1, "shape")
        sizes = content.reshape(-1).tolist()
    if sizes is None or shape is None:
        return None
    smallest = min(sizes, default=0)
    if smallest < -1:
        return f"Dimension, {smallest}, of new shape for Reshape cannot be smaller than -1."
    if list(sizes).count(-1) > 1:
        return "shape input to ReshapeOp can only use -1 to specify one unknown dimension"
    known = prod(n or shape[d] for d, n in enumerate(sizes) if n > 0 or (d < len(shape) and n == 0))
    if -1 in sizes and known and prod(shape) % known:
        return "Incompatible inferred dimension, not whole number."
    return None


def _unknown(node: CheckedNode, place: int, name: str) -> str | None:
    if not node.is_given(place):
        return None
    return UNKNOWN_CONTENT.format(identifier=node.identifier, name=name, tensor=node.inputs[place])


def _resize(node: CheckedNode) -> str | None:
    if len(node.inputs) < 4 or not all(node.inputs[2:]):
        return None
    shapes = node.shape(2), node.shape(3)
    if None in shapes or not all(prod(shape or ()) for shape in shapes):
        return None
    return (
        "Resize op has inputs for `sizes` and `scales`. Only one of these tensors should be"
        " present. If `sizes` is needed, please pass an empty string as the name of `scales` in the"
        " input list ( resize([X, roi, '', sizes]) ). If the proto is not generated from the PopART"
        " Builder, please confirm that only one of the two tensors shall have data."
    )


def _slice(node: CheckedNode) -> str | None:
    names = ("starts", "ends", "axes", "steps")
    reasons = (_unknown(node, place, name) for place, name in enumerate(names, 1))
    return next((reason for reason in reasons if reason is not None), None)


def _tile(node: CheckedNode) -> str | None:
    name = node.inputs[1] if len(node.inputs) > 1 else ""
    content, shape = node.content(1), node.shape(0)
    if content is None:
        is_given = node.is_given(1)
        return f"The 'Repeats' Tensor `{name}' must be of type Constant" if is_given else None
    if content.ndim != 1:
        return f"'Repeats' tensor `{name}' should be rank 1 in TileOp constructor"
    if shape is not None and len(content) != len(shape):
        return (
            f"'Repeats' tensor `{name}' should have one element for each dimension of the data"
            " tensor"
        )
    if shape is not None and content.min(initial=0) < 0:
        sizes = [n * k for n, k in zip(shape, content.tolist(), strict=True)]
        return (
            f"Output '{node.proto.output[0]}' of node '{node.proto.name or 'Tile'}' has invalid"
            f" shape, {shown(sizes)}. Values must be non-negative in each shape dimension."
        )
    return None


def _shaped_dropout(node: CheckedNode) -> str | None:
    shape, stated = node.shape(0), list(node.settings.get("shape", ()))
    if shape is None:
        return None
    pairs = zip(reversed(stated), reversed(shape), strict=False)
    if len(stated) <= len(shape) and all(n in (1, size) for n, size in pairs):
        return None
    return (
        "ShapedDropout: incompatible input tensor and dropout shape."
        f" {node.identifier} is configured with shape {shown(stated)} which is not broadcastable to"
        f" the input tensor with shape {shown(shape)}."
    )


def _scatter_reduce(node: CheckedNode) -> str | None:
    size, n_groups = node.settings.get("axis_size", 0), node.settings.get("group_size", 1)
    if size < 1:
        return f"ScatterReduceOp axis_size = {size} is not valid: must be > 0."
    if n_groups < 1:
        return f"ScatterReduceOp group_size = {n_groups} is not valid: must be > 0."
    data, indices = node.shape(0), node.shape(1)
    if data is None or indices is None:
        return None
    rank, axis = len(data), node.settings.get("axis", -1)
    if not -rank <= axis < rank:
        return (
            f"ScatterReduceOp::setup axis = {axis} is outside the acceptable range"
            f" [{-rank}, {rank - 1}]"
        )
    reason = _spread_indices(data, indices, axis % rank, n_before=int(n_groups > 1))
    is_spread = node.settings.get("enable_index_broadcast", 1)
    return reason if is_spread or reason != _PARTIAL else None


#: What PopART says of indices that stand for some, but not all, of the elements beside the axis.
_PARTIAL = "Partial broadcasting of indices is not currently supported."


def _spread_indices(data: list[int], indices: list[int], axis: int, n_before: int) -> str | None:
    rank = len(data)
    if len(indices) > rank:
        return (
            f"Invalid rank for indices input. Indices rank {len(indices)} must be <= data input"
            f" rank {rank}."
        )
    spread = list(indices)
    if len(indices) - n_before == 1:
        spread[n_before:n_before] = [1] * (axis - n_before)
    spread += [1] * (rank - len(spread))
    if any(n > size for n, size in zip(spread, data, strict=True)):
        return (
            f"Failed to expand 'indices' shape {shown(indices)} to match 'src' shape {shown(data)}"
            f" using reduction axis = {axis}."
        )
    if [d for d in range(n_before, rank) if spread[d] > 1] != [axis] and spread != data:
        return _PARTIAL
    return None


#: Return what PopART says of a node's operands, or None; by domain and name of the operator.
RULES: dict[tuple[str, str], _Rule] = {
    **{(domain, name): _binary for domain, names in _BINARY.items() for name in names},
    (_ONNX, "MatMul"): _matmul,
    (_ONNX, "Reshape"): _reshape,
    (_ONNX, "Resize"): _resize,
    (_ONNX, "Slice"): _slice,
    (_ONNX, "Tile"): _tile,
}

#: Rules for what the engine takes: operands that later versions broadcast, indices that stand for
#: some rows, and a dropout that drops nothing.
SILENT_RULES: dict[tuple[str, str], _Rule] = {
    **{(_ONNX, name): _of_one_shape for name in ("Max", "Mean", "Min", "Sum")},
    (_GRAPHCORE, "ScatterReduce"): _scatter_reduce,
    (_GRAPHCORE, "ShapedDropout"): _shaped_dropout,
}
