"""Contents of initializers in files beside a model: read, written back, and moved elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from popart.builder.external import refer
from popart.errors import popart_exception, popart_runtime_error

__all__ = ["move_contents", "with_contents", "write_contents"]


@dataclass(frozen=True)
class _Place:
    """Where a content is.

    Parameters
    ----------
    path
        The file.
    start, n_bytes
        Its part of it.
    """

    path: Path
    start: int
    n_bytes: int


def _is_external(content: onnx.TensorProto) -> bool:
    return bool(content.data_location == onnx.TensorProto.EXTERNAL)


def _place_of(content: onnx.TensorProto, folder: Path | None = None) -> _Place:
    """Return where a content is: below the working directory, as in PopART, or a model's folder.

    Raises
    ------
    popart_exception
        When the file is missing, or too short.
    """
    entries = {entry.key: entry.value for entry in content.external_data}
    location = entries.get("location", "")
    paths = [Path(location), *([folder / location] if folder is not None else [])]
    path = next((path for path in paths if location and path.is_file()), None)
    if path is None:
        raise popart_exception(
            f"Unrecognised file name '{location}' for externally stored tensor '{content.name}'"
        )
    start, n_bytes = int(entries.get("offset", 0)), int(entries.get("length", 0))
    n_bytes = n_bytes or path.stat().st_size - start
    if start < 0 or n_bytes <= 0:
        kind, value = ("offset", start) if start < 0 else ("length", n_bytes)
        raise popart_exception(
            f"Invalid '{kind}' information ({value}) for externally stored tensor '{content.name}'"
        )
    return _Place(path, start, n_bytes)


def with_contents(proto: onnx.ModelProto, folder: Path | None = None) -> onnx.ModelProto:
    """Return a model with the contents of other files in it; the model itself without such.

    Parameters
    ----------
    proto
        The model.
    folder
        Where its file is, if it is from one.

    Raises
    ------
    popart_exception
        When a file cannot be read.
    """
    if not any(map(_is_external, proto.graph.initializer)):
        return proto
    complete = onnx.ModelProto()
    complete.CopyFrom(proto)
    for content in filter(_is_external, complete.graph.initializer):
        place = _place_of(content, folder)
        content.raw_data = _read(place)
        content.ClearField("external_data")
        content.ClearField("data_location")
    return complete


def _read(place: _Place) -> bytes:
    try:
        with place.path.open("rb") as file:
            file.seek(place.start)
            return file.read(place.n_bytes)
    except OSError as error:
        raise popart_exception(f"Cannot read {place.path}: {error.strerror}") from None


def write_contents(
    proto: onnx.ModelProto,
    arrays: Mapping[str, NDArray[Any]],
    states: Mapping[str, NDArray[Any]],
) -> bool:
    """Write contents into the files that a model has them in.

    Parameters
    ----------
    proto
        The model. It gets entries for states that it does not have yet, behind the last content.
    arrays
        Elements of the initializers, by name.
    states
        Elements of what an optimizer keeps, by name.

    Returns
    -------
    bool
        Whether the model has contents in other files.

    Raises
    ------
    popart_exception
        When a file does not exist, or cannot be written.
    """
    external = [content for content in proto.graph.initializer if _is_external(content)]
    if not external:
        return False
    location = {entry.key: entry.value for entry in external[-1].external_data}["location"]
    places = {content.name: _place_of(content) for content in external}
    for name, place in places.items():
        elements = np.ascontiguousarray(arrays[name] if name in arrays else states[name])
        _write(place.path, place.start, elements)
    known = {content.name for content in proto.graph.initializer}
    for name, array in states.items():
        if name not in known:
            content = proto.graph.initializer.add(
                name=name, data_type=onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            )
            content.dims.extend(array.shape)
            end = Path(location).stat().st_size
            refer(content, location, array.nbytes, end)
            _write(Path(location), end, np.ascontiguousarray(array))
    return True


def _write(path: Path, start: int, elements: NDArray[Any]) -> None:
    try:
        with path.open("r+b") as file:
            file.seek(start)
            file.write(elements.tobytes())
    except OSError as error:
        raise popart_runtime_error(f"Cannot write {path}: {error.strerror}") from None


def move_contents(proto: onnx.ModelProto, source: str, target: str) -> None:
    """Copy the contents of a file into a new one, to which the model then refers.

    Raises
    ------
    popart_runtime_error
        When the file does not exist, the new one does, or no content is in the file.
    """
    doing = f"Updating externally saved tensor location from file '{source}' to file '{target}'"
    if Path(target).exists():
        raise popart_runtime_error(f"{doing}, but file '{target}' already exists")
    if not Path(source).exists():
        raise popart_runtime_error(f"{doing}, but file '{source}' does not exist")
    moved = [
        content
        for content in proto.graph.initializer
        if _is_external(content)
        and any(e.key == "location" and e.value == source for e in content.external_data)
    ]
    if not moved:
        raise popart_runtime_error(
            f"No ONNX model initializers have external location set to '{source}'"
        )
    elements = [_read(_place_of(content)) for content in moved]
    start = 0
    try:
        Path(target).write_bytes(b"".join(elements))
    except OSError as error:
        raise popart_runtime_error(f"Cannot write {target}: {error.strerror}") from None
    for content, part in zip(moved, elements, strict=True):
        content.ClearField("external_data")
        refer(content, target, len(part), start)
        start += len(part)
