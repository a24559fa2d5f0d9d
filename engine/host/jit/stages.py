"""Stages of tasks that several threads share, in compiled code.

Tasks of a stage need nothing of each other, unless it is a chain, which one thread runs in order; a
stage begins when the one before is done. Every thread has a share of a stage, the same part of the
memory in most stages, so that data are in the cache of the processor that takes them next. It takes
tasks of another share when its own is empty and that thread has not started, or lets it wait: none
waits for a thread that the system suspends before a task.

The thread that runs the program is number 0. It begins jobs, which are stages in a row; the others
help with the job of the moment until it ends the team, or they have waited for long.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.host.jit._jit import jit
from tilescope.engine.host.jit.atomic import (
    add_number,
    load_number,
    store_number,
    swap_number,
    yield_processor,
)
from tilescope.engine.host.jit.tables import call_at

__all__ = ["begin_job", "end_team", "help_along", "new_team", "run_stages"]

# Threads share a few numbers: two cache lines of each of them, which it alone writes as a rule, and
# two for all. Lines come in pairs, which processors fetch together.
#: Numbers of a thread: the next task of its share, the tasks that it has done, and whether it runs.
_NEXT, _DONE, _RUNS = 0, 16, 17
_OF_THREAD = 32
#: Numbers of all, behind those of the threads: the task that failed or -1, the job, the tasks done
#: before it, whether the run is over, and how many threads have left.
_FAILED, _JOB, _BEFORE, _OVER, _LEFT = 0, 1, 2, 3, 16
#: A job is a number that grows from one to the next, and in the lower bits the part of the program.
_PART_BITS = 24
#: The next task of a share grows from job to job as well, above these bits.
_TASK_BITS = 32
#: Rounds that a thread waits before it takes a task of another one that runs: some microsecond.
_RESPECT = 1 << 7
#: Rounds that a thread waits before it yields its processor: some ten microseconds.
_PATIENCE = 1 << 12
#: Rounds that a thread waits for a job before it leaves: some hundred microseconds, which is more
#: than it takes to wake it again.
_STAY = _PATIENCE + (1 << 11)


def new_team(n_threads: int) -> NDArray[np.int64]:
    """Return the numbers that the threads of a run share, before it: ndarray of int64."""
    team = np.zeros((n_threads + 1) * _OF_THREAD, np.int64)
    team[n_threads * _OF_THREAD + _FAILED] = -1
    return team


def end_team(team: NDArray[np.int64]) -> None:
    """Let the threads of a team return once they have nothing to do."""
    team[team.size - _OF_THREAD + _OVER] = 1


@jit
def _sum(numbers, row):  # type: ignore[no-untyped-def]
    """Return the sum of a row; numba compiles four functions for that of numpy."""
    total = 0
    for column in range(numbers.shape[1]):
        total += numbers[row, column]
    return total


@jit
def _total(team, number, n_shares):  # type: ignore[no-untyped-def]
    """Return the sum of a number of all threads."""
    total = 0
    for share in range(n_shares):
        total += load_number(team + 8 * (_OF_THREAD * share + number))
    return total


@jit
def begin_job(team, part, bounds, first):  # type: ignore[no-untyped-def]
    """Begin the stages of a part of the program; all tasks before are done.

    Returns the job; -1 if there is no team, or a thread has left it.

    Parameters
    ----------
    team : int
        Address of the array of `new_team`.
    part
        Number of the part.
    bounds, first
        See `run_stages`.
    """
    n_shares = bounds.shape[1]
    of_all = team + 8 * _OF_THREAD * n_shares
    if team == 0 or load_number(of_all + 8 * _LEFT) > 0:
        return -1
    number = (load_number(of_all + 8 * _JOB) >> _PART_BITS) + 1
    for share in range(n_shares):
        following = (number << _TASK_BITS) + bounds[first, share]
        store_number(team + 8 * (_OF_THREAD * share + _NEXT), following)
    store_number(of_all + 8 * _BEFORE, _total(team, _DONE, n_shares))
    job = (number << _PART_BITS) + part
    store_number(of_all + 8 * _JOB, job)
    return job


@jit
def run_stages(thread, team, job, tasks, bounds, is_chain, first, n_stages):  # type: ignore[no-untyped-def]
    """Take part in a job; return the task that failed, or -1.

    Returns when all tasks are done, or one failed and those in progress are done.

    Parameters
    ----------
    thread
        Number of the thread: its share.
    team : int
        Address of the array of `new_team`.
    job
        Number of the job.
    tasks : ndarray of int64, shape (n, 5)
        Address of the function, first piece, last, table, and a number of the caller's; those of a
        share follow each other.
    bounds : ndarray of int64, shape (n_rows, n_shares)
        First task of every stage in every share; of the row after the last stage, the end.
    is_chain : ndarray of bool, shape (n_rows,)
        Whether a stage is a chain; its tasks are all of one share.
    first, n_stages
        The job's rows of `bounds` and `is_chain`.
    """
    n_shares = bounds.shape[1]
    of_all = team + 8 * _OF_THREAD * n_shares
    failed, own = of_all + 8 * _FAILED, team + 8 * _OF_THREAD * thread
    n_before = load_number(of_all + 8 * _BEFORE)
    base = (job >> _PART_BITS) << _TASK_BITS
    n_begun = _sum(bounds, first)
    for stage in range(first, first + n_stages):
        n_until = n_before + _sum(bounds, stage + 1) - n_begun
        waited = 0
        while True:
            for turn in range(n_shares):
                share = (thread + turn) % n_shares
                other = team + 8 * _OF_THREAD * share
                if turn > 0 and waited < _RESPECT and load_number(other + 8 * _RUNS) > 0:
                    continue
                following, end = other + 8 * _NEXT, base + bounds[stage + 1, share]
                k = load_number(following)
                while k < end and load_number(failed) < 0:
                    stop = end if is_chain[stage] else k + 1
                    if swap_number(following, k, stop):
                        for task in range(k - base, stop - base):
                            if call_at(
                                tasks[task, 0], tasks[task, 1], tasks[task, 2], tasks[task, 3]
                            ):
                                swap_number(failed, -1, task)
                                break
                        add_number(own + 8 * _DONE, stop - k)
                        waited = 0
                    k = load_number(following)
            n_done = _total(team, _DONE, n_shares)
            if n_done >= n_until:
                break
            if load_number(failed) >= 0:
                n_taken = _total(team, _NEXT, n_shares) - n_shares * base - n_begun
                if n_done - n_before >= n_taken:
                    return load_number(failed)
            # A thread that is late has the numbers of a job that is done.
            if load_number(of_all + 8 * _JOB) != job or load_number(of_all + 8 * _OVER) != 0:
                return -1
            waited += 1
            if waited > _PATIENCE:
                yield_processor()
    return load_number(failed)


@jit
def help_along(thread, team, tasks, bounds, is_chain, parts):  # type: ignore[no-untyped-def]
    """Take part in all jobs of a team until it ends, or none comes for long.

    Parameters
    ----------
    thread, team, tasks, bounds, is_chain
        See `run_stages`.
    parts : ndarray of int64, shape (n_parts, 2)
        By part of the program: its first row of `bounds`, and its stages.
    """
    n_shares = bounds.shape[1]
    of_all, own = team + 8 * _OF_THREAD * n_shares, team + 8 * _OF_THREAD * thread
    add_number(own + 8 * _RUNS, 1)
    last, waited = 0, 0
    while load_number(of_all + 8 * _OVER) == 0 and waited < _STAY:
        job = load_number(of_all + 8 * _JOB)
        if job == last:
            waited += 1
            if waited > _PATIENCE:
                yield_processor()
            continue
        part = job & ((1 << _PART_BITS) - 1)
        first, n_stages = parts[part, 0], parts[part, 1]
        if run_stages(thread, team, job, tasks, bounds, is_chain, first, n_stages) >= 0:
            break
        last, waited = job, 0
    add_number(own + 8 * _RUNS, -1)
    add_number(of_all + 8 * _LEFT, 1)
