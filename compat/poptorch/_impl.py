"""What programs ask PopTorch's private parts for: whether they run while a model is traced."""

from __future__ import annotations

__all__ = ["isDispatchTracing"]


def isDispatchTracing() -> bool:
    """Return False: modules are exported by PyTorch, no dispatcher of the device traces them."""
    return False
