"""What a compilation is told beside graph and programs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["CompileOptions"]


@dataclass(frozen=True)
class CompileOptions:
    """Options of the compiler, resolved by its caller: it reads no environment.

    Parameters
    ----------
    is_instrumented
        Whether cycle counters take memory on the tiles.
    is_checked
        Whether to check that no vertex reads or writes what another one of its compute set
        writes.
    cache_directory
        Of the executable cache; no cache when None.
    """

    is_instrumented: bool = True
    is_checked: bool = False
    cache_directory: Path | str | None = None
