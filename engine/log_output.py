"""POPLAR_LOG_LEVEL and POPLAR_LOG_DEST: level and destination of the engine's log.

Modules log under their own names, ``tilescope.engine.compiler`` and so on. Without a variable,
nothing is configured, and a program keeps its own logging.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Mapping
from typing import Any

from tilescope.engine.errors import BadOption

__all__ = ["LEVELS", "MODULES", "TRACE", "LineFormatter", "follow_environment"]

#: Below DEBUG: one record per tile.
TRACE = 5

#: Levels as Poplar calls them, from silent to everything.
LEVELS = {
    "OFF": logging.CRITICAL + 1,
    "CRITICAL": logging.CRITICAL,
    "ERR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": TRACE,
}

#: Poplar's modules with a level of their own, POPLAR_<MODULE>_LOG_LEVEL, and their loggers.
MODULES = {
    "CODELETS": ("tilescope.engine.codelets",),
    "ENGINE": ("tilescope.engine.execute", "tilescope.engine.session"),
    "GRAPH": (
        "tilescope.engine.graph",
        "tilescope.engine.frontend",
        "tilescope.engine.lower",
        "tilescope.engine.planner",
    ),
    "PROFILER": ("tilescope.engine.recorder",),
    "PROGRAM": ("tilescope.engine.compiler",),
    "TARGET": ("tilescope.engine.machine",),
}

_LETTERS = {level: name[0] for name, level in LEVELS.items() if name != "OFF"}
_MODULE_OF = {logger: module for module, loggers in MODULES.items() for logger in loggers}
_WIDTH = max(map(len, MODULES))


class LineFormatter(logging.Formatter):
    """Time in UTC, ``PO:`` and the module, process and thread, the level's letter, the text.

    Notes
    -----
    The form of the libraries' lines with Poplar's prefix. Source: graphcore/poplibs
    sdk-release-3.4, lib/poplibs_support/logging.cpp.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line; line breaks are escaped."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        micros = int(record.created % 1 * 1e6)
        module = _MODULE_OF.get(".".join(record.name.split(".")[:3]), "POPLAR")
        letter = _LETTERS.get(record.levelno, "I")
        text = "".join(
            c if c.isprintable() else c.encode("unicode_escape").decode()
            for c in record.getMessage()
        )
        ids = f"{record.process}.{record.thread}"
        return f"{seconds}.{micros:06}Z PO:{module:<{_WIDTH}} {ids} {letter}: {text}"


_handler: logging.Handler | None = None


def follow_environment(environ: Mapping[str, str] | None = None) -> None:
    """Configure logging from the environment; called when the engine is imported.

    Parameters
    ----------
    environ
        Source of the variables; default: the environment of the process.

    Raises
    ------
    BadOption
        A level is unknown, or the file of POPLAR_LOG_DEST is not writable.
    """
    variables = os.environ if environ is None else environ
    module_levels = {module: variables.get(f"POPLAR_{module}_LOG_LEVEL", "") for module in MODULES}
    levels = {m: _level(t, f"POPLAR_{m}_LOG_LEVEL") for m, t in module_levels.items() if t}
    level_text = variables.get("POPLAR_LOG_LEVEL", "")
    level = _level(level_text, "POPLAR_LOG_LEVEL") if level_text else None
    if level is None and not levels:
        return
    logger = logging.getLogger("tilescope.engine")
    _replace_handler(logger, variables.get("POPLAR_LOG_DEST", "") or "stderr")
    # Warnings come as they do without the variables, unless a level says otherwise.
    logger.setLevel(logging.WARNING if level is None else level)
    logger.propagate = False
    for module, loggers in MODULES.items():
        for name in loggers:
            logging.getLogger(name).setLevel(levels.get(module, logging.NOTSET))


def _level(text: str, variable: str) -> int:
    level = LEVELS.get(text.strip().upper())
    if level is None:
        raise BadOption(f"{variable} is {text[:60]!r}; expected one of {', '.join(LEVELS)}")
    return level


def _replace_handler(logger: logging.Logger, destination: str) -> None:
    global _handler  # noqa: PLW0603 - there is one destination in a process
    handler: logging.Handler
    if destination in ("stderr", "stdout"):
        handler = _StandardStream(destination)
    else:
        try:
            handler = logging.FileHandler(destination, mode="w", encoding="utf-8")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "not a path"
            raise BadOption(
                f"POPLAR_LOG_DEST is {destination[:200]!r}, which is not writable ({reason});"
                " expected stderr, stdout or the path of a file"
            ) from None
    handler.setFormatter(LineFormatter())
    if _handler is not None:
        logger.removeHandler(_handler)
        _handler.close()
    _handler = handler
    logger.addHandler(handler)


class _StandardStream(logging.StreamHandler[Any]):
    """Writes to the current standard stream, which tests and notebooks replace."""

    def __init__(self, name: str) -> None:
        self._name_of_stream = name
        super().__init__()

    @property
    def stream(self) -> Any:
        """The current stream."""
        return getattr(sys, self._name_of_stream)

    @stream.setter
    def stream(self, _: Any) -> None:
        """Keep following the standard stream."""
