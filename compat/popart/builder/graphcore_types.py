"""Types of the outputs of the operators of ``ai.graphcore``.

Source: graphcore/popart, willow/src/defs.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import onnx

from popart.tensor_info import DataType, onnx_element_type

__all__ = ["output_types"]

#: Operand of a dynamic slice that it is written to.
_PLACE_OF_TARGET = 2

_INT32, _UINT32 = onnx.TensorProto.INT32, onnx.TensorProto.UINT32
#: A type: number of the elements' type, shape.
_Type = tuple[int, tuple[int, ...]]
_Inputs = Sequence[_Type | None]
_Settings = Mapping[str, Any]
_Rule = Callable[[_Inputs, _Settings], list[_Type]]


class _Unknown(Exception):
    """An input whose type is needed is not known."""


def output_types(
    node: onnx.NodeProto, type_of: Callable[[str], onnx.TypeProto | None]
) -> dict[str, onnx.TypeProto]:
    """Return the types of a node's outputs that are known, by name.

    Parameters
    ----------
    node
        Of ``ai.graphcore``.
    type_of
        Type of a tensor by its name; None if it is not known.
    """
    if node.op_type in _OF_BODIES:
        return _OF_BODIES[node.op_type](node)
    rule = _RULES.get(node.op_type)
    if rule is None:
        return {}
    inputs = [_plain(type_of(name)) if name else None for name in node.input]
    settings = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    try:
        types = rule(_Known(inputs), settings)
    except (_Unknown, IndexError, ValueError, ZeroDivisionError):
        return {}  # a session refuses what is inconsistent
    return {
        name: onnx.helper.make_tensor_type_proto(element, shape)
        for name, (element, shape) in zip(node.output, types, strict=False)
    }


class _Known(list[_Type | None]):
    """Inputs of which those that are asked for have to be known."""

    def __getitem__(self, place: Any) -> Any:
        entry = super().__getitem__(place)
        if entry is None:
            raise _Unknown
        return entry


def _plain(of: onnx.TypeProto | None) -> _Type | None:
    if of is None or not of.tensor_type.HasField("shape"):
        return None
    dimensions = of.tensor_type.shape.dim
    if any(not dimension.HasField("dim_value") for dimension in dimensions):
        return None
    return of.tensor_type.elem_type, tuple(dimension.dim_value for dimension in dimensions)


def _call(node: onnx.NodeProto) -> dict[str, onnx.TypeProto]:
    """Return the types of the outputs of the graph that is called."""
    callee = next(a.g for a in node.attribute if a.name == "callee")
    return {
        name: value.type
        for name, value in zip(node.output, callee.output, strict=False)
        if value.type.tensor_type.elem_type
    }


def _packed(node: onnx.NodeProto) -> dict[str, onnx.TypeProto]:
    """Return the type of rows that a callback makes, behind one another."""
    settings = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    found = _plain(settings["callback"].output[0].type)
    if found is None or not found[0]:
        return {}
    shape = (settings["resultSize"], *found[1][2:])
    return {node.output[0]: onnx.helper.make_tensor_type_proto(found[0], shape)}


_OF_BODIES = {"Call": _call, "PackedDataBlock": _packed}


def _like(place: int) -> _Rule:
    return lambda inputs, _: [inputs[place]]  # type: ignore[list-item]


def _broadcast(inputs: Any, _: _Settings) -> list[_Type]:
    (element, left), (_, right) = inputs[0], inputs[1]
    return [(element, tuple(np.broadcast_shapes(left, right)))]


def _loss(inputs: Any, settings: _Settings, place: int = 0) -> list[_Type]:
    is_reduced = settings.get("reduction", b"Mean") != b"None"
    return [(inputs[0][0], () if is_reduced else inputs[place][1])]


def _ctc(inputs: Any, settings: _Settings) -> list[_Type]:
    element, shape = inputs[0]
    element = settings.get("outDataType", 0) or element
    is_reduced = settings.get("reduction", b"Mean") != b"None"
    return [(element, () if is_reduced else shape[1:2]), (element, shape)]


def _subsample(inputs: Any, settings: _Settings) -> list[_Type]:
    element, shape = inputs[0]
    strides = settings["strides"]
    return [(element, tuple(size // step for size, step in zip(shape, strides, strict=True)))]


def _group_normalization(inputs: Any, settings: _Settings) -> list[_Type]:
    element, shape = inputs[0]
    statistics = (element, (shape[0] * settings["num_groups"],))
    return [(element, shape), statistics, statistics]


def _batch_normalization(inputs: Any, _: _Settings) -> list[_Type]:
    return [inputs[place] for place in (0, 3, 4, 3, 4)]


def _lstm(inputs: Any, settings: _Settings) -> list[_Type]:
    (element, (n_steps, batch, _)), (_, weights) = inputs[0], inputs[1]
    states = (batch, weights[2])
    is_full = settings.get("output_full_sequence", 1) != 0
    return [(element, (n_steps, *states) if is_full else states), (element, states)]


def _init(_: _Inputs, settings: _Settings) -> list[_Type]:
    element = onnx_element_type(DataType(settings["data_type"]))
    return [(element, tuple(settings["shape"]))]


def _dynamic_slice(inputs: Any, settings: _Settings) -> list[_Type]:
    element, shape = inputs[0]
    if len(inputs) > _PLACE_OF_TARGET:
        return [inputs[_PLACE_OF_TARGET]]
    sizes = list(shape)
    for axis, size in zip(settings["axes"], settings["sizes"], strict=True):
        sizes[axis] = size
    return [(element, tuple(sizes))]


def _depth_to_space(inputs: Any, settings: _Settings) -> list[_Type]:
    element, (batch, channels, height, width) = inputs[0]
    block = settings["blocksize"]
    return [(element, (batch, channels // block**2, height * block, width * block))]


def _normalize_image(inputs: Any, _: _Settings) -> list[_Type]:
    element, shape = inputs[1][0], inputs[0][1]
    return [(element, (*shape[:-1], shape[-1] + 1))]


def _reshape(inputs: Any, settings: _Settings) -> list[_Type]:
    element, shape = inputs[0]
    sizes = [shape[axis] if size == 0 else size for axis, size in enumerate(settings["shape"])]
    if -1 in sizes:
        sizes[sizes.index(-1)] = prod(shape) // -prod(sizes)
    return [(element, tuple(sizes))]


def _slice(inputs: Any, settings: _Settings) -> list[_Type]:
    element, shape = inputs[0]
    sizes = list(shape)
    starts, ends = settings["starts"], settings["ends"]
    for axis, start, end in zip(
        settings.get("axes", range(len(starts))), starts, ends, strict=True
    ):
        sizes[axis] = len(range(*slice(start, end).indices(shape[axis])))
    return [(element, tuple(sizes))]


def _bucketize(inputs: Any, _: _Settings) -> list[_Type]:
    return [(_INT32, inputs[0][1])]


def _sort(inputs: Any, _: _Settings) -> list[_Type]:
    return [inputs[0], (_INT32, inputs[0][1])]


def _reduce_median(inputs: Any, settings: _Settings) -> list[_Type]:
    element, shape = inputs[0]
    rank = len(shape)
    axes = {axis % rank for axis in settings.get("axes", range(rank))}
    is_kept = settings.get("keepdims", 1) != 0
    sizes = tuple(
        1 if axis in axes else size
        for axis, size in enumerate(shape)
        if is_kept or axis not in axes
    )
    return [(element, sizes), (_INT32, sizes)]


def _scatter_reduce(inputs: Any, settings: _Settings) -> list[_Type]:
    element, shape = inputs[0]
    if len(inputs) == 3:
        return [(element, inputs[2][1])]
    axis = settings["axis"] % len(shape)
    return [(element, (*shape[:axis], settings["axis_size"], *shape[axis + 1 :]))]


def _grouped_gather(inputs: Any, settings: _Settings) -> list[_Type]:
    (element, shape), (_, indices) = inputs[0], inputs[1]
    axis = settings["axis"] % len(shape)
    return [(element, (*shape[:axis], *indices[1:], *shape[axis + 1 :]))]


def _spline_basis(inputs: Any, settings: _Settings) -> list[_Type]:
    element, (n_edges, n_dimensions) = inputs[0]
    shape = (n_edges, (1 + settings.get("degree", 1)) ** n_dimensions)
    return [(element, shape), (_INT32, shape)]


def _spline_weighting(inputs: Any, _: _Settings) -> list[_Type]:
    element, shape = inputs[0]
    return [(element, (shape[0], inputs[1][1][2]))]


def _ctc_beam_search(inputs: Any, settings: _Settings) -> list[_Type]:
    element, (n_steps, batch, _) = inputs[0]
    paths = (batch, settings["top_paths"])
    return [(element, paths), (_UINT32, paths), (_UINT32, (*paths, n_steps))]


def _multi_conv(inputs: Any, settings: _Settings) -> list[_Type]:
    n_convolutions = settings["numConvs"]
    ranks = [len(inputs[3 * place][1]) - 2 for place in range(n_convolutions)]

    def parts(name: str, default: int, width: int = 1) -> list[list[int]]:
        flat = list(settings.get(name, [default] * (width * sum(ranks))))
        found = []
        for rank in ranks:
            found.append(flat[: width * rank])
            del flat[: width * rank]
        return found

    strides, dilations, stretches = (
        parts(name, 1) for name in ("strides", "dilations", "inDilations")
    )
    pads, trims = parts("pads", 0, 2), parts("outPads", 0, 2)
    types: list[_Type] = []
    for place, rank in enumerate(ranks):
        (element, data), (_, weights) = inputs[3 * place], inputs[3 * place + 1]
        sizes = []
        for axis in range(rank):
            extent = (data[2 + axis] - 1) * stretches[place][axis] + 1
            extent += pads[place][axis] + pads[place][axis + rank]
            window = (weights[2 + axis] - 1) * dilations[place][axis] + 1
            size = (extent - window) // strides[place][axis] + 1
            sizes.append(size + trims[place][axis] + trims[place][axis + rank])
        types.append((element, (data[0], weights[0], *sizes)))
    return types


_RULES: dict[str, Any] = {
    **dict.fromkeys(
        (
            "CopyVarUpdate",
            "BitwiseNot",
            "Detach",
            "DynamicAdd",
            "DynamicUpdate",
            "DynamicZero",
            "Expm1",
            "Gelu",
            "GeluErf",
            "IncrementMod",
            "Log1p",
            "NearbyInt",
            "Nop",
            "PrintTensor",
            "ReplicatedAllReduce",
            "Reverse",
            "Round",
            "Scale",
            "ShapedDropout",
            "Swish",
            "TensorRemap",
        ),
        _like(0),
    ),
    "SequenceSlice": _like(1),
    **dict.fromkeys(
        (
            "Atan2",
            "BitwiseAnd",
            "BitwiseOr",
            "BitwiseXnor",
            "BitwiseXor",
            "Fmod",
            "Remainder",
            "ScaledAdd",
        ),
        _broadcast,
    ),
    "BatchNormalization": _batch_normalization,
    "Bucketize": _bucketize,
    "Ctc": _ctc,
    "CtcBeamSearchDecoder": _ctc_beam_search,
    "DepthToSpace": _depth_to_space,
    "DynamicSlice": _dynamic_slice,
    "GroupNormalization": _group_normalization,
    "GroupedGather": _grouped_gather,
    "IdentityLoss": _loss,
    "Init": _init,
    "L1": _loss,
    "LSTM": _lstm,
    "MultiConv": _multi_conv,
    "Nll": lambda inputs, settings: _loss(inputs, settings, 1),
    "NormalizeImage": _normalize_image,
    "ReduceMedian": _reduce_median,
    "Reshape": _reshape,
    "ScatterReduce": _scatter_reduce,
    "Slice": _slice,
    "Sort": _sort,
    "SplineBasis": _spline_basis,
    "SplineWeighting": _spline_weighting,
    "Subsample": _subsample,
}
