"""The bar that shows how far a compilation is."""

from __future__ import annotations

import sys
import time
from datetime import timedelta

__all__ = ["ProgressBar"]

_WIDTH = 10


class ProgressBar:
    """Draws a bar on stderr, in the form of PopTorch's.

    Attributes
    ----------
    compilation_time
        Time from the first to the last call; None before the first.
    """

    def __init__(self) -> None:
        self.compilation_time: timedelta | None = None
        self._start: float | None = None

    def __call__(self, progress: int, total: int) -> None:
        """Show that some of the steps are done.

        Parameters
        ----------
        progress, total
            Steps done, and steps in all.
        """
        now = time.monotonic()
        if self._start is None:
            self._start = now
        elapsed_s = now - self._start
        self.compilation_time = timedelta(seconds=elapsed_s)
        share = progress / total
        left = _clock(elapsed_s * (1 - share) / share) if progress else "?"
        bar = ("█" * int(share * _WIDTH)).ljust(_WIDTH)
        sys.stderr.write(
            f"\rGraph compilation: {share:4.0%}|{bar}| {progress}/{total}"
            f" [{_clock(elapsed_s)}<{left}]"
        )
        if progress == total:
            sys.stderr.write("\n")
            self._start = None
        sys.stderr.flush()


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"
