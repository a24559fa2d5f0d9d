"""Types and shapes of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from popart.arguments import INTS
from popart.enumeration import Enumeration
from popart.errors import popart_exception

__all__ = [
    "DataType",
    "InputShapeInfo",
    "TensorInfo",
    "data_type_of_array",
    "getTensorInfo",
    "onnx_element_type",
    "type_named",
    "type_of_onnx_element",
]


class DataType(Enumeration):
    """Type of the elements of a tensor."""

    UINT8 = 0
    INT8 = 1
    FLOAT8_143 = 2
    FLOAT8_152 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    UINT32 = 8
    UINT64 = 9
    BOOL = 10
    FLOAT = 11
    FLOAT16 = 12
    BFLOAT16 = 13
    DOUBLE = 14
    COMPLEX64 = 15
    COMPLEX128 = 16
    STRING = 17
    UNDEFINED = 18


#: Bytes of an element.
_BYTES = {
    DataType.UINT8: 1,
    DataType.INT8: 1,
    DataType.FLOAT8_143: 1,
    DataType.FLOAT8_152: 1,
    DataType.UINT16: 2,
    DataType.INT16: 2,
    DataType.INT32: 4,
    DataType.INT64: 8,
    DataType.UINT32: 4,
    DataType.UINT64: 8,
    DataType.BOOL: 1,
    DataType.FLOAT: 4,
    DataType.FLOAT16: 2,
    DataType.BFLOAT16: 2,
    DataType.DOUBLE: 8,
    DataType.COMPLEX64: 8,
    DataType.COMPLEX128: 16,
}

#: Where the name in lower case is not the name.
_LOWER_CASE = {DataType.FLOAT: "float32", DataType.DOUBLE: "float64"}

#: numpy's names of types; the 8-bit floats are structured types of one field.
_NUMPY = {
    "uint8": DataType.UINT8,
    "int8": DataType.INT8,
    "uint16": DataType.UINT16,
    "int16": DataType.INT16,
    "int32": DataType.INT32,
    "int64": DataType.INT64,
    "uint32": DataType.UINT32,
    "uint64": DataType.UINT64,
    "bool": DataType.BOOL,
    "float32": DataType.FLOAT,
    "float16": DataType.FLOAT16,
    "[('float8_143', 'u1')]": DataType.FLOAT8_143,
    "[('float8_152', 'u1')]": DataType.FLOAT8_152,
}

_CLASSES: dict[type, DataType] = {
    **{np.dtype(name).type: of for name, of in _NUMPY.items() if "[" not in name},
    np.float64: DataType.DOUBLE,
}

#: Source: onnx.proto, TensorProto.DataType; ONNX has other 8-bit floats than Graphcore's.
_ONNX = {
    DataType.UNDEFINED: 0,
    DataType.FLOAT: 1,
    DataType.UINT8: 2,
    DataType.INT8: 3,
    DataType.UINT16: 4,
    DataType.INT16: 5,
    DataType.INT32: 6,
    DataType.INT64: 7,
    DataType.STRING: 8,
    DataType.BOOL: 9,
    DataType.FLOAT16: 10,
    DataType.DOUBLE: 11,
    DataType.UINT32: 12,
    DataType.UINT64: 13,
    DataType.COMPLEX64: 14,
    DataType.COMPLEX128: 15,
    DataType.BFLOAT16: 16,
}
_FROM_ONNX = {number: data_type for data_type, number in _ONNX.items()}


def type_named(name: str) -> DataType:
    """Return the data type of a name in upper case, such as ``FLOAT16``."""
    if name not in DataType.__members__:
        known = ", ".join(sorted(DataType.__members__))
        raise popart_exception(f"no ONNX type {name}, they're [{known}].")
    return DataType[name]


def data_type_of_array(array: NDArray[Any]) -> DataType:
    """Return the data type of the elements of an array."""
    name = str(array.dtype)
    if name not in _NUMPY:
        raise popart_exception(f"No numpy type {name} registered in map to DataType")
    return _NUMPY[name]


def onnx_element_type(data_type: DataType) -> int:
    """Return the number of a data type in ONNX files."""
    if data_type not in _ONNX:
        raise popart_exception(f"ONNX files hold no elements of type {data_type.name}")
    return _ONNX[data_type]


def type_of_onnx_element(number: int) -> DataType:
    """Return the data type of a number in ONNX files; ``UNDEFINED`` for one that PopART lacks."""
    return _FROM_ONNX.get(number, DataType.UNDEFINED)


def _shape_of(text: str) -> list[int]:
    """Return the shape that a string such as ``(1,2,400)`` states."""
    if len(text) < 2 or text[0] != "(" or text[-1] != ")":
        raise popart_exception("invalid string for shape")
    if " " in text:
        raise popart_exception("s contains a space : not valid shape string")
    return [int(size) for size in text[1:-1].split(",") if size]


def _type_of(value: Any) -> DataType:
    if isinstance(value, DataType):
        return value
    if isinstance(value, str):
        return type_named(value)
    if isinstance(value, type | np.dtype):
        if str(value) in _NUMPY:  # a structured type: one of the 8-bit floats
            return _NUMPY[str(value)]
        return _CLASSES[value.type if isinstance(value, np.dtype) else value]
    raise TypeError(f"Expected a name, a DataType or a numpy type, got {value!r}")


class TensorInfo:
    """Type and shape of a tensor: from both, or from an array.

    ``TensorInfo("FLOAT", [1, 2])``, ``TensorInfo(DataType.FLOAT, [1, 2])``,
    ``TensorInfo(numpy.float32, [1, 2])``, ``TensorInfo("FLOAT", "(1,2)")``, ``TensorInfo(array)``.
    A third argument is the shape of the whole, if the tensor is a replica's part of it.
    """

    def __init__(self, *args: Any) -> None:
        if len(args) == 1 and isinstance(args[0], np.ndarray):
            data_type, shape, meta_shape = _type_of(args[0].dtype), args[0].shape, ()
        elif len(args) in (2, 3):
            data_type, shape, meta_shape = _type_of(args[0]), args[1], args[2] if args[2:] else ()
        else:
            raise TypeError(f"Can not create TensorInfo with args {args}")
        self.set(data_type, _shape_of(shape) if isinstance(shape, str) else shape, meta_shape)

    def set(
        self,
        dataType: DataType,
        shape: Sequence[int] | None = None,
        metaShape: Sequence[int] | None = None,
    ) -> None:
        """Replace the type, and the shapes if they are given."""
        self._type = dataType
        if shape is not None:
            self._shape: list[int] = INTS.convert(shape)
        if metaShape is not None:
            self._meta_shape: list[int] = INTS.convert(metaShape)

    def shape(self) -> list[int]:
        """Return the sizes of the dimensions."""
        return list(self._shape)

    def metaShape(self) -> list[int]:
        """Return the shape of the whole that the tensor is a part of; empty for a whole one."""
        return list(self._meta_shape)

    def rank(self) -> int:
        """Return the number of dimensions."""
        return len(self._shape)

    def nelms(self) -> int:
        """Return the number of elements."""
        return prod(self._shape)

    def nbytes(self) -> int:
        """Return the bytes of all elements."""
        return self.nelms() * _BYTES.get(self._type, -1)

    def dim(self, i: int) -> int:
        """Return the size of a dimension."""
        if not 0 <= i < len(self._shape):
            raise popart_exception(
                f"Invalid input dimension {i}, tensor of rank {len(self._shape)}"
            )
        return self._shape[i]

    def strides(self, shape: Sequence[int] | None = None) -> list[int]:
        """Return the bytes from one entry to the next in every dimension, in row-major order."""
        sizes = self._shape if shape is None else list(shape)
        width = _BYTES.get(self._type, -1)
        return [width * prod(sizes[axis + 1 :]) for axis in range(len(sizes))]

    def dataType(self) -> DataType:
        """Return the type of the elements."""
        return self._type

    def data_type(self) -> str:
        """Return the name of the type in upper case, such as ``FLOAT``."""
        return self._type.name

    def data_type_lcase(self) -> str:
        """Return numpy's name of the type, such as ``float32``."""
        return _LOWER_CASE.get(self._type, self._type.name.lower())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorInfo):
            return NotImplemented
        return (self._type, self._shape, self._meta_shape) == (
            other._type,
            other._shape,
            other._meta_shape,
        )

    def __hash__(self) -> int:
        return hash((self._type, tuple(self._shape), tuple(self._meta_shape)))

    def __repr__(self) -> str:
        return f"TensorInfo({self._type.name!r}, {self._shape})"


def getTensorInfo(array: NDArray[Any]) -> TensorInfo:
    """Return type and shape of an array."""
    held = np.asarray(array)
    return TensorInfo(data_type_of_array(held), held.shape)


class InputShapeInfo:
    """Types and shapes of inputs that a model leaves open, by name."""

    def __init__(self) -> None:
        self._infos: dict[str, TensorInfo] = {}

    def add(self, tensorId: str, info: TensorInfo) -> None:
        """Set type and shape of an input."""
        self._infos[tensorId] = info

    def get(self, tensorId: str) -> TensorInfo:
        """Return type and shape of an input."""
        if tensorId not in self._infos:
            raise popart_exception(f"No input shape info for {tensorId}")
        return self._infos[tensorId]

    def has(self, tensorId: str) -> bool:
        """Whether type and shape of an input are set."""
        return tensorId in self._infos

    def getAllTensorIds(self) -> list[str]:
        """Return the names of the inputs, sorted."""
        return sorted(self._infos)
