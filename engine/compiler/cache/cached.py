"""One compilation with the cache beside it: what was found, and what to keep."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from tilescope.engine.compiler.cache.description import describe_compilation
from tilescope.engine.compiler.cache.entry import Compiled
from tilescope.engine.compiler.cache.store import CacheFolder
from tilescope.engine.compiler.options import CompileOptions
from tilescope.engine.compiler.step_cost import StepCost
from tilescope.engine.compiler.tile_memory import Memory
from tilescope.engine.compiler.transfer import Around
from tilescope.engine.graph import ComputeSet, GraphImage
from tilescope.engine.program import Program

__all__ = ["CachedCompilation"]

_log = logging.getLogger(__name__)


class CachedCompilation:
    """Looks a compilation up when it is made.

    Parameters
    ----------
    graph, programs
        The frozen image, and its programs before they are lowered.
    compute_cost
        Gives what a compute set costs by the laws of its codelets.
    options
        Of the compiler; no cache without a directory.

    Attributes
    ----------
    found
        What the cache holds of it; None when it has to be compiled.
    """

    def __init__(
        self,
        graph: GraphImage,
        programs: Sequence[Program],
        compute_cost: Callable[[ComputeSet], StepCost],
        options: CompileOptions,
    ) -> None:
        self._graph = graph
        self._cache: CacheFolder | None = None
        self._description = b""
        self.found: Compiled | None = None
        if options.cache_directory is None:
            return
        facts = {"is_instrumented": options.is_instrumented, "is_checked": options.is_checked}
        try:
            self._description = describe_compilation(graph, programs, compute_cost, facts)
        except TypeError as error:
            _log.warning("warning: executable not cached: %s", error)
            return
        self._cache = CacheFolder(options.cache_directory, "executable")
        build = partial(Compiled.from_arrays, machine=graph.machine)
        self.found = self._cache.load(self._description, build)

    @property
    def state(self) -> str:
        """``off``, ``miss`` or ``hit``."""
        if self._cache is None:
            return "off"
        return "miss" if self.found is None else "hit"

    def memory(self, n_steps: int) -> Memory | None:
        """Return the memory that was found; None without."""
        if self.found is None or not self.found.fits(self._graph, n_steps):
            self.found = None
            return None
        return self.found.memory

    def keep(self, around: Mapping[int, Around], memory: Memory) -> None:
        """Keep what was compiled, where there is a cache."""
        if self._cache is None:
            return
        facts, arrays = Compiled(around, memory).to_arrays()
        self._cache.store(self._description, facts, arrays)
