"""One sentence for what no check of a model foresaw."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import google.protobuf.message
import onnx

from tilescope.engine.errors import BadModel

__all__ = ["refusing_plainly"]

_P = ParamSpec("_P")
_T = TypeVar("_T")
_MOST_CHARACTERS = 160

#: What numpy, ONNX, protobuf and the reader itself raise for a model that contradicts itself.
_UNFORESEEN = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
    google.protobuf.message.Error,
    onnx.checker.ValidationError,
    onnx.shape_inference.InferenceError,
)


def refusing_plainly(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return a function of a model's path that refuses what it cannot read in one sentence.

    The cause of a refusal that no check foresaw is kept for whoever looks for it.

    Raises
    ------
    BadModel
        By the returned function, when the model is inconsistent.
    """

    @wraps(function)
    def read(*arguments: _P.args, **options: _P.kwargs) -> _T:
        path = arguments[0] if arguments else options.get("path")
        try:
            return function(*arguments, **options)
        except UnicodeDecodeError as error:
            raise BadModel(
                f"Model {path} holds a name that is not valid UTF-8: export it again"
            ) from error
        except RecursionError as error:
            raise BadModel(f"Model {path} is nested too deeply: export it without loops") from error
        except _UNFORESEEN as error:
            raise BadModel(
                f"Model {path} is inconsistent: {_reason(error)}; export it again"
            ) from error

    return read


def _reason(error: Exception) -> str:
    """Return the first line of a message, shortened."""
    lines = str(error).strip().splitlines() or [""]
    text = lines[0] if len(lines[0]) <= _MOST_CHARACTERS else f"{lines[0][:_MOST_CHARACTERS]}…"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
