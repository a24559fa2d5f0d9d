"""The executable cache: compiled programs, kept in a directory for the next process."""

from tilescope.engine.compiler.cache.cached import CachedCompilation
from tilescope.engine.compiler.cache.plans import plans_kept_in

__all__ = ["CachedCompilation", "plans_kept_in"]
