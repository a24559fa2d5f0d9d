"""The processor that kernels are compiled for: the host's, or the one in NUMBA_CPU_NAME."""

from __future__ import annotations

import functools
import logging

from tilescope.engine.host.jit.code_files import cache_folder
from tilescope.engine.host.jit.settings import processor
from tilescope.private_folder import NotPrivate, PrivateFolder

__all__ = ["note_processor", "report_new_code"]

_log = logging.getLogger(__name__)

_FILE = "processor"
_LARGEST_BYTES = 1 << 16


def note_processor() -> str:
    """Write down for which processor kernels are compiled ahead, and return its name.

    Raises
    ------
    NotPrivate
        When another user may write to the folder of the kernels.
    """
    this_processor = processor()
    PrivateFolder(cache_folder()).write(
        _FILE, f"{this_processor.name}\n{this_processor.description}".encode("ascii")
    )
    return this_processor.name


@functools.cache
def report_new_code() -> None:
    """Say once that kernels are compiled anew although some were compiled for another processor."""
    folder = PrivateFolder(cache_folder())
    try:
        noted, described = folder.read(_FILE, _LARGEST_BYTES).decode("ascii").split("\n", 1)
    except (NotPrivate, OSError, ValueError):
        return
    this_processor = processor()
    if this_processor.description != described:
        _log.warning(
            "warning: kernels in %s are compiled for the processor %s, and are compiled anew for"
            " %s; NUMBA_CPU_NAME names another one",
            folder.path,
            noted,
            this_processor.name,
        )
