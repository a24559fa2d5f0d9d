"""Threads of the host that run the launches of a program together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.execute.instructions import Part
from tilescope.engine.execute.launch import Launch
from tilescope.engine.host.jit.settings import n_threads
from tilescope.engine.host.jit.stages import end_team, new_team

__all__ = ["Tasks", "Team", "Threads", "thread_pool"]

#: Minimum work of a part of a launch, elements: a microsecond or two.
_LEAST_PART = 1 << 12
#: Minimum work of a part of the program, in launches that are cut, for which the other threads are
#: woken: below it they spend more time than they save.
_WAKE_ABOVE = 1 << 21
#: Parts of a large launch by thread.
_PARTS = 8
#: Least mean work of its stages for which threads share it: below it they spend more time with
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
        # Not numpy's unique: it imports masked arrays, a twentieth of a short run.
        return np.array(sorted({0, *edges.tolist(), launch.n_pieces}), np.int64)

    def shares(self, part: Part) -> int:
        """Return how many threads make the calls of a part: one, or all of them.

        They share what is worth waking them for.
        """
        if self.n_threads == 1:
            return 1
        shared = sum(
            launch.work for stage in part.stages for launch in stage if self.cuts(launch).size > 2
        )
        is_much = shared * part.n_passes >= _WAKE_ABOVE
        return self.n_threads if is_much and shared >= len(part.stages) * _LEAST_STAGE else 1

    def wake(self, help_along: Callable[[int, NDArray[np.int64]], None]) -> Team:
        """Return a team of as many threads as there are, which begin to help.

        Nothing waits for a thread that has not started: the others do its share.

        Parameters
        ----------
        help_along
            Called in every other thread with its number and the numbers of the team.
        """
        team = new_team(self.n_threads)
        helpers: list[Future[None]] = []
        if self._pool is not None:
            helpers = [
                self._pool.submit(help_along, number, team) for number in range(1, self.n_threads)
            ]
        return Team(team, helpers)

    def shutdown(self) -> None:
        """Shut the pool down; afterwards all work runs on the calling thread."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


class Team:
    """The threads that share parts of a run.

    Parameters
    ----------
    numbers : ndarray of int64
        What they share, see `new_team`.
    helpers
        The threads besides the one that runs the program.
    """

    def __init__(self, numbers: NDArray[np.int64], helpers: Sequence[Future[None]]) -> None:
        self.numbers = numbers
        self._helpers = helpers

    def end(self) -> None:
        """Let the helpers return; those that have not started never will."""
        end_team(self.numbers)
        for helper in self._helpers:
            helper.cancel()


class Tasks:
    """The calls of parts of a program, as `run_stages` takes them.

    Parameters
    ----------
    parts
        The parts.
    threads
        Threads that share them.

    Attributes
    ----------
    rows : ndarray of int64, shape (n, 5)
        Address of a function, first piece, last, table, and number of the launch.
    bounds : ndarray of int64, shape (n_rows, n_threads)
        First task of every stage of the shared parts in every share, and the end of a part.
    is_chain : ndarray of bool, shape (n_rows,)
        Whether one thread runs a stage in order.
    parts : ndarray of int64, shape (n_parts, 3)
        First task and end of a part, or its first row of bounds and its stages; and its work.
    is_shared : list of bool
        By part.
    """

    def __init__(self, parts: Sequence[Part], threads: Threads) -> None:
        self.launches = [
            *{id(x): x for part in parts for stage in part.stages for x in stage}.values()
        ]
        numbers = {id(launch): number for number, launch in enumerate(self.launches)}
        self._threads = threads
        rows = [np.empty((0, 5), np.int64)]
        bounds = [np.empty((0, threads.n_threads), np.int64)]
        is_chain = [np.empty(0, bool)]
        n_tasks = n_bounds = 0
        self.parts = np.zeros((len(parts), 3), np.int64)
        self.is_shared = [threads.shares(part) > 1 for part in parts]
        for number, (part, is_shared) in enumerate(zip(parts, self.is_shared, strict=True)):
            part_rows, part_bounds, part_chains = self._dealt(part, numbers, is_shared)
            if is_shared:
                self.parts[number] = n_bounds, len(part_chains), part.work
                bounds.append(part_bounds + n_tasks)
                is_chain.append(np.append(part_chains, False))
                n_bounds += len(part_bounds)
            else:
                self.parts[number] = n_tasks, n_tasks + len(part_rows), part.work
            rows.append(part_rows)
            n_tasks += len(part_rows)
        self.rows, self.bounds = np.concatenate(rows), np.concatenate(bounds)
        self.is_chain = np.concatenate(is_chain)

    def _dealt(
        self, part: Part, numbers: Mapping[int, int], is_shared: bool
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Return the rows of a part, its bounds in them, and which of its stages are chains."""
        n_shares = self._threads.n_threads if is_shared else 1
        rows: dict[int, NDArray[np.int64]] = {}
        dealt: dict[tuple[int, ...], list[NDArray[np.int64]]] = {}
        for stage in part.stages:
            key = tuple(map(id, stage))
            if key in dealt:  # a stage that is repeated is dealt once
                continue
            for launch in stage:
                cuts = np.array([0, launch.n_pieces])
                cuts = self._threads.cuts(launch) if is_shared else cuts
                rows[id(launch)] = _rows(numbers[id(launch)], launch, cuts)
            dealt[key] = _dealt(stage, rows, n_shares)
        stages = [dealt[tuple(map(id, stage))] for stage in part.stages]
        counts = np.array([[len(rows) for rows in stage] for stage in stages], np.int64)
        ends = np.concatenate([np.zeros((1, n_shares), np.int64), np.cumsum(counts, axis=0)])
        ends += np.cumsum([0, *ends[-1]])[:-1]
        is_chain = (n_shares == 1) | (counts.sum(axis=1) == 1)
        # Chains that follow each other are one.
        begins = np.concatenate([[True], ~(is_chain[1:] & is_chain[:-1])])
        by_share = zip(*stages, strict=True)
        part_rows = np.concatenate([rows for share in by_share for rows in share])
        return part_rows, ends[np.append(begins, True)], is_chain[begins]


def _rows(number: int, launch: Launch, cuts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rows of a launch's parts for `run_stages`, with its number."""
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
