"""What PopTorch's binding has under this name, as far as programs ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from poptorch.errors import Error, RecoverableError, UnrecoverableError, error_of
from poptorch.options.validation import check_popart_options
from poptorch.running import isRunningOnIpu

__all__ = [
    "Error",
    "RecoverableError",
    "TestErrorType",
    "UnrecoverableError",
    "isCompilingWithDispatcher",
]


class TestErrorType(Enum):
    """Kinds of errors that tests let pass through them."""

    Poptorch = 0
    Popart = 1
    PopartInternal = 2
    Poplibs = 3
    PoplarUnrecoverable = 4
    PoplarUnknown = 5
    PoplarRecoverableFullReset = 6
    PoplarLinkError = 7


#: Class, kind and message of the errors.
_ERRORS: Mapping[TestErrorType, tuple[type[Error], str, str]] = {
    TestErrorType.Poptorch: (Error, "poptorch_cpp_error", "This is a PopTorch error"),
    TestErrorType.Popart: (Error, "popart_exception", "This is a PopART error"),
    TestErrorType.PopartInternal: (Error, "popart_internal_exception", "This is a PopART error"),
    TestErrorType.Poplibs: (Error, "poplibs_exception", "This is a PopLibs error"),
    TestErrorType.PoplarUnrecoverable: (
        UnrecoverableError,
        "poplar_unrecoverable_runtime_error",
        "Nothing helps",
    ),
    TestErrorType.PoplarUnknown: (Error, "poplar_unknown_runtime_error", "The cause is unknown"),
    TestErrorType.PoplarRecoverableFullReset: (
        RecoverableError,
        "poplar_recoverable_runtime_error",
        "A reset helps",
    ),
    TestErrorType.PoplarLinkError: (
        Error,
        "poplar_link_error",
        "Linking failed: Library -lfoo not found",
    ),
}

_PLACES = ("throwTestError::bottomLevel", "throwTestError::topLevel")


def _throwTestError(kind: TestErrorType) -> None:
    """Raise an error of a kind.

    Raises
    ------
    Error
        Always.
    """
    cls, name, message = _ERRORS[kind]
    location = "\n".join(f"  [{level}] {place}" for level, place in enumerate(_PLACES))
    error = error_of(name, message, cls)
    error.args = (f"{error.args[0]}\nError raised in:\n{location}",)
    error.location = location
    if isinstance(error, RecoverableError):
        error.recovery_action = "FULL_RESET"
    raise error


def _validateOptions(options: Mapping[str, Any]) -> None:
    """Refuse unknown options of PopART.

    Raises
    ------
    Error
        Names the option.
    """
    check_popart_options({k: v for k, v in options.items() if not _is_of_poptorch(k)})


def _is_of_poptorch(name: str) -> bool:
    from poptorch.options import Options
    from poptorch.options.popart_names import NAMES

    own = Options()
    groups = (own, own.Training, own.Distributed)
    known = {key for group in groups for key in group._values}
    known |= {"execution_mode", "compilation_progress_bar_fn", "model_name", "use_model"}
    return name not in NAMES and (name in known or name.startswith("location_"))


def isCompilingWithDispatcher() -> bool:
    """Whether a model is being put on the device."""
    return isRunningOnIpu()
