"""What the last run of PopTorch's own tests came to, by file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = ["COLUMNS", "RESULTS", "Results", "read", "store"]

#: Results of the last stored run, which docs/reference/poptorch-suite.md shows.
RESULTS = Path(__file__).with_name("results.json")

#: Outcomes in the order of the table: those of tests that run, then the others.
COLUMNS = ("passed", "failed", "refused", "text", "package", "hardware", "skipped", "left out")

#: How many of them are of tests that run.
N_RUN = 4


@dataclass(frozen=True)
class Results:
    """A run.

    Parameters
    ----------
    date
        When it was.
    torch
        Version of PyTorch.
    most
        Tests of a file at most, evenly spaced; 0 for all.
    seconds
        That a test may take.
    files
        Numbers of tests by outcome, by file.
    note
        What was different from `make poptorch-suite`, as sentences.
    """

    date: str
    torch: str
    most: int
    seconds: int
    files: Mapping[str, Mapping[str, int]]
    note: str = ""

    @property
    def total(self) -> Counter[str]:
        """Numbers of tests by outcome, of all files."""
        total: Counter[str] = Counter()
        for counts in self.files.values():
            total.update(counts)
        return total


def store(
    records: Iterable[Mapping[str, Any]], *, date: str, torch: str, most: int, seconds: int
) -> None:
    """Keep a run, in place of the last one.

    Parameters
    ----------
    records
        The last outcome of every test.
    date, torch, most, seconds
        As those of `Results`.
    """
    files: dict[str, Counter[str]] = {}
    for record in records:
        name = str(record["test"]).split("::")[0].removeprefix("tests/")
        files.setdefault(name, Counter())[record["outcome"]] += 1
    counts = {name: dict(files[name]) for name in sorted(files)}
    results = Results(date, torch, most, seconds, counts)
    RESULTS.write_text(json.dumps(asdict(results), indent=1) + "\n", encoding="utf-8")


def read() -> Results:
    """Return the run that was stored last."""
    return Results(**json.loads(RESULTS.read_text(encoding="utf-8")))


def share(counts: Mapping[str, int], *, has_text: bool = True) -> tuple[int, int]:
    """Return how many tests pass, and of how many that need neither hardware nor packages.

    Parameters
    ----------
    counts
        Numbers of tests by outcome.
    has_text
        Whether those count that read the text of PopART's log or graph.
    """
    outcomes = [name for name in COLUMNS[:N_RUN] if has_text or name != "text"]
    return counts.get("passed", 0), sum(counts.get(name, 0) for name in outcomes)
