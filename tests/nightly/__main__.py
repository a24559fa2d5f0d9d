"""``python -m tests.nightly [TARGET ...]``: run what takes long, one task after the other.

Stores what each came to and prints the table. The exit code is 1 if any failed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from tests.nightly.tasks import TASKS, Result, Task, store

ROOT = Path(__file__).parents[2]
LOGS = ROOT / "build" / "nightly"
_LONGEST_LINE = 160


def commit() -> str:
    """Return the commit that is checked out, with a plus sign if files differ from it."""

    def said(*command: str) -> str:
        process = subprocess.run(
            ["git", *command], cwd=ROOT, capture_output=True, text=True, check=False
        )
        return process.stdout.strip()

    differs = said("status", "--porcelain", "--untracked-files=no")
    return said("rev-parse", "--short=7", "HEAD") + ("+" if differs else "")


def run(task: Task) -> Result:
    """Run a task; its output goes into a file of its own."""
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{task.target}.log"
    began, before = time.monotonic(), os.times()
    with log.open("w", encoding="utf-8") as stream:
        process = subprocess.run(
            ["make", task.target, f"ARGS={task.arguments}"],
            cwd=ROOT, stdout=stream, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
    after = os.times()
    processor_s = sum(after[2:4]) - sum(before[2:4])
    text = log.read_text(encoding="utf-8", errors="replace").replace(f"{ROOT}/", "")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("make")]
    return Result(
        f"{datetime.now(UTC):%Y-%m-%d}",
        commit(),
        round((time.monotonic() - began) / 60, 1),
        round(processor_s / 60, 1),
        process.returncode,
        lines[-1].strip(" =")[:_LONGEST_LINE] if lines else "",
    )


def main() -> None:
    """Run the tasks that are named, or all."""
    known = {task.target: task for task in TASKS}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(known))
    expected = parser.parse_args().targets
    unknown = [target for target in expected if target not in known]
    if unknown:
        parser.error(f"unknown target {unknown[0]!r}; known: {', '.join(known)}")
    failed = []
    for task in [known[target] for target in expected] or TASKS:
        actual = run(task)
        store(task.target, actual)
        if actual.exit_code:
            failed.append(task.target)
        verdict = "FAILED" if actual.exit_code else "passed"
        sys.stdout.write(
            f"{task.target:16} {verdict} in {actual.minutes:6.1f} min: {actual.last_line}\n"
        )
        sys.stdout.flush()
    if failed:
        sys.exit(f"{', '.join(failed)} failed; the output is in {LOGS}")


if __name__ == "__main__":
    main()
