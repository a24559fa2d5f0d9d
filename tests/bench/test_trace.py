"""Query times of the execution trace by number of entries. Never fails on time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
from tests.generated_report import generate_report

from tilescope import analyser
from tilescope.analyser import trace

WIDTH = 1600


@pytest.fixture(scope="module", params=[1, 50, 500], ids=lambda runs: f"{20_000 * runs} entries")
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate_report(tmp_path_factory.mktemp("bench"), n_runs=request.param)


def timed(ask: Callable[[], Any]) -> float:
    start = perf_counter()
    ask()
    return 1000 * (perf_counter() - start)


def test_windows_and_summaries(path: Path) -> None:
    with analyser.open(path) as report:
        end = trace.extent(report).end_cycle
        near = (end // 3, end // 3 + max(1, end // 10_000))
        asks: dict[str, Callable[[], Any]] = {
            "flat, all": lambda: trace.window(report, 0, end, WIDTH, trace.Lanes(view="flat")),
            "flame, all": lambda: trace.window(report, 0, end, WIDTH),
            "flame, 1/10,000": lambda: trace.window(report, *near, WIDTH),
            "summary, all": lambda: trace.range_summary(report),
            "summary, 1/10,000": lambda: trace.range_summary(report, *near),
            "search": lambda: trace.search(report, "softmax"),
        }
        print()  # noqa: T201 - a bench is there for its lines
        for name, ask in asks.items():
            first, again = timed(ask), min(timed(ask) for _ in range(3))
            print(f"{name:20} first {first:9.1f} ms, again {again:7.1f} ms")  # noqa: T201
        answer = trace.window(report, 0, end, WIDTH)
        assert len(answer.bars.name) <= 2 * WIDTH * len(answer.lanes) + len(answer.lanes)
