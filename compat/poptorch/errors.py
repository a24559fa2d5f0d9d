"""Exceptions that programs written against PopTorch catch.

::

    Error                     what PopTorch, PopART or Poplar refuses, or what fails
    ├── RecoverableError      a failure after which a reset helps
    └── UnrecoverableError    a failure that needs an operator
    ConfigFileError           a file of options that cannot be read
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeGuard

from tilescope.engine.errors import EngineError, OutOfTileMemory

__all__ = [
    "ConfigFileError",
    "Error",
    "RecoverableError",
    "UnrecoverableError",
    "createPoptorchError",
    "engine_errors",
    "error_of",
]


class Error(Exception):
    """What is refused, or fails.

    Parameters
    ----------
    text
        The whole message.

    Attributes
    ----------
    type
        Kind of the error, such as ``poptorch_py_error``.
    message
        The message without its kind.
    location
        Where it was raised; empty if nobody knows.
    """

    type: str = ""
    message: str = ""
    location: str = ""


class RecoverableError(Error):
    """A failure of the device after which a reset helps.

    Attributes
    ----------
    recovery_action
        The reset: ``IPU_RESET``, ``LINK_RESET``, ``PARTITION_RESET`` or ``FULL_RESET``.
    """

    recovery_action: str = ""


class UnrecoverableError(Error):
    """A failure of the device that needs an operator."""


class ConfigFileError(Exception):
    """A file of options that cannot be read."""


def error_of(kind: str, message: str, cls: type[Error] = Error) -> Error:
    """Return an error of a kind."""
    error = cls(f"'{kind}': {message}")
    error.type, error.message = kind, message
    return error


def createPoptorchError(msg: str) -> Error:
    """Return the error that the Python part of PopTorch raises, with a message."""
    return error_of("poptorch_py_error", msg)


@contextmanager
def engine_errors() -> Iterator[None]:
    """Raise the errors of the engine as PopTorch's, and those of a module's code as they are.

    Raises
    ------
    Error
        With the engine's sentence.
    """
    try:
        yield
    except OutOfTileMemory as error:
        text = f"Out of memory: Cannot fit all variable data onto one or more tiles. {error}"
        raise error_of("popart_exception", text) from error
    except EngineError as error:
        if _is_of_program(error.__cause__):
            raise _of_tensors(error.__cause__) from None
        raise error_of("popart_exception", str(error)) from error


def _of_tensors(error: Exception) -> Exception:
    """Return an exception that names tensors as PyTorch does outside of an export."""
    error.args = tuple(
        item.replace("FakeTensor", "Tensor") if isinstance(item, str) else item
        for item in error.args
    )
    return error


def _is_of_program(error: BaseException | None) -> TypeGuard[Exception]:
    """Return whether an exception was raised by a module's own code, or by what it calls here."""
    trace = None if error is None else error.__traceback__
    file = ""
    while trace is not None:
        file, trace = trace.tb_frame.f_code.co_filename, trace.tb_next
    parts = Path(file).parts
    return bool(file) and "torch" not in parts and not file.startswith("<")
