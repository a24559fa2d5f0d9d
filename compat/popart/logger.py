"""PopART's logger: levels by name, messages on stderr."""

from __future__ import annotations

import logging
import os
import sys
from functools import cache

__all__ = ["Logger", "getLogger", "logger_of_poplibs", "warn"]

_LEVELS = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERR": logging.ERROR,
    "CRITICAL": logging.CRITICAL,
    "OFF": logging.CRITICAL + 10,
}
#: Names that programs use as well.
_OTHER_NAMES = {"WARNING": "WARN", "ERROR": "ERR"}


class _StandardError(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to what is ``sys.stderr`` when a message comes."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


@cache
def _root() -> logging.Logger:
    root = logging.getLogger("popart")
    handler = _StandardError()
    handler.setFormatter(logging.Formatter("%(asctime)s [%(name)s] [%(levelname).1s] %(message)s"))
    root.addHandler(handler)
    root.propagate = False
    root.setLevel(_level(os.environ.get("POPART_LOG_LEVEL", "WARN")))
    return root


def _level(name: str) -> int:
    """Return the level of a name; none is logged under an unknown one, as in PopART."""
    upper = name.upper()
    return _LEVELS.get(_OTHER_NAMES.get(upper, upper), _LEVELS["OFF"])


@cache
def logger_of_poplibs() -> logging.Logger:
    """Return the logger of the libraries below PopART, whose level the environment sets."""
    logger = logging.getLogger("poplibs")
    handler = _StandardError()
    handler.setFormatter(logging.Formatter("%(asctime)s [POPLIBS:POPLIN] [D] %(message)s"))
    logger.addHandler(handler)
    logger.propagate = False
    return logger


class Logger:
    """The logger of a module of PopART, ``all`` for all of them."""

    def __init__(self, name: str) -> None:
        root = _root()
        self._logger = root if name == "all" else root.getChild(name)

    def setLevel(self, level: str) -> None:
        """Set the level by its name: TRACE, DEBUG, INFO, WARN, ERR, CRITICAL or OFF."""
        self._logger.setLevel(_level(level))

    def debug(self, info: str) -> None:
        """Write a message of level DEBUG."""
        self._logger.debug("%s", info)

    def info(self, info: str) -> None:
        """Write a message of level INFO."""
        self._logger.info("%s", info)

    def warn(self, info: str) -> None:
        """Write a message of level WARN."""
        self._logger.warning("%s", info)

    def error(self, info: str) -> None:
        """Write a message of level ERR."""
        self._logger.error("%s", info)

    def critical(self, info: str) -> None:
        """Write a message of level CRITICAL."""
        self._logger.critical("%s", info)


def getLogger(name: str = "all") -> Logger:
    """Return the logger of a module of PopART; levels of ``all`` hold for those without one."""
    return Logger(name)


def warn(message: str) -> None:
    """Write a message of level WARN."""
    getLogger().warn(message)
