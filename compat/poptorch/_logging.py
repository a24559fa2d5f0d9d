"""PopTorch's logger: levels by name and number, messages on stderr."""

from __future__ import annotations

import logging
import os
import sys

__all__ = ["logger", "setLogLevel", "setPopartLogLevel", "warn_once"]

logger = logging.getLogger("poptorch::python")

#: Numbers and Python's levels by PopTorch's names.
_LEVELS = {
    "TRACE": (0, logging.DEBUG),
    "TRACE_ALL": (0, logging.DEBUG),
    "DEBUG": (1, logging.DEBUG),
    "DEBUG_IR": (1, logging.DEBUG),
    "INFO": (2, logging.INFO),
    "WARN": (3, logging.WARNING),
    "ERR": (4, logging.ERROR),
    "OFF": (6, logging.CRITICAL),
}

#: Names that messages do not offer.
_HIDDEN = ("TRACE_ALL", "DEBUG_IR")

_warned: set[str] = set()


class _StandardError(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to what is ``sys.stderr`` when a message comes."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


class _Formatter(logging.Formatter):
    """Time, logger and level in brackets before the message."""

    def format(self, record: logging.LogRecord) -> str:
        level = record.levelname.lower()
        time = f"{self.formatTime(record, '%H:%M:%S')}.{int(record.msecs):03d}"
        return f"[{time}] [{record.name}] [{level}] {record.getMessage()}"


def setLogLevel(level: str | int) -> None:
    """Set the level of messages.

    Parameters
    ----------
    level
        A name, such as ``WARN``, or its number.

    Raises
    ------
    ValueError
        When the level is unknown.
    """
    if isinstance(level, int):
        names = [name for name, (number, _) in _LEVELS.items() if number == level]
        if not names:
            raise ValueError("Invalid log level integer")
        level = names[0]
    if level not in _LEVELS:
        *first, last = sorted(name for name in _LEVELS if name not in _HIDDEN)
        raise ValueError(
            f"Unknown log level: {level}. Valid values are {', '.join(first)} and {last}"
        )
    logger.setLevel(_LEVELS[level][1])


def setPopartLogLevel(level: str) -> None:
    """Set the level of the messages of what is below PopTorch.

    Raises
    ------
    ValueError
        When the level is unknown.
    """
    if not isinstance(level, str) or level not in _LEVELS:
        raise ValueError("Level must be one of " + ", ".join(_LEVELS))
    logging.getLogger("tilescope").setLevel(_LEVELS[level][1])


def warn_once(name: str, reason: str) -> None:
    """Warn that an option or call has no effect, once in a process by its name."""
    if name not in _warned:
        _warned.add(name)
        logger.warning("%s has no effect: %s", name, reason)


_handler = _StandardError()
_handler.setFormatter(_Formatter())
logger.addHandler(_handler)
setLogLevel(os.environ.get("POPTORCH_LOG_LEVEL", "WARN"))
