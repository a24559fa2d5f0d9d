"""The executable cache: compiled programs stored in a directory and reused across processes."""

from tilescope.engine.compiler.cache.cached import CachedCompilation
from tilescope.engine.compiler.cache.exchange_folder import ExchangeFolder
from tilescope.engine.compiler.cache.plans import PlanFolder

__all__ = ["CachedCompilation", "ExchangeFolder", "PlanFolder"]
