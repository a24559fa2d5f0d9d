"""Whether a module is being put on the device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["isRunningOnIpu", "running_on_ipu"]

_is_running: ContextVar[bool] = ContextVar("is_running", default=False)


def isRunningOnIpu() -> bool:
    """Whether the code that asks is part of a model on the device."""
    return _is_running.get()


@contextmanager
def running_on_ipu() -> Iterator[None]:
    """Let what is called be part of a model on the device."""
    token = _is_running.set(True)
    try:
        yield
    finally:
        _is_running.reset(token)
