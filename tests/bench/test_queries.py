"""Query times on a generated report, first and repeated. Never fails on time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import pytest
from tests.generated_report import generate_report

from tilescope import analyser
from tilescope.analyser.diff import compare
from tilescope.analyser.memory import liveness, lowered_variables
from tilescope.analyser.memory import tile_memory as memory
from tilescope.analyser.program import programs
from tilescope.analyser.summary.metrics import values
from tilescope.analyser.summary.summarise import summarise
from tilescope.analyser.time.execution import execution, steps
from tilescope.reports import Report

QUESTIONS: dict[str, Callable[[Report], Any]] = {
    "execution": execution,
    "metrics": values,
    "summary": summarise,
    "memory by category": lambda report: memory.tile_memory(report, "category", True),
    "memory table": memory.memory_table,
    "variables of a tile": lambda report: lowered_variables.tile_variables(report, 700),
    "liveness of all": liveness.curve,
    "liveness of a tile": lambda report: liveness.curve(report, ("tile", 700)),
    "variables of a step": lambda report: liveness.step_variables(
        report, len(liveness.curve(report)) // 2
    ),
    "always live": liveness.always_live_variables,
    "roots": programs.roots,
    "children of the root": lambda report: programs.children(report, 0),
    "search": lambda report: programs.search(report, "attention"),
}


@pytest.fixture(scope="module", params=[2_000, 20_000], ids=lambda steps: f"1472 x {steps}")
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate_report(tmp_path_factory.mktemp("bench"), n_steps=request.param)


def tell(line: str) -> None:
    print(f"\n{line}")  # noqa: T201 - a bench is there for its lines


def timed(ask: Callable[[], Any]) -> float:
    start = perf_counter()
    ask()
    return 1000 * (perf_counter() - start)


@pytest.mark.parametrize("name", QUESTIONS)
def test_question(path: Path, name: str) -> None:
    ask = QUESTIONS[name]
    opened: list[Report] = []
    opening = timed(lambda: opened.append(analyser.open(path)))
    with opened[0] as report:
        first = timed(lambda: ask(report))
        again = min(timed(lambda: ask(report)) for _ in range(3))
        tell(f"{name:24s} open {opening:6.1f} ms, first {first:7.1f} ms, again {again:7.2f} ms")


def test_difference(path: Path, tmp_path: Path) -> None:
    with analyser.open(path) as first:
        n_steps = len(steps(first))
    second = generate_report(tmp_path, n_steps=n_steps, seed=1)
    with analyser.open(path) as first, analyser.open(path) as same, analyser.open(second) as new:
        identical = timed(lambda: compare(first, same))
        start = process_time()
        different = timed(lambda: compare(first, new))
        used = process_time() - start
        again = timed(lambda: compare(first, new))
        tell(
            f"identical {identical:.1f} ms, different {different:.1f} ms ({used:.2f} s of processor"
            f" time), again {again:.1f} ms,"
            f" ratio different/identical {different / identical:.1f}"
        )
        assert compare(first, same).is_identical
