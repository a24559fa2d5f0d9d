"""Models as programs give them: their bytes, or the path of a file."""

from __future__ import annotations

import os
from pathlib import Path

import google.protobuf.message
import onnx

from popart.builder.tensor import unpack_halves
from popart.errors import popart_exception

__all__ = ["check", "read_model"]

_SHOWN = 100


def read_model(source: str | bytes | os.PathLike[str]) -> onnx.ModelProto:
    """Return a model that is valid.

    Parameters
    ----------
    source
        Its bytes, or the path of its file.
    """
    content = _content_of(source)
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
        check(model)
    except google.protobuf.message.DecodeError as error:
        shown = repr(source if len(source) <= _SHOWN else source[:_SHOWN])  # type: ignore[arg-type, index]
        raise popart_exception(
            f"Failed to load a ModelProto from the string {shown}.\nCheck that it is either a valid"
            " path to an existing onnx model file, or is a valid onnx ModelProto string."
        ) from error
    except onnx.checker.ValidationError as error:
        raise popart_exception(str(error)) from error
    return model


def check(model: onnx.ModelProto) -> None:
    """Check a model, whose external contents may stand at any path that the process can read.

    Raises ``onnx.checker.ValidationError``, and ``RuntimeError`` for a file that is missing.

    Parameters
    ----------
    model
        The model; it is not changed.
    """
    external = [
        content
        for content in model.graph.initializer
        if content.data_location == onnx.TensorProto.EXTERNAL
    ]
    halves = [c for c in model.graph.initializer if c.data_type == onnx.TensorProto.FLOAT16]
    if external or halves:
        checked = onnx.ModelProto()
        checked.CopyFrom(model)
        inputs = {value.name for value in model.graph.input}
        for content in external:
            _check_file(content)
            checked.graph.initializer.remove(content)
            if content.name not in inputs:
                of = onnx.helper.make_tensor_type_proto(content.data_type, content.dims)
                checked.graph.input.add(name=content.name, type=of)
        unpack_halves(checked.graph)
        model = checked
    onnx.checker.check_model(model)


def _check_file(content: onnx.TensorProto) -> None:
    """Refuse a content whose file, relative to the working directory, is missing."""
    location = next((e.value for e in content.external_data if e.key == "location"), "")
    if not Path(location).is_file():
        raise RuntimeError(
            f"Data of TensorProto ( tensor name: {content.name}) should be stored in {location},"
            " but it doesn't exist or is not accessible."
        )


def _content_of(source: str | bytes | os.PathLike[str]) -> bytes:
    if isinstance(source, bytes):
        is_path = len(source) < 4096 and b"\0" not in source and os.path.isfile(source)
        return Path(os.fsdecode(source)).read_bytes() if is_path else source
    path = Path(source)
    if not path.is_file():
        raise popart_exception(
            f"Failed to load a ModelProto from the string '{source}'.\nCheck that it is either a"
            " valid path to an existing onnx model file, or is a valid onnx ModelProto string."
        )
    return path.read_bytes()
