"""The executable cache: what compiling worked out, kept in a directory for the next process."""

from engine.compiler.cache.cached import CachedCompilation
from engine.compiler.cache.store import ExecutableCache

__all__ = ["CachedCompilation", "ExecutableCache"]
