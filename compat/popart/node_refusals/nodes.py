"""Nodes that PopART refuses by what the engine knows of their operands, in its words.

Source: graphcore/popart, willow/src/op (the messages of its operators).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx

from popart.errors import popart_exception
from tilescope.engine.ir import Node, Parameter, Value

__all__ = ["check_node", "check_trained_nodes"]

_Check = Callable[[onnx.NodeProto, Node], None]

#: Names of element types where they are not numpy's in capitals.
_TYPES = {"float32": "FLOAT", "float64": "DOUBLE"}
_WIDTH = 8  # of the name of a type, in sentences

#: The version of Clip from which inputs are its bounds.
_BOUNDS_ARE_INPUTS = 11
#: The last version of a batch normalisation whose outputs say whether it trains.
_OUTPUTS_SAY = 9
_OUTPUTS_IN_TRAINING = 5
_LEAST_RANK = 3


def check_node(proto: onnx.NodeProto, node: Node) -> None:
    """Refuse a node that PopART refuses.

    Parameters
    ----------
    proto
        As the model has it.
    node
        As the engine has it.

    Raises
    ------
    popart_exception
        In PopART's words.
    """
    check = _CHECKS.get((proto.domain, proto.op_type))
    if check is not None:
        check(proto, node)


def check_trained_nodes(protos: Sequence[onnx.NodeProto]) -> None:
    """Refuse nodes that have no gradient in the form that they have.

    Parameters
    ----------
    protos
        Nodes from which gradients are computed.

    Raises
    ------
    popart_exception
        In PopART's words.
    """
    for proto in protos:
        stated = {a.name for a in proto.attribute}
        if proto.op_type != "BatchNormalization" or "training_mode" in stated:
            continue
        n_outputs = sum(map(bool, proto.output))
        if n_outputs != _OUTPUTS_IN_TRAINING:
            raise popart_exception(
                f'BatchNorm Op "{_name(proto)}" has {n_outputs} output(s) which means it is in'
                " inference mode, but its gradient Op is being created. To use the BatchNorm Op in"
                " inference mode during training, it has to be detached first."
            )


def _opid(proto: onnx.NodeProto, node: Node) -> str:
    return f"{proto.domain or 'ai.onnx'}.{proto.op_type}:{node.version}"


def _name(proto: onnx.NodeProto) -> str:
    return proto.name or proto.output[0]


def _str(proto: onnx.NodeProto, node: Node) -> str:
    return f"{_name(proto)} ({_opid(proto, node)})"


def _list(shape: Sequence[int], separator: str = " ") -> str:
    return f"[{separator.join(map(str, shape))}]"


def _info(value: Value) -> str:
    """Return type and shape as sentences have them."""
    name = _TYPES.get(value.dtype, value.dtype.upper())
    return f"{name:{_WIDTH}}{_list(value.shape)}"


def _broadcast(proto: onnx.NodeProto, node: Node) -> None:
    """Refuse operands whose shapes do not broadcast.

    Raises
    ------
    popart_exception
        Names both shapes.
    """
    if "broadcast" in node.attributes:  # before opset 7, along an axis
        return
    shape: tuple[int, ...] = ()
    for value in filter(None, node.inputs):
        try:
            shape = np.broadcast_shapes(shape, value.shape)
        except ValueError:
            raise popart_exception(
                f"np broadcasting failed on 'Op {_str(proto, node)}', frames"
                f" {_list(shape, ', ')} and {_list(value.shape, ', ')} are not aligned"
            ) from None


def _expand(proto: onnx.NodeProto, node: Node) -> None:
    """Refuse a shape that the operand does not broadcast to.

    Raises
    ------
    popart_exception
        Names both shapes.
    """
    x, sizes = node.operand(0), node.operand(1)
    if not sizes.is_known:
        return
    shape = tuple(int(size) for size in np.ravel(node.known(1, "the shape")))
    try:
        np.broadcast_shapes(x.shape, shape)
    except ValueError:
        raise popart_exception(
            "Expand shape constraint: corresponding dimensions must have the same value or one of"
            f" them must be 1: {_str(proto, node)} takes {_list(x.shape)} to {_list(shape)}"
        ) from None


def _transpose(_: onnx.NodeProto, node: Node) -> None:
    """Refuse an order of other length than the rank.

    Raises
    ------
    popart_exception
        Names the order and the shape.
    """
    order, shape = node.attributes.get("perm", ()), node.operand(0).shape
    if order and len(order) != len(shape):
        raise popart_exception(
            f"Rank of permutation tensor {_list(order)}, rank {len(order)} must be equal to rank of"
            f" input tensor, shape {_list(shape)}, rank {len(shape)}."
        )


def _reverse(proto: onnx.NodeProto, node: Node) -> None:
    """Refuse dimensions from the end, beyond the rank, or named twice.

    Raises
    ------
    popart_exception
        Names the dimension.
    """
    dimensions, rank = list(node.attributes.get("dimensions", ())), len(node.operand(0).shape)
    subject = f"ReverseOp '{_str(proto, node)}'"
    for place, dimension in enumerate(dimensions):
        if dimension < 0:
            raise popart_exception(
                f"{subject} invalid dimension '{dimension}'. Only positive dimensions are supported"
            )
        if dimension >= rank:
            raise popart_exception(
                f"{subject} invalid dimension '{dimension}' for input tensor of rank {rank}"
            )
        if dimension in dimensions[:place]:
            raise popart_exception(
                f"Dimension {dimension} appears multiple times in the list of dimensions of"
                f" {subject}"
            )


def _batch_normalization(_: onnx.NodeProto, node: Node) -> None:
    """Refuse statistics and scales that do not fit the channels.

    Raises
    ------
    popart_exception
        Names the tensor and both shapes.
    """
    shape = node.operand(0).shape
    if len(shape) < _LEAST_RANK:
        raise popart_exception(
            f"batch norm requires X to have a rank >= {_LEAST_RANK}.  x has rank {len(shape)}"
        )
    expected, part = shape[1:2], "dimension 1"
    if node.version < _OUTPUTS_SAY and not node.attributes.get("spatial", 1):
        expected, part = shape[1:], "all but the first dimension"
    for place, name in enumerate(("scale", "B", "mean", "var"), 1):
        own = node.operand(place).shape
        if own != expected:
            raise popart_exception(
                f"expected shape of batch norm input tensor {name} ({_list(own)}) to be"
                f" {_list(expected)} to match {part} of X ({_list(shape)})"
            )


def _clip(proto: onnx.NodeProto, node: Node) -> None:
    """Refuse bounds that are not known when the model is compiled.

    Raises
    ------
    popart_exception
        Names the bound.
    """
    if node.version < _BOUNDS_ARE_INPUTS:
        return
    for place, name in enumerate(("min", "max"), 1):
        bound = node.optional(place)
        if bound is not None and not (bound.is_known or isinstance(bound, Parameter)):
            raise popart_exception(
                f"Op {proto.name}({_opid(proto, node)}), inputs=[{proto.input[0]}] currently only"
                f" supports constant min/max parameters. Input '{name}' ({bound.name}) has no data."
            )


def _nll(proto: onnx.NodeProto, node: Node) -> None:
    """Refuse labels that are no integers of the probabilities' shape without the classes.

    Raises
    ------
    popart_exception
        Names both tensors.
    """
    probabilities, labels = node.operand(0), node.operand(1)
    subject = f"Op {_str(proto, node)}"
    if not probabilities.shape:
        raise popart_exception(
            f"Invalid shape for prob tensor ({_info(probabilities)}) in {subject}. "
        )
    if labels.shape != probabilities.shape[:-1]:
        raise popart_exception(
            f"The label tensor ({_info(labels)}) must have shape {_list(probabilities.shape[:-1])}"
            f" to match all but the final dimension of the probabilities tensor"
            f" ({_info(probabilities)}) in {subject}. "
        )
    if np.dtype(labels.dtype).kind not in "iu":
        raise popart_exception(
            "Expected the label tensor NllOp to be an integer data type (fixed point), not the case"
            f" for input with info: {_info(labels)}. This error for {subject}. "
        )


_GRAPHCORE = "ai.graphcore"
_CHECKS: dict[tuple[str, str], _Check] = {
    **{
        ("", name): _broadcast
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
    ("", "BatchNormalization"): _batch_normalization,
    (_GRAPHCORE, "BatchNormalization"): _batch_normalization,
    ("", "Clip"): _clip,
    ("", "Expand"): _expand,
    (_GRAPHCORE, "Nll"): _nll,
    (_GRAPHCORE, "Reverse"): _reverse,
    ("", "Transpose"): _transpose,
}
