"""The tasks of a nightly run, and what was last seen of each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["RESULTS", "TASKS", "Result", "Task", "results", "store"]

#: Results of the last run of each task, which docs/reference/nightly.md shows.
RESULTS = Path(__file__).with_name("results.json")


@dataclass(frozen=True)
class Task:
    """A target of the Makefile that takes long.

    Parameters
    ----------
    target
        Its name.
    about
        What it checks.
    arguments
        Its ``ARGS``.
    """

    target: str
    about: str
    arguments: str = ""


@dataclass(frozen=True)
class Result:
    """What a task came to.

    Parameters
    ----------
    date
        Day of the run, in UTC.
    commit
        That was checked, seven digits; with a plus sign if files differed from it.
    minutes
        By the clock.
    processor_minutes
        Of the task's processes.
    exit_code
        0 if it passed.
    last_line
        Of its output.
    """

    date: str
    commit: str
    minutes: float
    processor_minutes: float
    exit_code: int
    last_line: str


TASKS = (
    Task("slow", "tests that take five seconds or more"),
    Task("test-torch", "gradients and steps of training beside PyTorch"),
    Task("onnx-suite", "ONNX's backend suite, newest and as of 1.6.0"),
    Task("models", "the catalogue's models beside onnxruntime"),
    Task("mnist", "ten thousand labelled digits"),
    Task(
        "onnx-fuzz",
        "an hour of single nodes by attribute",
        "--kind attributes --minutes 60 --number 100000",
    ),
    Task("faults", "programs interrupted, killed and starved; damaged and hostile files"),
    Task("test-bounds", "kernels with bounds checks"),
    Task("test-jit-off", "kernels as plain Python"),
    Task("test-processors", "bits on other threads and processors"),
    Task("test-newest", "the newest release of every package"),
    Task("pva-clients", "public programs written against libpva"),
)


def results() -> Mapping[str, Result]:
    """Return the last result of each task that ran, by target."""
    if not RESULTS.exists():
        return {}
    stored = json.loads(RESULTS.read_text(encoding="utf-8"))
    return {target: Result(**facts) for target, facts in stored.items()}


def store(target: str, result: Result) -> None:
    """Replace the result of a task; the others stay, in the order of `TASKS`."""
    matches = {**results(), target: result}
    ordered = {
        task.target: asdict(matches[task.target]) for task in TASKS if task.target in matches
    }
    RESULTS.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
