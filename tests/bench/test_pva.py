"""Times of scripts written against libpva on a generated report. Never fails on time."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from tests.generated_report import generate_report

import pva

SCRIPTS: dict[str, Callable[[pva.Report], Any]] = {
    "names of compute sets": lambda report: [
        entry.name for entry in report.compilation.computeSets
    ],
    "vertices of compute sets": lambda report: sum(
        vertices.count for entry in report.compilation.computeSets for vertices in entry.vertices
    ),
    "programs": lambda report: [entry.type for entry in report.compilation.programs],
    "cycles of steps": lambda report: sum(step.ipus[0].cycles for step in report.execution.steps),
    "busiest tile of steps": lambda report: sum(
        max(step.cyclesByTile) for step in report.execution.steps
    ),
    "memory of tiles": lambda report: [
        tile.memory.total.includingGaps for tile in report.compilation.tiles
    ],
    "liveness": lambda report: max(
        step.notAlwaysLiveMemory.bytes for step in report.compilation.livenessProgramSteps
    ),
    "brief variables": lambda report: sum(
        part.bytes for part in report.compilation.loweredVariables.allBriefVars
    ),
    "programs of operations": lambda report: sum(
        len(entry.programs()) for entry in pva.OperationAnalysis(report).operations
    ),
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate_report(tmp_path_factory.mktemp("bench"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_script(path: Path, name: str) -> None:
    with pva.openReport(path) as report:
        start = process_time()
        SCRIPTS[name](report)
        used = process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"\n{name:24s} {used:6.2f} s of processor time, peak {peak} MB")  # noqa: T201 - a bench
