"""Reads a model file without its weights: of any size, in a moment."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import google.protobuf.message
import onnx

from tilescope.engine.errors import BadModel
from tilescope.engine.frontend.onnx.refusal import refusing_plainly
from tilescope.engine.frontend.onnx.source.long_names import shorten_names
from tilescope.engine.frontend.onnx.source.model_file import check_is_file
from tilescope.engine.frontend.onnx.source.tidy import name_domains, name_results
from tilescope.engine.frontend.onnx.source.walk import graphs_of

__all__ = ["has_elements", "read_skeleton", "stored_bytes"]

#: Contents of tensors up to this many bytes are kept: they decide shapes.
_MOST_KEPT = 1024
#: Fields that are read: those of the largest messages, of which a node is one.
_MOST_FIELDS = 1_000_000
#: Bytes of the largest element on the device, which has no types of 64 bits.
_MOST_ELEMENT_BYTES = 4
#: Fields of TensorProto that hold elements; the others say what the tensor is.
#: Source: onnx/onnx.proto, as the messages below.
_ELEMENTS = frozenset({4, 5, 6, 7, 9, 10, 11})
_TENSOR: dict[int, Any] = dict.fromkeys(_ELEMENTS)
_SPARSE = {1: _TENSOR, 2: _TENSOR}
_GRAPH: dict[int, Any] = {5: _TENSOR, 15: _SPARSE}
_ATTRIBUTE: dict[int, Any] = {5: _TENSOR, 6: _GRAPH, 10: _TENSOR, 11: _GRAPH, 22: _SPARSE}
_NODE = {5: _ATTRIBUTE}
_GRAPH[1] = _NODE
_MODEL = {7: _GRAPH, 25: {7: _NODE}}

#: Wire types of protobuf. Source: protobuf.dev, Encoding.
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@refusing_plainly
def read_skeleton(path: Path) -> onnx.ModelProto:
    """Return the model of a file whose large tensors have types and shapes, but no elements.

    Raises
    ------
    BadModel
        When the file does not exist, is not ONNX or is truncated.
    """
    check_is_file(path)
    model = onnx.ModelProto()
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            model.ParseFromString(
                b"".join(_kept(data, 0, len(data), _MODEL, iter(range(_MOST_FIELDS))))
            )
    except (google.protobuf.message.DecodeError, ValueError, RecursionError):
        raise BadModel(f"Model {path} is not an ONNX file or is truncated") from None
    except OSError as error:
        raise BadModel(f"Cannot read model {path}: {error.strerror}") from None
    shorten_names(model)
    for graph in graphs_of(model.graph):
        _move_constants(graph)
    if not model.graph.node or not model.graph.output:
        raise BadModel(f"Model {path} is not a valid ONNX model: it has no nodes or no outputs")
    name_domains(model)
    name_results(model)
    return model


def has_elements(tensor: onnx.TensorProto) -> bool:
    """Return whether a tensor of a skeleton holds its elements, as small ones do."""
    held = tensor.raw_data or any(
        getattr(tensor, name) for name in ("float_data", "int32_data", "int64_data", "double_data")
    )
    return bool(held or tensor.uint64_data or tensor.string_data or 0 in tensor.dims)


@refusing_plainly
def stored_bytes(path: Path) -> int:
    """Return an upper bound of the bytes that the tensors of a file take on the device.

    Raises
    ------
    BadModel
        When the file does not exist, is not ONNX or is truncated.
    """
    model = read_skeleton(path)
    tensors: list[onnx.TensorProto | onnx.SparseTensorProto] = []
    stated: list[onnx.AttributeProto] = []
    for graph in graphs_of(model.graph):
        tensors += [*graph.initializer, *graph.sparse_initializer]
        stated += [entry for node in graph.node for entry in node.attribute]
    stated += [entry for f in model.functions for node in f.node for entry in node.attribute]
    for entry in stated:
        tensors += [*entry.tensors, *entry.sparse_tensors]
        tensors += [entry.t] if entry.HasField("t") else []
        tensors += [entry.sparse_tensor] if entry.HasField("sparse_tensor") else []
    n_elements = sum(abs(prod(tensor.dims)) for tensor in tensors)
    return _MOST_ELEMENT_BYTES * int(n_elements)


def _move_constants(graph: onnx.GraphProto) -> None:
    """Make initializers of the nodes that state a large constant."""
    nodes_ = []
    for node in graph.node:
        stated = [entry.t for entry in node.attribute if entry.HasField("t")]
        if node.op_type == "Constant" and stated and not has_elements(stated[0]):
            tensor = graph.initializer.add()
            tensor.CopyFrom(stated[0])
            tensor.name = node.output[0]
        else:
            nodes_.append(node)
    if len(nodes_) < len(graph.node):
        nodes_ = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes_]
        del graph.node[:]
        graph.node.extend(nodes_)


def _kept(
    data: mmap.mmap, offset: int, end: int, inside: Mapping[int, Any], budget: Iterator[int]
) -> Iterator[bytes]:
    """Yield a message without the elements of large tensors.

    Parameters
    ----------
    data
        The file.
    offset, end
        Where the message lies.
    inside
        Fields to look into, by number, with their own fields; None for elements of a tensor.
    budget
        Ends after the most fields that are read.

    Raises
    ------
    ValueError
        When it is not a message.
    """
    while offset < end:
        start = offset
        tag, offset = _varint(data, offset, end)
        kind, number = tag & 7, tag >> 3
        if number == 0 or next(budget, None) is None:
            raise ValueError("a field without a number, or too many fields")
        if kind == _BYTES:
            size, offset = _varint(data, offset, end)
        elif kind == _VARINT:
            (_, offset), size = _varint(data, offset, end), 0
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {kind}")
        if size > end - offset:
            raise ValueError("a field is longer than its message")
        if kind == _BYTES and size > _MOST_KEPT and number in inside:
            if inside[number] is not None:
                content = b"".join(_kept(data, offset, offset + size, inside[number], budget))
                yield _as_varint(tag) + _as_varint(len(content)) + content
        else:
            yield data[start : offset + size]
        offset += size


def _varint(data: mmap.mmap, offset: int, end: int) -> tuple[int, int]:
    """Return a number of variable length, and where the next begins."""
    value = shift = 0
    while offset < end and shift < 64:
        byte = data[offset]
        value |= (byte & 127) << shift
        offset, shift = offset + 1, shift + 7
        if byte < 128:
            return value, offset
    raise ValueError("a number does not end")


def _as_varint(value: int) -> bytes:
    """Return a number in the variable length that `_varint` reads."""
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes((*encoded, value))
