"""Nodes that PopART refuses by what the engine knows of their operands, in its words.

Source: graphcore/popart, willow/src/op (the messages of its operators).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from popart.checked_node import CheckedNode, shown

__all__ = ["RULES"]

_Rule = Callable[[CheckedNode], str | None]
_ONNX, _GRAPHCORE = "ai.onnx", "ai.graphcore"

_WIDTH = 8  # of the name of a type, in sentences
#: The version of Clip from which inputs are its bounds.
_BOUNDS_ARE_INPUTS = 11
#: The version of a batch normalisation from which all its channels are in dimension 1.
_ALL_ARE_SPATIAL = 9
_LEAST_RANK = 3


def _info(node: CheckedNode, place: int) -> str:
    """Return type and shape of an operand as sentences have them."""
    return f"{node.element(place):{_WIDTH}}{shown(node.shape(place) or [])}"


def _broadcast(node: CheckedNode) -> str | None:
    """Refuse operands whose shapes do not broadcast."""
    if "broadcast" in node.settings:  # before opset 7, along an axis
        return None
    total: tuple[int, ...] = ()
    for place in range(len(node.inputs)):
        shape = node.shape(place) or []
        try:
            total = np.broadcast_shapes(total, shape)
        except ValueError:
            return (
                f"np broadcasting failed on 'Op {node.label}', frames {list(total)} and {shape} are"
                " not aligned"
            )
    return None


def _expand(node: CheckedNode) -> str | None:
    """Refuse a shape that the operand does not broadcast to."""
    x, sizes = node.shape(0), node.content(1)
    if x is None or sizes is None:
        return None
    shape = [int(size) for size in np.ravel(sizes)]
    try:
        np.broadcast_shapes(x, shape)
    except ValueError:
        return (
            "Expand shape constraint: corresponding dimensions must have the same value or one of"
            f" them must be 1: {node.label} takes {shown(x)} to {shown(shape)}"
        )
    return None


def _transpose(node: CheckedNode) -> str | None:
    """Refuse an order of other length than the rank."""
    order, shape = list(node.settings.get("perm", ())), node.shape(0)
    if shape is None or not order or len(order) == len(shape):
        return None
    return (
        f"Rank of permutation tensor {shown(order)}, rank {len(order)} must be equal to rank of"
        f" input tensor, shape {shown(shape)}, rank {len(shape)}."
    )


def _reverse(node: CheckedNode) -> str | None:
    """Refuse dimensions from the end, beyond the rank, or named twice."""
    dimensions, rank = list(node.settings.get("dimensions", ())), len(node.shape(0) or ())
    subject = f"ReverseOp '{node.label}'"
    for place, dimension in enumerate(dimensions):
        invalid = f"{subject} invalid dimension '{dimension}'"
        if dimension < 0:
            return f"{invalid}. Only positive dimensions are supported"
        if dimension >= rank:
            return f"{invalid} for input tensor of rank {rank}"
        if dimension in dimensions[:place]:
            return (
                f"Dimension {dimension} appears multiple times in the list of dimensions of"
                f" {subject}"
            )
    return None


def _batch_normalization(node: CheckedNode) -> str | None:
    """Refuse statistics and scales that do not fit the channels."""
    shape = node.shape(0) or []
    if len(shape) < _LEAST_RANK:
        return f"batch norm requires X to have a rank >= {_LEAST_RANK}.  x has rank {len(shape)}"
    expected, part = shape[1:2], "dimension 1"
    if node.version < _ALL_ARE_SPATIAL and not node.settings.get("spatial", 1):
        expected, part = shape[1:], "all but the first dimension"
    for place, name in enumerate(("scale", "B", "mean", "var"), 1):
        own = node.shape(place)
        if own is not None and own != expected:
            return (
                f"expected shape of batch norm input tensor {name} ({shown(own)}) to be"
                f" {shown(expected)} to match {part} of X ({shown(shape)})"
            )
    return None


def _clip(node: CheckedNode) -> str | None:
    """Refuse bounds that are not known when the model is compiled."""
    if node.version < _BOUNDS_ARE_INPUTS:
        return None
    for place, name in enumerate(("min", "max"), 1):
        is_stated = place < len(node.inputs) and bool(node.inputs[place])
        if is_stated and node.content(place) is None and not node.is_weight(place):
            return (
                f"Op {node.proto.name}({node.identifier}), inputs=[{node.inputs[0]}] currently only"
                f" supports constant min/max parameters. Input '{name}' ({node.inputs[place]}) has"
                " no data."
            )
    return None


def _nll(node: CheckedNode) -> str | None:
    """Refuse labels that are no integers of the probabilities' shape without the classes."""
    probabilities, labels = node.shape(0), node.shape(1)
    subject = f"Op {node.label}"
    if not probabilities:
        return f"Invalid shape for prob tensor ({_info(node, 0)}) in {subject}. "
    if labels != probabilities[:-1]:
        return (
            f"The label tensor ({_info(node, 1)}) must have shape {shown(probabilities[:-1])}"
            f" to match all but the final dimension of the probabilities tensor"
            f" ({_info(node, 0)}) in {subject}. "
        )
    if "INT" not in str(node.element(1)):
        return (
            "Expected the label tensor NllOp to be an integer data type (fixed point), not the case"
            f" for input with info: {_info(node, 1)}. This error for {subject}. "
        )
    return None


#: Return what PopART says of a node that the engine takes, or None; by operator.
RULES: dict[tuple[str, str], _Rule] = {
    **{
        (_ONNX, name): _broadcast
        for name in (
            "Add",
            "And",
            "BitShift",
            "Div",
            "Equal",
            "Greater",
            "Less",
            "Max",
            "Mean",
            "Min",
            "Mod",
            "Mul",
            "Or",
            "Pow",
            "Sub",
            "Sum",
            "Where",
            "Xor",
        )
    },
    **{
        (_GRAPHCORE, name): _broadcast
        for name in (
            "Atan2",
            "BitwiseAnd",
            "BitwiseOr",
            "BitwiseXnor",
            "BitwiseXor",
            "Fmod",
            "Remainder",
        )
    },
    (_ONNX, "BatchNormalization"): _batch_normalization,
    (_GRAPHCORE, "BatchNormalization"): _batch_normalization,
    (_ONNX, "Clip"): _clip,
    (_ONNX, "Expand"): _expand,
    (_GRAPHCORE, "Nll"): _nll,
    (_GRAPHCORE, "Reverse"): _reverse,
    (_ONNX, "Transpose"): _transpose,
}
