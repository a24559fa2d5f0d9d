"""Threads of the host that run the launches of a program together."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import KernelFailed
from tilescope.engine.execute.launch import Launch
from tilescope.engine.jit.calls import FAILED, STATE_SIZE, address_of, run_tasks

__all__ = ["Calls", "Threads", "thread_pool"]

_config: Any = numba.config

#: Minimum work of a part of a launch, elements: some five microseconds.
_LEAST_PART = 1 << 15
#: Minimum work in launches of several parts for which the other threads are woken: below it they
#: spend more time than they save.
_WAKE_ABOVE = 1 << 21
#: Parts of a large launch by thread.
_PARTS = 4


class Threads:
    """A pool of threads besides the calling one; empty on a single processor."""

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
        self._pool = (
            ThreadPoolExecutor(n_threads - 1, thread_name_prefix="tilescope")
            if n_threads > 1
            else None
        )

    def n_parts(self, launch: Launch) -> int:
        """Return into how many parts a launch is cut, so that all threads have work."""
        if self._pool is None:
            return 1
        most = min(launch.n_pieces, self.n_threads * _PARTS)
        return max(1, min(most, launch.work // _LEAST_PART))

    def run(self, tasks: NDArray[np.int64], state: NDArray[np.int64], *, alone: bool) -> None:
        """Run tasks as `run_tasks` does, on all threads or on this one.

        Nothing waits for a thread that has not started when the tasks are done: it finds none left.
        """
        others = []
        if self._pool is not None and not alone:
            others = [self._pool.submit(_join, tasks, state) for _ in range(self.n_threads - 1)]
        run_tasks(tasks, state.ctypes.data)
        for other in others:
            other.cancel()

    def shutdown(self) -> None:
        """Shut the pool down; afterwards all work runs on the calling thread."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


def _join(tasks: NDArray[np.int64], state: NDArray[np.int64]) -> None:
    """Take part in tasks; the arrays live until then."""
    run_tasks(tasks, state.ctypes.data)


class Calls:
    """Launches in order, made in one call.

    Parameters
    ----------
    launches
        The launches, compiled.
    threads
        Threads that share them.
    """

    def __init__(self, launches: Sequence[Launch], threads: Threads) -> None:
        self.launches = launches
        self._threads = threads
        self._cuts = np.cumsum([0, *map(threads.n_parts, launches)])
        if not _config.DISABLE_JIT:
            self._tasks = self._listed()
        shared = (launch.work for launch in launches if threads.n_parts(launch) > 1)
        self._is_alone = sum(shared) < _WAKE_ABOVE

    def _listed(self) -> NDArray[np.int64]:
        """Return the rows for `run_tasks`."""
        tasks = np.empty((self._cuts[-1], 5), np.int64)
        for launch, first, stop in zip(self.launches, self._cuts, self._cuts[1:], strict=False):
            cuts = launch.n_pieces * np.arange(stop - first + 1) // (stop - first)
            rows = tasks[first:stop]
            rows[:, 0] = address_of(launch.call)
            rows[:, 1], rows[:, 2] = cuts[:-1], cuts[1:]
            rows[:, 3:] = launch.table.ctypes.data, first
        return tasks

    def run(self) -> None:
        """Run the launches.

        Raises
        ------
        KernelFailed
            When the function of a codelet raised.
        """
        if _config.DISABLE_JIT:
            for launch in self.launches:
                launch.run()
            return
        # A thread that is late from the run before finds the state of that run, at its end.
        state = np.zeros(STATE_SIZE, np.int64)
        state[FAILED] = -1
        self._threads.run(self._tasks, state, alone=self._is_alone)
        failed = state[FAILED]
        if failed < 0:
            return
        launch = self.launches[int(np.searchsorted(self._cuts, failed, side="right")) - 1]
        launch.run()  # again, for its exception
        raise KernelFailed(
            f"The kernel of {launch.codelet_name} raised an exception on a vertex in compute set"
            f" {launch.compute_set_name!r}, and not when it was repeated. The run ends there: with"
            " NUMBA_DISABLE_JIT=1 in the environment it runs as plain Python"
        )


def thread_pool() -> Threads:
    """Return the threads that run large launches: NUMBA_NUM_THREADS of them, at most 8."""
    return Threads(min(int(_config.NUMBA_NUM_THREADS), 8))
