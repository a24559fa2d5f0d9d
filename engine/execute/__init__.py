"""The BSP loop: memory of the variables, streams, launch of the kernels, the trace."""

from tilescope.engine.execute.engine import Engine

__all__ = ["Engine"]
