"""Errors of the engine as PopART's."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

import onnx

from popart.errors import (
    OutOfMemoryException,
    popart_exception,
    poplar_application_runtime_error,
)
from popart.node_refusals import explanation
from popart.sentences import in_words_of_popart
from tilescope.engine.errors import EngineError, OutOfTileMemory, ProgramError

__all__ = ["as_popart"]


@contextmanager
def as_popart(proto: onnx.ModelProto | None = None) -> Any:
    """Raise the engine's errors as PopART's; of a model, with what PopART says of its nodes."""
    try:
        yield
    except ProgramError as error:
        raise poplar_application_runtime_error(str(error)) from None
    except OutOfTileMemory as error:
        raise OutOfMemoryException(str(error)) from None
    except EngineError as error:
        said = None if proto is None else explanation(proto)
        raise popart_exception(said or in_words_of_popart(str(error))) from None
