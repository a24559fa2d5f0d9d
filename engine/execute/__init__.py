"""The BSP loop: memory of the variables, streams, launch of the kernels, the trace."""

from tilescope.engine.execute.device import Device

__all__ = ["Device"]
