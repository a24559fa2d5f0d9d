"""Races of two writers for a directory: one of them writes, the other is refused."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tilescope.reports import ReportInUse, ReportWriter, check_report, open_report
from tilescope.reports.schema import provenance

__all__ = ["run"]


def _write(name: str, folder: str, number: int, start: Barrier, results: Any) -> None:
    """Try to write a report into every directory; tell which ones were taken."""
    used = []
    for index in range(number):
        start.wait(60)
        try:
            with ReportWriter.create(Path(folder) / f"{index}") as writer:
                writer.add(provenance, [{"key": "writer", "value": name}])
                writer.commit("compiled")
                start.wait(60)  # the other one has tried
                writer.finish()
        except ReportInUse:
            start.wait(60)
        else:
            used.append(index)
        start.wait(60)
    results.put((name, used))


def run(number: int) -> dict[str, int | float | list[str]]:
    """Let two processes race for directories; return counts and failures."""
    began = time.monotonic()
    context = multiprocessing.get_context("spawn")
    failures: list[str] = []
    with TemporaryDirectory() as folder:
        start, results = context.Barrier(2), context.Queue()
        processes = [
            context.Process(target=_write, args=(name, folder, number, start, results))
            for name in "ab"
        ]
        for process in processes:
            process.start()
        used = dict(results.get(timeout=300) for _ in processes)
        for process in processes:
            process.join()
        for index in range(number):
            winners = [name for name in "ab" if index in used[name]]
            directory = Path(folder) / f"{index}"
            with open_report(directory) as report:
                value = report.column(provenance, "value")
            if len(winners) != 1 or value != tuple(winners):
                failures.append(f"race {index}: {winners} wrote, the report is of {value}")
            if {problem.code for problem in check_report(directory)} - {"disagreement"}:
                failures.append(f"race {index}: the report is damaged")
            if len(list(directory.iterdir())) != 1:
                failures.append(f"race {index}: files are left over")
    return {
        "races": number,
        "won_by_first": len(used["a"]),
        "failures": failures,
        "seconds": round(time.monotonic() - began, 1),
    }
