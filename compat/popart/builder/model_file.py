"""Models as programs give them: their bytes, or the path of a file."""

from __future__ import annotations

import os
from pathlib import Path

import google.protobuf.message
import onnx

from popart.errors import popart_exception

__all__ = ["read_model"]

_SHOWN = 100


def read_model(given: str | bytes | os.PathLike[str]) -> onnx.ModelProto:
    """Return a model that is valid.

    Parameters
    ----------
    given
        Its bytes, or the path of its file.
    """
    content = _content_of(given)
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
        onnx.checker.check_model(model)
    except google.protobuf.message.DecodeError as error:
        shown = repr(given if len(given) <= _SHOWN else given[:_SHOWN])  # type: ignore[arg-type, index]
        raise popart_exception(
            f"Failed to load a ModelProto from the string {shown}.\nCheck that it is either a valid"
            " path to an existing onnx model file, or is a valid onnx ModelProto string."
        ) from error
    except onnx.checker.ValidationError as error:
        raise popart_exception(str(error)) from error
    return model


def _content_of(given: str | bytes | os.PathLike[str]) -> bytes:
    if isinstance(given, bytes):
        is_path = len(given) < 4096 and b"\0" not in given and os.path.isfile(given)
        return Path(os.fsdecode(given)).read_bytes() if is_path else given
    path = Path(given)
    if not path.is_file():
        raise popart_exception(
            f"Failed to load a ModelProto from the string '{given}'.\nCheck that it is either a"
            " valid path to an existing onnx model file, or is a valid onnx ModelProto string."
        )
    return path.read_bytes()
