"""Threads of the host that run the launches of a program together."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import KernelFailed
from tilescope.engine.execute.launch import Launch
from tilescope.engine.jit.calls import address_of, new_state, run_tasks

__all__ = ["Calls", "Tasks", "Threads", "thread_pool"]

_config: Any = numba.config

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


@dataclass(frozen=True)
class Part:
    """Some pieces of a launch: from `first` up to `last`."""

    launch: Launch
    first: int
    last: int


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

    def run(self, tasks: Tasks, state: NDArray[np.int64]) -> None:
        """Run tasks as `run_tasks` does, on as many threads as they have shares.

        Nothing waits for a thread that has not started when the tasks are done: it finds none left.
        """
        others = []
        if self._pool is not None:
            others = [
                self._pool.submit(tasks.run, number, state) for number in range(1, tasks.n_shares)
            ]
        tasks.run(0, state)
        for other in others:
            other.cancel()

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
        Parts of the launches of every stage, by share.
    n_shares
        Number of shares.
    """

    def __init__(self, stages: Sequence[Sequence[Sequence[Part]]], n_shares: int) -> None:
        self.n_shares = n_shares
        by_share: list[list[Part]] = [[] for _ in range(n_shares)]
        ends, chains = [[0] * n_shares], list[bool]()
        for stage in stages:
            for parts, own in zip(by_share, stage, strict=True):
                parts.extend(own)
            ends.append([len(parts) for parts in by_share])
            is_chain = n_shares == 1 or sum(map(len, stage)) == 1
            if is_chain and chains and chains[-1]:
                del ends[-2]
            else:
                chains.append(is_chain)
        self.parts = [part for parts in by_share for part in parts]
        self._bounds = np.array(ends, np.int64)
        self._bounds += np.cumsum([0, *self._bounds[-1]])[:-1]
        self._is_chain = np.array(chains, np.bool_)
        rows = [
            (address_of(p.launch.call), p.first, p.last, p.launch.table.ctypes.data)
            for p in self.parts
        ]
        self._rows = np.array(rows, np.int64).reshape(-1, 4)

    def new_state(self) -> NDArray[np.int64]:
        """Return what the threads of a run share, before it; its last number is the failed part."""
        return new_state(self._bounds[0])

    def run(self, share: int, state: NDArray[np.int64]) -> None:
        """Take part in a run as one of the threads; the arrays live until then."""
        run_tasks(self._rows, self._bounds, self._is_chain, share, state.ctypes.data)


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
        if _config.DISABLE_JIT:
            return
        distinct = {id(launch): launch for stage in stages for launch in stage}
        cuts = {key: threads.cuts(launch) for key, launch in distinct.items()}
        shared = sum(
            launch.work for stage in stages for launch in stage if cuts[id(launch)].size > 2
        )
        is_alone = shared < max(_WAKE_ABOVE, len(stages) * _LEAST_STAGE)
        n_shares = threads.n_threads
        if is_alone:
            n_shares = 1
            cuts = {key: np.array([0, launch.n_pieces]) for key, launch in distinct.items()}
        self._tasks = Tasks([_dealt(stage, cuts, n_shares) for stage in stages], n_shares)

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
        state = self._tasks.new_state()
        self._threads.run(self._tasks, state)
        failed = int(state[-1])
        if failed < 0:
            return
        launch = self._tasks.parts[failed].launch
        launch.run()  # again, for its exception
        raise KernelFailed(
            f"The kernel of {launch.codelet_name} raised an exception on a vertex in compute set"
            f" {launch.compute_set_name!r}, and not when it was repeated. The run ends there: with"
            " NUMBA_DISABLE_JIT=1 in the environment it runs as plain Python"
        )


def _dealt(
    stage: Sequence[Launch], cuts: Mapping[int, NDArray[np.int64]], n_shares: int
) -> list[list[Part]]:
    """Return the parts of a stage's launches by share.

    The parts of a launch are dealt in order, so that in most stages a share is the same part of the
    memory; a launch in one part goes to the share with the least work.
    """
    by_share: list[list[Part]] = [[] for _ in range(n_shares)]
    work = [0] * n_shares
    for launch in sorted(stage, key=lambda launch: -launch.work):
        edges = cuts[id(launch)].tolist()
        n_parts = len(edges) - 1
        for number, (first, last) in enumerate(itertools.pairwise(edges)):
            share = number * n_shares // n_parts if n_parts > 1 else work.index(min(work))
            work[share] += launch.work // n_parts
            by_share[share].append(Part(launch, first, last))
    return by_share


def thread_pool() -> Threads:
    """Return the threads that run large launches: NUMBA_NUM_THREADS of them, at most 8."""
    return Threads(min(int(_config.NUMBA_NUM_THREADS), 8))
