"""Nodes of ONNX that PopART reads otherwise, as nodes that say so.

Source: graphcore/popart sdk-release-3.4, willow/src/op/argextrema.cpp, topk.cpp (types of
positions), convtranspose.cpp (where an output of a stated shape lies).
"""

from __future__ import annotations

from collections.abc import Callable

import onnx
from onnx import helper

from popart.errors import popart_exception

__all__ = ["as_onnx_reads"]

#: Returns what takes the place of a node, which it may change.
_Reading = Callable[[onnx.NodeProto], list[onnx.NodeProto]]


def as_onnx_reads(graph: onnx.GraphProto) -> None:
    """Change a graph and its subgraphs, so that nodes mean in ONNX what PopART reads.

    Raises
    ------
    popart_exception
        When PopART refuses a node.
    """
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                as_onnx_reads(attribute.g)
        reading = None if node.domain else _READINGS.get(node.op_type)
        nodes += [node] if reading is None else reading(node)
    copies = [_copy(node) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)


def _copy(node: onnx.NodeProto) -> onnx.NodeProto:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    return copy


def _positions(place: int) -> _Reading:
    """Return a reading of positions as int32, which ONNX has in 64 bits."""

    def read(node: onnx.NodeProto) -> list[onnx.NodeProto]:
        if len(node.output) <= place or not node.output[place]:
            return [node]
        name = node.output[place]
        node.output[place] = wide = f"{name}/int64"
        cast = helper.make_node("Cast", [wide], [name], name=name, to=onnx.TensorProto.INT32)
        return [node, cast]

    return read


def _transposed(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """Return a convolution whose output of a stated shape lies at the other end.

    Of an odd number of elements too many, PopART leaves one more out at the end, and at the
    beginning for ``SAME_UPPER``; ONNX does the reverse.

    Raises
    ------
    popart_exception
        When the shape is stated, and that the input is not padded.
    """
    stated = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if not list(stated.get("output_shape", ())):
        return [node]
    mode = stated.get("auto_pad", b"NOTSET").decode()
    if mode == "VALID":
        raise popart_exception(
            f"`VALID` type for auto_pad cannot be used if the `output_shape` is also set:"
            f" {node.name or node.output[0]}"
        )
    kept = [a for a in node.attribute if a.name != "auto_pad"]
    del node.attribute[:]
    node.attribute.extend(kept)
    other = "SAME_LOWER" if mode == "SAME_UPPER" else "SAME_UPPER"
    node.attribute.append(helper.make_attribute("auto_pad", other))
    return [node]


_READINGS: dict[str, _Reading] = {
    "ArgMax": _positions(0),
    "ArgMin": _positions(0),
    "ConvTranspose": _transposed,
    "TopK": _positions(1),
}
