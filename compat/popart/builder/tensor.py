"""Contents of tensors, as models hold them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from popart.errors import popart_exception
from popart.tensor_info import TensorInfo, getTensorInfo, onnx_element_type

__all__ = ["array_of", "initializer_of", "tensor_of", "type_of", "unpack_halves"]

#: Tag of the packed field `float_data`; an integer of protobuf has seven bits in a byte, and one
#: that says whether more follow. Source: https://protobuf.dev/programming-guides/encoding/.
_FLOAT_DATA, _MORE = b"\x22", 128


def tensor_of(array: NDArray[Any], name: str) -> onnx.TensorProto:
    """Return the content of a tensor; refuse elements that a model cannot hold.

    Parameters
    ----------
    array
        Elements of a type that PopART has, any shape.
    name
        Of the tensor.
    """
    info = getTensorInfo(array)
    if info.data_type().startswith("FLOAT8"):
        raise popart_exception(f"Unsupported data type for initialized data ({info})")
    content = onnx.TensorProto(name=name, data_type=onnx_element_type(info.dataType()))
    content.dims.extend(info.shape())
    content.raw_data = np.ascontiguousarray(array).tobytes()
    return content


def initializer_of(
    array: NDArray[Any], name: str, like: onnx.TensorProto | None = None
) -> onnx.TensorProto:
    """Return the content of a weight, in the field that PopART has it in.

    Parameters
    ----------
    array
        Elements of a type that PopART has, any shape.
    name
        Of the weight.
    like
        What the model held before: bytes stay bytes.

    Notes
    -----
    Programs read `float_data`, or `int32_data`, which has two halves in every integer.
    Source: graphcore/popart, willow/src/builder_impl.cpp.
    """
    content = tensor_of(array, name)
    if like is not None and like.HasField("raw_data"):
        return content
    elements = np.ascontiguousarray(array).reshape(-1)
    match array.dtype.name:
        case "float32":
            content.ClearField("raw_data")
            content.MergeFromString(_float_data(elements))
            return content
        case "int32":
            field, values = content.int32_data, elements
        case "int64":
            field, values = content.int64_data, elements
        case "uint64":
            field, values = content.uint64_data, elements
        case "float16":
            even = np.append(elements, np.zeros(elements.size % 2, np.float16))
            field, values = content.int32_data, even.view(np.int32)
        case _:
            return content
    content.ClearField("raw_data")
    field.extend(values.tolist())
    return content


def _float_data(elements: NDArray[Any]) -> bytes:
    """Return the field as protobuf writes it, which takes no object for every element."""
    data = elements.astype("<f4").tobytes()
    length, n = b"", len(data)
    while n >= _MORE:
        length += bytes([n % _MORE + _MORE])
        n //= _MORE
    return _FLOAT_DATA + length + bytes([n]) + data


def array_of(content: onnx.TensorProto) -> NDArray[Any]:
    """Return the elements of a content; halves may lie two in an integer, as PopART has them."""
    words = content.int32_data
    n = int(np.prod(content.dims))
    if content.data_type == onnx.TensorProto.FLOAT16 and n > 1 and len(words) == (n + 1) // 2:
        halves = np.array(words, np.int32).view(np.float16)[:n]
        return halves.reshape(tuple(content.dims))
    return np.asarray(onnx.numpy_helper.to_array(content))


def type_of(info: TensorInfo) -> onnx.TypeProto:
    """Return type and shape of a tensor as models state them."""
    return onnx.helper.make_tensor_type_proto(onnx_element_type(info.dataType()), info.shape())


def unpack_halves(graph: onnx.GraphProto) -> None:
    """Store halves as ONNX does, in a graph and its subgraphs.

    Parameters
    ----------
    graph
        It is changed.
    """
    for content in graph.initializer:
        is_packed = not content.HasField("raw_data") and not content.external_data
        if content.data_type == onnx.TensorProto.FLOAT16 and is_packed:
            content.CopyFrom(tensor_of(array_of(content), content.name))
    for node in graph.node:
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                unpack_halves(body)
