"""Times of calls, by the clock and of the processor, beside those of another program."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter, process_time

__all__ = ["Times", "beside", "median_times"]


@dataclass(frozen=True)
class Times:
    """Median seconds of some calls: by the clock, and of all threads of the process."""

    clock: float
    processor: float


def median_times(call: Callable[[], object], n_calls: int = 9) -> Times:
    """Return the median times of some calls."""
    clock, processor = [], []
    for _ in range(n_calls):
        began, worked = perf_counter(), process_time()
        call()
        clock.append(perf_counter() - began)
        processor.append(process_time() - worked)
    return Times(statistics.median(clock), statistics.median(processor))


def beside(what: str, ours: Times, other: str, theirs: Times) -> None:
    """Print both times and their ratios."""
    sys.stdout.write(
        f"\n{what}: run {ours.clock * 1e3:.2f} ms, {other} {theirs.clock * 1e3:.2f} ms:"
        f" {ours.clock / theirs.clock:.1f} times by the clock,"
        f" {ours.processor / theirs.processor:.1f} of the processor\n"
    )
