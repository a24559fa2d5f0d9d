"""The BSP loop: variable storage, streams, kernel launches, the trace."""

from tilescope.engine.execute.device import Device

__all__ = ["Device"]
