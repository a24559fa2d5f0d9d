"""Lowers the operator graph to vertices and programs: every operator's record calls the library."""

from tilescope.engine.lower.lowering import Lowering
from tilescope.engine.lower.model import Lowered, lower

__all__ = ["Lowered", "Lowering", "lower"]
