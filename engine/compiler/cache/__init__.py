"""The executable cache: compiled programs, kept in a directory for the next process."""

from tilescope.engine.compiler.cache.cached import CachedCompilation
from tilescope.engine.compiler.cache.plans import PlanFolder

__all__ = ["CachedCompilation", "PlanFolder"]
