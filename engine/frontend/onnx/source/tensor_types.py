"""Element types and shapes as an ONNX file states them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import helper

from tilescope.engine.errors import BadInput, BadModel
from tilescope.engine.ir import MOST_DIMS, Value

__all__ = [
    "check_output",
    "check_type",
    "element_type",
    "input_shape",
    "leaves_batch_open",
    "stated_shape",
]

_INTEGER_TYPES = {"int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"}
_DEVICE_TYPES = {"float16", "float32", "float64", "bool", *_INTEGER_TYPES}
#: Types between nodes only: a cast makes them.
_FLOAT8_TYPES = {"float8_e4m3fnuz", "float8_e5m2fnuz"}


def element_type(kind: int, subject: str) -> str:
    """Return the name of an ONNX element type.

    Raises
    ------
    BadModel
        When ONNX has no such type.
    """
    try:
        return np.dtype(helper.tensor_dtype_to_np_dtype(kind)).name
    except KeyError:
        raise BadModel(f"{subject} has element type {kind}, which ONNX does not define") from None


def check_type(dtype: str, subject: str, *, is_input: bool = False) -> None:
    """Refuse a type that the machine does not have.

    Raises
    ------
    BadModel
        Names the value and the type.
    """
    if dtype not in (_DEVICE_TYPES if is_input else _DEVICE_TYPES | _FLOAT8_TYPES):
        verb = "is" if is_input else "makes"
        raise BadModel(f"{subject} {verb} {dtype}, which is not supported yet")


def stated_shape(info: onnx.ValueInfoProto) -> list[int | None]:
    """Return the sizes in a model; None for dynamic ones.

    Raises
    ------
    BadModel
        When a size is negative, or there are too many.
    """
    dims = info.type.tensor_type.shape.dim
    # Some exporters write an open dimension as -1.
    sizes = [d.dim_value if d.HasField("dim_value") and d.dim_value != -1 else None for d in dims]
    if any(size is not None and size < 0 for size in sizes) or len(sizes) > MOST_DIMS:
        raise BadModel(
            f"Value {info.name!r} has sizes {sizes[:8]}: expected sizes of 0 or more, and at most"
            f" {MOST_DIMS} dimensions"
        )
    return sizes


def _labels(info: onnx.ValueInfoProto) -> str:
    """Return a shape as the model states it, such as ``(N, 3, ?)``."""
    dims = info.type.tensor_type.shape.dim
    names = [
        d.dim_param or "?" if size is None else str(size)
        for d, size in zip(dims, stated_shape(info), strict=True)
    ]
    return f"({', '.join(names)})"


def input_shape(
    info: onnx.ValueInfoProto, shapes: Mapping[str, tuple[int, ...]], batch: int | None = None
) -> tuple[int, ...]:
    """Return the static shape of an input; an open first dimension has `batch` elements, or 1.

    Raises
    ------
    BadInput
        When another dimension has no size and none is given, or the given one contradicts. A size
        of 0 is one: such an input holds nothing, as the past of a decoder's first step.
    """
    stated = stated_shape(info)
    if info.name in shapes:
        shape = shapes[info.name]
        agrees = len(shape) == len(stated) and all(
            s is None or s == g for s, g in zip(stated, shape, strict=True)
        )
        if not agrees:
            raise BadInput(
                f"Input {info.name!r} has shape {_labels(info)}, which is incompatible with {shape}"
            )
        return shape
    if leaves_batch_open(info, shapes):
        stated[0] = batch or 1
    if None in stated:
        raise BadInput(
            f"Input {info.name!r} has shape {_labels(info)}; set its sizes with"
            f" --shape {info.name}={','.join('N' if s is None else str(s) for s in stated)}"
        )
    return tuple(int(size or 0) for size in stated)


def leaves_batch_open(info: onnx.ValueInfoProto, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Return whether the first dimension of an input is open and nobody says its size."""
    stated = stated_shape(info)
    return info.name not in shapes and stated[:1] == [None]


def check_output(
    info: onnx.ValueInfoProto,
    value: Value,
    assumed_ones: Sequence[str],
    counted_axis: int | None = None,
) -> str:
    """Return a sentence on an output whose declared shape is not the one that is computed, or "".

    Along `counted_axis`, data decide the number of entries. As onnxruntime, we go on with the
    shape that is computed.

    Raises
    ------
    BadModel
        When its type is not the one that is declared, or stays on the device.
    """
    if value.dtype in _FLOAT8_TYPES:
        raise BadModel(
            f"Output {info.name!r} is {value.dtype}: float8 stays on the device; cast it to float16"
            " in the model"
        )
    kind = info.type.tensor_type.elem_type
    if kind and element_type(kind, f"Output {info.name!r}") != value.dtype:
        raise BadModel(
            f"Output {info.name!r} is declared as {element_type(kind, '')} but computed as"
            f" {value.dtype}: correct the declaration in the model"
        )
    if not info.type.tensor_type.HasField("shape"):
        return ""
    stated = stated_shape(info)
    if len(stated) == len(value.shape) and all(
        s is None or s == size or d == counted_axis
        for d, (s, size) in enumerate(zip(stated, value.shape, strict=True))
    ):
        return ""
    suffix = ""
    if assumed_ones:
        names = ", ".join(map(repr, assumed_ones))
        suffix = f" (the open first dimension of {names} was taken as 1; --shape says another)"
    return (
        f"Output {info.name!r} is declared as {_labels(info)} but computed as"
        f" {value.shape}{suffix}: its computed shape counts"
    )
