"""Weights in files of their own: located and checked, then mapped, not read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tilescope.engine.errors import BadModel
from tilescope.engine.frontend.onnx.source.walk import graphs_of

__all__ = ["array_of", "load_small_tensors", "outside_names", "without_large_tensors"]

#: Bytes of an external tensor that is read at once, as if the model file held it.
_SMALL = 1 << 20
#: Elements of an initializer that the checker of ONNX is given with the others.
_MOST_CHECKED = 256
_LONGEST_LOCATION = 4096
_MOST_SHOWN = 80


def array_of(tensor: TensorProto, folder: Path) -> NDArray[Any]:
    """Return the elements of a tensor; those of an external one as a view of its file.

    Parameters
    ----------
    tensor
        Of a model.
    folder
        Where the model's file is.

    Raises
    ------
    BadModel
        When the file does not hold the tensor.
    ValueError, TypeError
        When the tensor does not hold what it declares.
    """
    if tensor.data_location != TensorProto.EXTERNAL:
        return numpy_helper.to_array(tensor)
    path, offset, n_bytes = _place(tensor, folder)
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type))
    shape = tuple(tensor.dims)
    if prod(shape) * dtype.itemsize != n_bytes:  # elements of less than a byte, or a wrong length
        held = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        held.raw_data = _read(path, offset, n_bytes)
        return numpy_helper.to_array(held)
    return np.memmap(path, dtype.newbyteorder("<"), "r", offset, shape)


def outside_names(model: onnx.ModelProto) -> list[str]:
    """Return the names of the files that hold tensors of a model, in order."""
    tensors: list[TensorProto] = []
    for graph in graphs_of(model.graph):
        tensors += graph.initializer
        tensors += [part for sparse in graph.sparse_initializer for part in _parts(sparse)]
        tensors += [tensor for node in graph.node for tensor in _stated(node)]
    tensors += [tensor for f in model.functions for node in f.node for tensor in _stated(node)]
    entries = [entry for tensor in tensors for entry in tensor.external_data]
    return sorted({entry.value for entry in entries if entry.key == "location"})


def _stated(node: onnx.NodeProto) -> list[TensorProto]:
    """Return the tensors in the attributes of a node."""
    tensors: list[TensorProto] = []
    for attribute in node.attribute:
        tensors += [attribute.t, *attribute.tensors]
        for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
            tensors += _parts(sparse)
    return tensors


def _parts(sparse: onnx.SparseTensorProto) -> tuple[TensorProto, TensorProto]:
    return sparse.values, sparse.indices


def load_small_tensors(model: onnx.ModelProto, folder: Path) -> None:
    """Read the small external tensors into a model, and all that are not initializers.

    Raises
    ------
    BadModel
        When a tensor's file is missing, outside the folder, or too short.
    """
    for graph in graphs_of(model.graph):
        for tensor in graph.initializer:
            if tensor.data_location == TensorProto.EXTERNAL:
                location = _place(tensor, folder)
                if location[2] <= _SMALL:
                    _take_in(tensor, *location)
        for node in graph.node:
            for attribute in node.attribute:
                for tensor in (attribute.t, *attribute.tensors):
                    if tensor.data_location == TensorProto.EXTERNAL:
                        _take_in(tensor, *_place(tensor, folder))


@contextmanager
def without_large_tensors(model: onnx.ModelProto) -> Iterator[None]:
    """Take the elements of large initializers away while ONNX checks a model.

    The checker looks for the files of external tensors elsewhere, and copies all others, of which
    it reads no element. A tensor that does not hold what it declares stays as it is.
    """
    tensors = [tensor for graph in graphs_of(model.graph) for tensor in graph.initializer]
    emptied = [(t, list(t.dims)) for t in tensors if t.data_location == TensorProto.EXTERNAL]
    for tensor, _ in emptied:
        tensor.data_location = TensorProto.DEFAULT
        tensor.dims[:] = [0]
    shortened = [
        (tensor, list(tensor.dims), data)
        for tensor in tensors
        if prod(tensor.dims) > _MOST_CHECKED and _is_plain(tensor, data := tensor.raw_data)
    ]
    for tensor, dims, data in shortened:
        tensor.raw_data = data[: len(data) // prod(dims)]
        tensor.dims[:] = [1]
    try:
        yield
    finally:
        for tensor, dims in emptied:
            tensor.data_location = TensorProto.EXTERNAL
            tensor.dims[:] = dims
        for tensor, dims, data in shortened:
            tensor.dims[:] = dims
            tensor.raw_data = data


def _is_plain(tensor: TensorProto, data: bytes) -> bool:
    """Return whether a tensor's bytes are as many as elements of its type and shape take."""
    if min(tensor.dims) < 1 or tensor.data_type not in helper.get_all_tensor_dtypes():
        return False
    element = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    return not element.hasobject and len(data) == prod(tensor.dims) * element.itemsize


def _take_in(tensor: TensorProto, path: Path, offset: int, n_bytes: int) -> None:
    """Make a tensor hold its elements itself."""
    tensor.raw_data = _read(path, offset, n_bytes)
    tensor.data_location = TensorProto.DEFAULT
    del tensor.external_data[:]


def _read(path: Path, offset: int, n_bytes: int) -> bytes:
    """Return a part of a file."""
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(n_bytes)


def _place(tensor: TensorProto, folder: Path) -> tuple[Path, int, int]:
    """Return the file of an external tensor, where in it the tensor begins, and its bytes.

    Raises
    ------
    BadModel
        When the file is missing, outside the folder, or too short.
    """
    stated = {entry.key: entry.value for entry in tensor.external_data}
    location = stated.get("location", "")
    subject = f"Initializer {tensor.name!r} has external weights that are not readable"
    root = folder.resolve()
    text = repr(location if len(location) <= _MOST_SHOWN else f"{location[:_MOST_SHOWN]}…")
    try:
        if len(location) > _LONGEST_LOCATION:
            raise ValueError("longer than any path")
        path = (root / location).resolve()
        is_inside, is_file = path.is_relative_to(root), path.is_file()
        size = path.stat().st_size if is_inside and is_file else 0
    except (OSError, RuntimeError, ValueError):  # a NUL, too long, links in a circle
        raise BadModel(f"{subject}: {text} is not the name of a file") from None
    if not is_inside:
        raise BadModel(f"{subject}: {text} is outside the model's folder")
    if not is_file:
        raise BadModel(f"{subject}: the file {text} does not exist or is not a regular file")
    try:
        offset = int(stated.get("offset", "0"))
        n_bytes = int(stated["length"]) if "length" in stated else size - offset
    except ValueError:
        raise BadModel(f"{subject}: its offset or length is not a number") from None
    if offset < 0 or n_bytes < 0 or offset + n_bytes > size:
        raise BadModel(
            f"{subject}: bytes {offset:,} to {offset + n_bytes:,} of a file of {size:,} bytes"
        )
    return path, offset, n_bytes
