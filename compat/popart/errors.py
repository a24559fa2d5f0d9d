"""Exceptions that programs written against PopART catch.

::

    popart_exception              a model, option or call that PopART refuses
    ├── popart_internal_exception
    ├── popart_runtime_error      a step of a session that cannot be made
    └── OutOfMemoryException      a program that does not fit, with its report
    poplibs_exception
    poplar_exception              an option or program that Poplar refuses
    └── poplar_runtime_error
        ├── poplar_application_runtime_error
        └── poplar_system_runtime_error
            ├── poplar_recoverable_runtime_error
            ├── poplar_unrecoverable_runtime_error
            └── poplar_unknown_runtime_error
"""

from __future__ import annotations

from collections.abc import Callable

from popart.enumeration import Enumeration

__all__ = [
    "THROWERS",
    "NoEffectWarning",
    "OutOfMemoryException",
    "RecoveryAction",
    "popart_exception",
    "popart_internal_exception",
    "popart_runtime_error",
    "poplar_application_runtime_error",
    "poplar_exception",
    "poplar_recoverable_runtime_error",
    "poplar_runtime_error",
    "poplar_system_runtime_error",
    "poplar_unknown_runtime_error",
    "poplar_unrecoverable_runtime_error",
    "poplibs_exception",
]


class RecoveryAction(Enumeration):
    """What a host may do after a recoverable error of the hardware."""

    IPU_RESET = 0
    LINK_RESET = 1
    PARTITION_RESET = 2
    FULL_RESET = 3


class NoEffectWarning(UserWarning):
    """An option or call that changes nothing on the simulated machine; given once by name."""


class popart_exception(Exception):
    """A model, option or call that PopART refuses."""


class popart_internal_exception(popart_exception):
    """An inconsistency inside the module."""


class popart_runtime_error(popart_exception):
    """A step of a session that cannot be made, such as an optimizer of another kind."""


class OutOfMemoryException(popart_exception):
    """A program that does not fit into the memory of the tiles.

    Parameters
    ----------
    message
        What does not fit.
    summary_report
        Text of the report on the program.
    profile_path
        Absolute path of `profile.pop`, empty if none was written.
    """

    def __init__(self, message: str, summary_report: str = "", profile_path: str = "") -> None:
        super().__init__(message)
        self._summary_report = summary_report
        self._profile_path = profile_path

    def getSummaryReport(self) -> str:
        """Return the text of the report on the program that does not fit."""
        return self._summary_report

    def getProfilePath(self) -> str:
        """Return the absolute path of `profile.pop`, empty if none was written."""
        return self._profile_path


class poplibs_exception(Exception):
    """A library call that PopLibs refuses."""


class poplar_exception(Exception):
    """An option or program that Poplar refuses."""


class poplar_runtime_error(poplar_exception):
    """A program that fails while it runs."""


class poplar_application_runtime_error(poplar_runtime_error):
    """A program that ends itself, such as by ``abort`` or a floating-point exception."""


class poplar_system_runtime_error(poplar_runtime_error):
    """A failure of the hardware; a simulated machine has none."""


class poplar_recoverable_runtime_error(poplar_system_runtime_error):
    """A failure of the hardware after which the host may reset and go on.

    Parameters
    ----------
    message
        What failed.
    recoveryAction
        The reset that is needed.
    """

    def __init__(
        self, message: str = "", recoveryAction: RecoveryAction = RecoveryAction.IPU_RESET
    ) -> None:
        super().__init__(message)
        self.recoveryAction = recoveryAction


class poplar_unrecoverable_runtime_error(poplar_system_runtime_error):
    """A failure of the hardware that needs an operator."""


class poplar_unknown_runtime_error(poplar_system_runtime_error):
    """A failure of the hardware without a known cause."""


def _thrower(kind: type[Exception]) -> Callable[[str], None]:
    """Return a function that raises an exception with a message."""

    def throw(msg: str) -> None:
        raise kind(msg)

    return throw


#: Functions by which tests of programs see how exceptions pass through them, by name.
THROWERS: dict[str, Callable[[str], None]] = {
    "_throw_popart_error": _thrower(popart_exception),
    "_throw_popart_internal_error": _thrower(popart_internal_exception),
    "_throw_popart_runtime_error": _thrower(popart_runtime_error),
    "_throw_poplibs_error": _thrower(poplibs_exception),
    "_throw_poplar_error": _thrower(poplar_exception),
    "_throw_poplar_runtime_error": _thrower(poplar_runtime_error),
    "_throw_application_runtime_error": _thrower(poplar_application_runtime_error),
    "_throw_system_runtime_error": _thrower(poplar_system_runtime_error),
    "_throw_recoverable_runtime_error": _thrower(poplar_recoverable_runtime_error),
    "_throw_unrecoverable_runtime_error": _thrower(poplar_unrecoverable_runtime_error),
    "_throw_unknown_runtime_error": _thrower(poplar_unknown_runtime_error),
}
