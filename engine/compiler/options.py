"""Options of a compilation, besides the graph and the programs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["CompileOptions"]


@dataclass(frozen=True)
class CompileOptions:
    """Compiler options, resolved by the caller: the compiler reads no environment.

    Parameters
    ----------
    is_instrumented
        Whether cycle counters occupy tile memory.
    is_checked
        Whether to check that no vertex reads or writes what another vertex of its compute set
        writes.
    cache_directory
        Directory of the executable cache; None disables the cache.
    is_independent
        Whether replicas copy from and to the host without waiting for each other.
    """

    is_instrumented: bool = True
    is_checked: bool = False
    cache_directory: Path | str | None = None
    is_independent: bool = False
