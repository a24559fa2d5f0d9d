"""Contents of tensors, as models hold them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from popart.errors import popart_exception
from popart.tensor_info import TensorInfo, getTensorInfo, onnx_element_type

__all__ = ["tensor_of", "type_of"]


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


def type_of(info: TensorInfo) -> onnx.TypeProto:
    """Return type and shape of a tensor as models state them."""
    return onnx.helper.make_tensor_type_proto(onnx_element_type(info.dataType()), info.shape())
