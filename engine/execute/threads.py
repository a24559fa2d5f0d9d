"""Threads of the host that run the launches of a program together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import KernelFailed
from tilescope.engine.execute.launch import Launch
from tilescope.engine.host.jit.calls import new_state, run_tasks
from tilescope.engine.host.jit.settings import IS_COMPILED, n_threads
from tilescope.engine.host.jit.tables import numbers_of

__all__ = ["Calls", "Tasks", "Threads", "thread_pool"]

#: Minimum work of a part of a launch, elements: a microsecond or two.
_LEAST_PART = 1 << 12
#: Minimum work in launches of several parts for which the other threads are woken: below it they
#: spend more time than they save.
_WAKE_ABOVE = 1 << 21
#: Parts of a large launch by thread.
_PARTS = 8
#: Least mean work of a stage for which threads share stages: below it they spend more time with
#: waiting for each other than they save.
_LEAST_STAGE = 1 << 14


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
        n_cuts = 1 if self._pool is None else min(launch.n_pieces, self.n_threads * _PARTS)
        n_parts = max(1, min(n_cuts, launch.work // _LEAST_PART))
        work_before = np.cumsum(launch.piece_work)
        edges = np.searchsorted(
            work_before, launch.work * np.arange(1, n_parts) // n_parts, "right"
        )
        return np.unique([0, *edges, launch.n_pieces])

    def run(self, tasks: Tasks, state: NDArray[np.int64]) -> None:
        """Run tasks as `run_tasks` does, on as many threads as they have shares.

        Nothing waits for a thread that has not started when the tasks are done: it finds none left.
        """
        waiting = []
        if self._pool is not None:
            waiting = [
                self._pool.submit(tasks.run, number, state) for number in range(1, tasks.n_shares)
            ]
        tasks.run(0, state)
        for future in waiting:
            future.cancel()

    def shutdown(self) -> None:
        """Shut the pool down; afterwards all work runs on the calling thread."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


class Tasks:
    """Parts of launches by stage and by share, as `run_tasks` takes them.

    Parameters
    ----------
    stages
        Rows of every stage, by share: ndarrays of int64, shape (n, 5); the last column is the
        number of the launch.
    """

    def __init__(self, stages: Sequence[Sequence[NDArray[np.int64]]]) -> None:
        self.n_shares = len(stages[0])
        counts = np.array([[len(rows) for rows in stage] for stage in stages], np.int64)
        ends = np.concatenate([np.zeros((1, self.n_shares), np.int64), np.cumsum(counts, axis=0)])
        ends += np.cumsum([0, *ends[-1]])[:-1]
        is_chain = (self.n_shares == 1) | (counts.sum(axis=1) == 1)
        begins = np.concatenate([[True], ~(is_chain[1:] & is_chain[:-1])])
        self._bounds = ends[np.append(begins, True)]
        self._is_chain = is_chain[begins]
        self._rows = np.concatenate([rows for share in zip(*stages, strict=True) for rows in share])
        numbers = numbers_of([self._rows, self._bounds, self._is_chain])
        self._table = np.array(numbers, np.int64)
        self._table_at = self._table.ctypes.data

    def launch_number(self, task: int) -> int:
        """Return the number of the launch that a task is a part of."""
        return int(self._rows[task, -1])

    def new_state(self) -> NDArray[np.int64]:
        """Return what the threads of a run share, before it; its last number is the failed task."""
        return new_state(self._bounds[0])

    def run(self, share: int, state: NDArray[np.int64]) -> None:
        """Take part in a run as one of the threads; the arrays live until then."""
        run_tasks.run(share, state.ctypes.data, self._table_at)


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
        if not IS_COMPILED:
            return
        run_tasks.load()  # before several threads call it
        distinct = {id(launch): launch for stage in stages for launch in stage}
        self._launches = [*distinct.values()]
        cuts = {key: threads.cuts(launch) for key, launch in distinct.items()}
        keys = [tuple(map(id, stage)) for stage in stages]
        shared = {key: launch.work * (cuts[key].size > 2) for key, launch in distinct.items()}
        work = sum(shared[launch] for stage in keys for launch in stage)
        n_shares = threads.n_threads
        if work < max(_WAKE_ABOVE, len(stages) * _LEAST_STAGE):
            n_shares = 1
            cuts = {key: np.array([0, launch.n_pieces]) for key, launch in distinct.items()}
        rows = {
            key: _rows(number, launch, cuts[key])
            for number, (key, launch) in enumerate(distinct.items())
        }
        # A stage that is repeated is dealt once.
        distinct_stages = dict(zip(keys, stages, strict=True))
        dealt = {key: _dealt(stage, rows, n_shares) for key, stage in distinct_stages.items()}
        self._tasks = Tasks([dealt[key] for key in keys])

    def run(self) -> None:
        """Run the launches.

        Raises
        ------
        KernelFailed
            When the function of a codelet raised.
        """
        if not IS_COMPILED:
            for stage in self.stages:
                for launch in stage:
                    launch.run()
            return
        # A thread that is late from the run before finds the state of that run, at its end.
        state = self._tasks.new_state()
        self._threads.run(self._tasks, state)
        failed = int(state[-1])
        if failed < 0:
            return
        launch = self._launches[self._tasks.launch_number(failed)]
        launch.run()  # again, for its exception
        raise KernelFailed(
            f"The kernel of {launch.codelet_name} raised an exception on a vertex in compute set"
            f" {launch.compute_set_name!r}, and not when it was repeated. The run ends there: with"
            " NUMBA_DISABLE_JIT=1 in the environment it runs as plain Python"
        )


def _rows(number: int, launch: Launch, cuts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rows of a launch's parts for `run_tasks`, and its number."""
    rows = np.empty((cuts.size - 1, 5), np.int64)
    rows[:, 0], rows[:, 1], rows[:, 2] = launch.call.address, cuts[:-1], cuts[1:]
    rows[:, 3], rows[:, 4] = launch.table.ctypes.data, number
    return rows


def _dealt(
    stage: Sequence[Launch], rows: Mapping[int, NDArray[np.int64]], n_shares: int
) -> list[NDArray[np.int64]]:
    """Return the rows of a stage by share.

    The parts of a launch are dealt in order, so that in most stages a share is the same part of the
    memory; a launch in one part goes to the share with the least work.
    """
    by_share = [[np.empty((0, 5), np.int64)] for _ in range(n_shares)]
    work = np.zeros(n_shares, np.int64)
    for launch in sorted(stage, key=lambda launch: -launch.work):
        launch_rows = rows[id(launch)]
        share = np.arange(len(launch_rows)) * n_shares // len(launch_rows)
        if len(launch_rows) == 1:
            share[:] = work.argmin()
        work += launch.work // max(len(launch_rows), 1) * np.bincount(share, minlength=n_shares)
        for number, parts in enumerate(by_share):
            parts.append(launch_rows[share == number])
    return [np.concatenate(parts) for parts in by_share]


def thread_pool() -> Threads:
    """Return the threads that run large launches: NUMBA_NUM_THREADS of them, at most 8."""
    return Threads(min(n_threads(), 8))
