"""Whether a module is being put on the device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["isRunningOnIpu", "running_on_ipu"]

#: How many exports are under way: a plain value, which PyTorch's exports can read, too.
_state = {"n_exports": 0}


def isRunningOnIpu() -> bool:
    """Whether the code that asks is part of a model on the device."""
    return _state["n_exports"] > 0


@contextmanager
def running_on_ipu() -> Iterator[None]:
    """Let what is called be part of a model on the device."""
    _state["n_exports"] += 1
    try:
        yield
    finally:
        _state["n_exports"] -= 1
