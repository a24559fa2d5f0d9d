"""The processor that kernels are compiled for: the host's, or the one in NUMBA_CPU_NAME."""

from __future__ import annotations

import functools
import logging

from tilescope.engine.jit.code_files import cache_folder
from tilescope.engine.jit.settings import processor

__all__ = ["note_processor", "report_new_code"]

_log = logging.getLogger(__name__)

_FILE = "processor"


def note_processor() -> str:
    """Write down for which processor kernels are compiled ahead, and return its name."""
    path = cache_folder() / _FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    own = processor()
    path.write_text(f"{own.name}\n{own.description}", encoding="ascii")
    return own.name


@functools.cache
def report_new_code() -> None:
    """Say once that kernels are compiled anew although some were compiled for another processor."""
    path = cache_folder() / _FILE
    try:
        noted, described = path.read_text(encoding="ascii").split("\n", 1)
    except (OSError, ValueError):
        return
    own = processor()
    if own.description != described:
        _log.warning(
            "warning: kernels in %s are compiled for the processor %s, and are compiled anew for"
            " %s; NUMBA_CPU_NAME names another one",
            path.parent,
            noted,
            own.name,
        )
