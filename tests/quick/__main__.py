"""``python -m tests.quick``: what a change most likely breaks, in a minute on two cores.

Runs the tests of the files that differ from the last commit (of the last commit, if none differs),
and one golden path through every room. What does not fit into the time is counted and left to
``make test``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.quick.choice import GOLDEN_PATH, chosen, durations, near_tests

ROOT = Path(__file__).parents[2]


def changed() -> list[str]:
    """Return the files that differ from the last commit, or that it changed."""

    def lines(*command: str) -> list[str]:
        process = subprocess.run(
            ["git", *command], cwd=ROOT, capture_output=True, text=True, check=False
        )
        return process.stdout.splitlines()

    actual = lines("diff", "--name-only", "HEAD") + lines(
        "ls-files", "--others", "--exclude-standard"
    )
    return actual or lines("diff", "--name-only", "HEAD~1", "HEAD")


def main() -> None:
    """Choose the tests and become pytest."""
    files = changed()
    expected = near_tests(files, ROOT)
    selected, n_left = chosen(expected, durations(ROOT))
    left = f"; {n_left:,} more are left to make test" if n_left else ""
    sys.stdout.write(
        f"{len(files):,} changed files: {len(selected):,} test files{left}, and the golden path\n"
    )
    sys.stdout.flush()
    command = ["-m", "pytest", "-q", "--numprocesses", "auto", "--dist", "loadfile"]
    paths = dict.fromkeys([*selected, *GOLDEN_PATH])
    os.chdir(ROOT)
    os.execv(sys.executable, [sys.executable, *command, *sys.argv[1:], *paths])


if __name__ == "__main__":
    main()
