"""Lowers the operator graph to vertices and programs by calling the library."""

from tilescope.engine.lower.model import lower

__all__ = ["lower"]
