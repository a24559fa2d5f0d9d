"""Runs that are added together are stored as if each had been added by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from tilescope.reports import ReportWriter, TraceTrack, TraceWriter
from tilescope.reports.bars.coarse import StepLooks
from tilescope.reports.bars.paths import build_paths
from tilescope.reports.schema import TableSpec
from tilescope.reports.writing import trace_bars

N_IPUS = 3


class Written:
    """What a trace writer hands to the report."""

    def __init__(self) -> None:
        self.rows: dict[str, list[tuple[Any, ...]]] = {}
        self.arrays: dict[str, list[int]] = {}
        self.n_calls = 0
        self.finish: list[Callable[[], None]] = []

    def call_before_finish(self, call: Callable[[], None]) -> None:
        self.finish.append(call)

    def add_columns(self, table: TableSpec, columns: dict[str, Any]) -> None:
        self.n_calls += 1
        plain = [np.asarray(values, object).tolist() for values in columns.values()]
        self.rows.setdefault(table.name, []).extend(zip(*plain, strict=True))

    def add(self, table: TableSpec, rows: Sequence[dict[str, Any]]) -> None:
        self.rows.setdefault(table.name, []).extend(tuple(row.values()) for row in rows)

    def append(self, name: str, values: NDArray[np.int64]) -> None:
        self.n_calls += 1
        self.arrays.setdefault(name, []).extend(values.tolist())

    def append_columns(self, group: str, columns: dict[str, NDArray[np.int64]]) -> None:
        for name, values in columns.items():
            self.arrays.setdefault(f"{group}.{name}", []).extend(values.tolist())


def track(random: np.random.Generator, ipu_id: int) -> TraceTrack:
    """Return one of few courses on an IPU."""
    kind = int(random.integers(0, 3))
    end = np.cumsum(np.arange(1, 4 + kind) * (10 + kind))
    zeros = np.zeros(end.size, np.int64)
    columns = np.arange(end.size), end - 5, end, zeros, zeros + 1, zeros + kind
    return TraceTrack(ipu_id, 0, int(end[-1]), columns)


def written(
    courses: Sequence[Sequence[TraceTrack]], starts: NDArray[np.int64], batch: int
) -> Written:
    """Return what is written if so many runs are added at a time."""
    report = Written()
    trace = TraceWriter(cast(ReportWriter, report))
    for first in range(0, len(courses), batch):
        stop = min(first + batch, len(courses))
        trace.add(range(first, stop), starts[first:stop], courses[first:stop])
    for call in report.finish:
        call()
    return report


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("batch", [2, 7, 100])
def test_runs_added_together(seed: int, batch: int) -> None:
    random = np.random.default_rng(seed)
    ipus = [sorted(random.choice(N_IPUS, int(random.integers(1, 4)), replace=False).tolist())]
    ipus += [[0, 1, 2], [1]]
    different = [[track(random, ipu_id) for ipu_id in ipus[k % 3]] for k in range(5)]
    courses = [different[int(k)] for k in random.integers(0, 5, 30)]
    starts = np.cumsum(random.integers(100, 200, (30, N_IPUS)), axis=0)
    alone, together = written(courses, starts, 1), written(courses, starts, batch)
    assert together.rows == alone.rows
    assert together.arrays == alone.arrays


def test_calls_do_not_follow_the_runs() -> None:
    random = np.random.default_rng(0)
    courses = [[track(random, 0)] for _ in range(200)]
    starts = 1_000 * np.arange(200)[:, None]
    n_columns = 6
    assert written(courses, starts, 200).n_calls == 1 + n_columns


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("batch", [2, 7, 100])
def test_bars_of_runs_added_together(
    seed: int, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs that repeat others among runs that do not; a section takes some four runs."""
    looks = StepLooks(build_paths([f"group/{step}" for step in range(9)]), np.zeros(9, np.uint8))
    monkeypatch.setattr(trace_bars, "LONG_TRACE_ENTRIES", 0)
    monkeypatch.setattr(trace_bars, "SECTION_ENTRIES", 20)
    monkeypatch.setattr(trace_bars.BarWriter, "_step_looks", lambda _: looks)
    random = np.random.default_rng(seed)
    courses = [[distinct(random, ipu_id, run) for ipu_id in range(2)] for run in range(40)]
    for run in random.integers(1, 40, 8).tolist():
        courses[run] = courses[int(random.integers(0, run))]
    starts = np.cumsum(random.integers(1_000, 1_200, (40, 2)), axis=0)
    alone, together = written(courses, starts, 1), written(courses, starts, batch)
    assert len(alone.rows["trace_bar"]) > 20
    assert together.rows == alone.rows
    assert together.arrays == alone.arrays


def distinct(random: np.random.Generator, ipu_id: int, run: int) -> TraceTrack:
    """Return a course of five steps that no other run takes."""
    end = 100 * np.arange(1, 6) + run
    zeros = np.zeros(5, np.int64)
    columns = random.integers(0, 9, 5), end - 50, end, zeros, zeros + 1, zeros
    return TraceTrack(ipu_id, 0, int(end[-1]), columns)
