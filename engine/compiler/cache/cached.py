"""One compilation with its cache lookup: what was found and what to store."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from tilescope.engine.channels import POPLAR
from tilescope.engine.compiler.cache.description import describe_compilation
from tilescope.engine.compiler.cache.entry import Compiled
from tilescope.engine.compiler.cache.store import CacheFolder
from tilescope.engine.compiler.exchange.exchanges import Around
from tilescope.engine.compiler.executable.step_cost import StepCost
from tilescope.engine.compiler.executable.tile_memory import Memory
from tilescope.engine.compiler.options import CompileOptions
from tilescope.engine.graph import ComputeSet, GraphImage
from tilescope.engine.program import Program
from tilescope.tracepoints import traced

__all__ = ["CachedCompilation"]

_log = logging.getLogger(__name__)


class CachedCompilation:
    """Looks a compilation up in the cache on construction.

    Parameters
    ----------
    graph, programs
        The frozen image, and its programs before lowering.
    compute_cost
        Returns the cost of a compute set, from the cycle laws of its codelets.
    options
        Compiler options; without a directory nothing is cached.

    Attributes
    ----------
    found
        The cache entry; None on a miss.
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

    @traced(POPLAR, "cache.take memory")
    def memory(self, n_steps: int) -> Memory | None:
        """Return the cached memory layout; None on a miss."""
        if self.found is None or not self.found.fits(self._graph, n_steps):
            self.found = None
            return None
        return self.found.memory

    @traced(POPLAR, "cache.keep memory")
    def keep(self, around: Mapping[int, Around], memory: Memory) -> None:
        """Store the compiled parts if caching is enabled."""
        if self._cache is None:
            return
        facts, arrays = Compiled(around, memory).to_arrays()
        self._cache.store(self._description, facts, arrays)
