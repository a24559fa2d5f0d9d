"""Python's search for reference cycles: the one place that turns it off and on."""

from __future__ import annotations

import atexit
import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["end_collection", "without_collection"]


class _Pause:
    """How many are inside, and whether the search was on before the first of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_inside = 0
        self._was_enabled = False

    def enter(self) -> None:
        """Turn the search off."""
        with self._lock:
            if self._n_inside == 0:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._n_inside += 1

    def leave(self) -> None:
        """Turn the search on if nobody else is inside and it was on."""
        with self._lock:
            self._n_inside -= 1
            if self._n_inside == 0 and self._was_enabled:
                gc.enable()


_pause = _Pause()


@contextmanager
def without_collection() -> Iterator[None]:
    """Pause the search: for code that builds many objects and drops few.

    Each search visits all objects so far, which takes a quarter of the time of compiling a long
    model and a third of that of reading a large report. It goes on when the last of several
    threads is outside.
    """
    _pause.enter()
    try:
        yield
    finally:
        _pause.leave()


def end_collection() -> None:
    """Search no more in a process that ends after one answer, not even at its exit."""
    gc.disable()
    atexit.register(gc.freeze)
