"""Threads of the host that run the launches of a program together."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import KernelFailed
from tilescope.engine.execute.launch import Launch
from tilescope.engine.jit.calls import address_of, new_state, run_tasks

__all__ = ["Calls", "Threads", "thread_pool"]

#: A launch, the first and the last piece of it.
Task = tuple[Launch, int, int]

_config: Any = numba.config

#: Minimum work of a part of a launch, elements: a microsecond or two.
_LEAST_PART = 1 << 12
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

    def cuts(self, launch: Launch) -> NDArray[np.int64]:
        """Return where a launch is cut into parts of like work, so that all threads have some.

        Returns
        -------
        ndarray of int64, shape (n_parts + 1,)
            Pieces, from 0 to their number.
        """
        most = 1 if self._pool is None else min(launch.n_pieces, self.n_threads * _PARTS)
        n_parts = max(1, min(most, launch.work // _LEAST_PART))
        done = np.cumsum(launch.piece_work)
        edges = np.searchsorted(done, launch.work * np.arange(1, n_parts) // n_parts, "right")
        return np.unique([0, *edges, launch.n_pieces])

    def run(
        self, tasks: NDArray[np.int64], bounds: NDArray[np.int64], state: NDArray[np.int64]
    ) -> None:
        """Run tasks as `run_tasks` does, on as many threads as they have shares.

        Nothing waits for a thread that has not started when the tasks are done: it finds none left.
        """
        others = []
        if self._pool is not None:
            others = [
                self._pool.submit(_join, tasks, bounds, number, state)
                for number in range(1, bounds.shape[1])
            ]
        _join(tasks, bounds, 0, state)
        for other in others:
            other.cancel()

    def shutdown(self) -> None:
        """Shut the pool down; afterwards all work runs on the calling thread."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


def _join(
    tasks: NDArray[np.int64], bounds: NDArray[np.int64], number: int, state: NDArray[np.int64]
) -> None:
    """Take part in tasks as one of the threads; the arrays live until then."""
    run_tasks(tasks, bounds, number, state.ctypes.data)


class Calls:
    """Stages of launches in order, made in one call.

    Parameters
    ----------
    stages
        The launches, compiled; those of a stage need nothing of each other.
    threads
        Threads that share them.
    """

    def __init__(self, stages: Sequence[Sequence[Launch]], threads: Threads) -> None:
        self.stages = stages
        self._threads = threads
        distinct = {id(launch): launch for stage in stages for launch in stage}
        cuts = {key: threads.cuts(launch) for key, launch in distinct.items()}
        shared = (
            launch.work for stage in stages for launch in stage if cuts[id(launch)].size > 2
        )
        self._is_alone = sum(shared) < _WAKE_ABOVE
        n_shares = 1 if self._is_alone else threads.n_threads
        by_share: list[list[Task]] = [[] for _ in range(n_shares)]
        ends = [[0] * n_shares]
        for stage in stages:
            for launch, share, first, last in _dealt(stage, cuts, n_shares):
                by_share[share].append((launch, first, last))
            ends.append([len(tasks) for tasks in by_share])
        self._tasks = [task for tasks in by_share for task in tasks]
        self._bounds = np.array(ends, np.int64)
        self._bounds += np.cumsum([0, *self._bounds[-1]])[:-1]
        if not _config.DISABLE_JIT:
            self._rows = np.array(
                [
                    (address_of(launch.call), first, last, launch.table.ctypes.data)
                    for launch, first, last in self._tasks
                ],
                np.int64,
            ).reshape(-1, 4)

    def run(self) -> None:
        """Run the launches.

        Raises
        ------
        KernelFailed
            When the function of a codelet raised.
        """
        if _config.DISABLE_JIT:
            for stage in self.stages:
                for launch in stage:
                    launch.run()
            return
        # A thread that is late from the run before finds the state of that run, at its end.
        state = new_state(self._bounds[0])
        self._threads.run(self._rows, self._bounds, state)
        failed = int(state[-1])
        if failed < 0:
            return
        launch, _, _ = self._tasks[failed]
        launch.run()  # again, for its exception
        raise KernelFailed(
            f"The kernel of {launch.codelet_name} raised an exception on a vertex in compute set"
            f" {launch.compute_set_name!r}, and not when it was repeated. The run ends there: with"
            " NUMBA_DISABLE_JIT=1 in the environment it runs as plain Python"
        )


def _dealt(
    stage: Sequence[Launch], cuts: Mapping[int, NDArray[np.int64]], n_shares: int
) -> Iterator[tuple[Launch, int, int, int]]:
    """Yield launch, share, first piece and last of the tasks of a stage.

    The parts of a launch are dealt in order, so that in most stages a share is the same part of the
    memory; a launch in one part goes to the share with the least work.
    """
    work = [0] * n_shares
    for launch in sorted(stage, key=lambda launch: -launch.work):
        edges = cuts[id(launch)].tolist()
        n_parts = len(edges) - 1
        for part, (first, last) in enumerate(itertools.pairwise(edges)):
            share = part * n_shares // n_parts if n_parts > 1 else work.index(min(work))
            work[share] += launch.work // n_parts
            yield launch, share, first, last


def thread_pool() -> Threads:
    """Return the threads that run large launches: NUMBA_NUM_THREADS of them, at most 8."""
    return Threads(min(int(_config.NUMBA_NUM_THREADS), 8))
