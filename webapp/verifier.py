"""Verifies served reports in the background, in a thread of low priority, one part at a time."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from tilescope.reports import DamagedReport, ReportError, open_report

__all__ = ["Verifier"]

_log = logging.getLogger(__name__)
#: Lowest priority that a thread can have.
_NICENESS = 19
#: After a part, the thread sleeps as long as the part took: requests need the interpreter, too.
_SHORTEST_PAUSE_S = 0.001


class Verifier:
    """A thread that verifies files and tells the result; it begins with the first file.

    It opens every file by itself, so that no request waits for a lock of its report.

    Parameters
    ----------
    tell : Callable
        Called in the thread with the id of a report and its damage, empty if it has none, or None
        if the file cannot be read any more.
    """

    def __init__(self, tell: Callable[[str, str | None], None]) -> None:
        self._tell = tell
        self._lock = threading.Lock()
        self._files: dict[str, Path] = {}
        self._order: deque[str] = deque()
        self._wake = threading.Event()
        self._is_closed = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, report_id: str, file: Path, *, is_next: bool) -> None:
        """Verify a file, before others or after them; one that waits already may move up."""
        with self._lock:
            if self._is_closed.is_set():
                return
            if report_id in self._files and is_next and report_id in self._order:
                self._order.remove(report_id)
                self._order.appendleft(report_id)
            elif report_id not in self._files:
                self._files[report_id] = file
                (self._order.appendleft if is_next else self._order.append)(report_id)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="verifier", daemon=True)
                self._thread.start()
        self._wake.set()

    def is_pending(self, report_id: str) -> bool:
        """Return whether a file waits, or is being verified."""
        with self._lock:
            return report_id in self._files

    def close(self) -> None:
        """Stop after the current part; files that wait are not verified.

        The next file that is added starts a new thread.
        """
        with self._lock:
            self._is_closed.set()
            thread, self._thread = self._thread, None
        self._wake.set()
        if thread is not None:
            thread.join()
        with self._lock:
            self._files.clear()
            self._order.clear()
            self._is_closed.clear()

    def _work(self) -> None:
        with contextlib.suppress(OSError, AttributeError):  # of this thread only, on Linux
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        while not self._is_closed.is_set():
            self._wake.wait()
            self._wake.clear()
            while not self._is_closed.is_set():
                with self._lock:
                    if not self._order:
                        break
                    report_id = self._order.popleft()
                    file = self._files[report_id]
                damage = self._damage(file)
                if not self._is_closed.is_set():
                    self._tell(report_id, damage)
                with self._lock:
                    self._files.pop(report_id, None)

    def _damage(self, file: Path) -> str | None:
        """Return the damage of a file, empty if it has none; None if that is unknown."""
        try:
            with open_report(file) as report:
                started = time.perf_counter()
                for _ in report.verification():
                    pause_s = max(time.perf_counter() - started, _SHORTEST_PAUSE_S)
                    if self._is_closed.wait(pause_s):
                        return None
                    started = time.perf_counter()
        except DamagedReport as error:
            return str(error)
        except ReportError:
            return None
        except Exception:
            _log.exception("verification of %s failed", file)
            return None
        return ""
