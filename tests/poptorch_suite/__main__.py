"""Run PopTorch's own tests that need no hardware, and show by file how many pass."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.popart_suite.__main__ import print_outcomes

ROOT = Path(__file__).parents[2]

#: Files of which nothing can pass: addresses of documentation, packages of a cluster, times.
_LEFT_OUT = ("io_performance_test.py", "popdist_test.py", "test_doc_urls.py")


def main() -> int:
    """Run the tests and print the table; 1 if there are none."""
    parser = argparse.ArgumentParser(prog="python -m tests.poptorch_suite", description=__doc__)
    parser.add_argument("poptorch", type=Path, help="a checkout of PopTorch")
    parser.add_argument("files", nargs="*", help="names of files; all by default")
    parser.add_argument("--seconds", type=int, default=900, help="time that a file may take")
    parser.add_argument("--reduced", action="store_true", help="the first of many parameters only")
    parser.add_argument("--most", type=int, default=0, help="tests of a file, evenly spaced")
    parser.add_argument("--test-seconds", type=int, default=60, help="time that a test may take")
    parser.add_argument("--outcomes", type=Path, help="file that keeps the outcomes, as JSON lines")
    parser.add_argument("--errors", action="store_true", help="list what failed, with its error")
    given = parser.parse_args()
    folder = given.poptorch.resolve() / "tests"
    if not (folder / "helpers.py").is_file():
        sys.stderr.write(f"{given.poptorch} is not a checkout of PopTorch: no tests/helpers.py\n")
        return 2
    names = given.files or [file.name for file in sorted(folder.glob("*_test.py"))]
    with tempfile.TemporaryDirectory() as scratch:
        lines = (given.outcomes or Path(scratch) / "outcomes.jsonl").absolute()
        lines.write_text("")
        for name in names:
            if name not in _LEFT_OUT or name in given.files:
                _run(folder, name, lines, given)
        records = [json.loads(line) for line in lines.read_text().splitlines()]
    return print_outcomes(records, has_errors=given.errors)


def _run(folder: Path, name: str, lines: Path, given: argparse.Namespace) -> None:
    """Run the tests of a file on machines of a few tiles, in a process of their own."""
    path = [str(ROOT), str(ROOT / "compat"), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "POPTORCH_SMALL_IPU_MODEL": "1",
        "PYTHONPATH": os.pathsep.join(path),
        "TILESCOPE_POPART_OUTCOMES": str(lines),
        "TILESCOPE_POPTORCH_MOST": str(given.most),
        "TILESCOPE_POPTORCH_SECONDS": str(given.test_seconds),
    }
    plugins = ["-p", "tests.popart_suite.outcomes", "-p", "tests.poptorch_suite.selection"]
    plugins += ["-p", "no:cacheprovider", "-W", "ignore"]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, "--no-hw-tests", name]
    if given.reduced:
        command.append("--reduced-testing")
    sys.stderr.write(f"{name}\n")
    try:
        subprocess.run(
            command,
            cwd=folder,
            env=environment,
            check=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=given.seconds,
        )
    except subprocess.TimeoutExpired:
        test = {"test": f"{name}::the rest", "outcome": "failed", "error": "took too long"}
        with lines.open("a") as file:
            file.write(json.dumps(test) + "\n")


if __name__ == "__main__":
    sys.exit(main())
