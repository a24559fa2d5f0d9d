"""Run PopTorch's own tests that need no hardware, and show by file how many pass."""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.popart_suite.__main__ import print_outcomes
from tests.poptorch_suite.results import COLUMNS, share, store

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
    parser.add_argument("--known", type=Path, nargs="*", default=[], help="outcomes of other runs")
    parser.add_argument("--store", action="store_true", help="store the table for its page")
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
                sys.stderr.write(f"{name}\n")
                _run(folder, [name], lines, given, {"POPTORCH_SMALL_IPU_MODEL": "1"})
        known = [record for file in given.known for record in _records(file)]
        seen = _last([*known, *_records(lines)])
        large = [name for name, r in seen.items() if "Out of memory" in r["error"]]
        for name in dict.fromkeys(test.split("::")[0] for test in large):
            sys.stderr.write(f"{name}, on all tiles\n")
            tests = [t.removeprefix("tests/") for t in large if t.split("::")[0] == name]
            machine = {"POPTORCH_IPU_MODEL": "1", "TILESCOPE_POPTORCH_MOST": "0"}
            _run(folder, tests, lines, given, machine)
        records = [*known, *_records(lines)]
    for record in records:  # a file that cannot be read
        if "::" not in record["test"] and record.get("outcome") == "failed":
            record["outcome"] = "package"
    last = _last(records)
    times = [record for record in records if "outcome" not in record]
    print_outcomes([*last.values(), *times], has_errors=given.errors, columns=COLUMNS)
    if given.store:
        date, version = datetime.date.today().isoformat(), importlib.metadata.version("torch")
        store(last.values(), date=date, torch=version, most=given.most, seconds=given.test_seconds)
    return _print_share(last)


def _records(lines: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines.read_text().splitlines()]


def _last(records: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the last outcome of every test."""
    return {record["test"]: record for record in records if "outcome" in record}


def _print_share(records: Mapping[str, Mapping[str, Any]]) -> int:
    """Print which share passes; return 1 if nothing ran."""
    counts = Counter(str(record["outcome"]) for record in records.values())
    (passed, n_run), (_, without_text) = share(counts), share(counts, has_text=False)
    if not n_run:
        return 1
    sys.stdout.write(
        f"{passed:,} of {n_run:,} that need no hardware and no other package pass:"
        f" {passed / n_run:.1%}; {passed / max(1, without_text):.1%} without those that read the"
        " text of PopART's log or graph\n"
    )
    return 0


def _run(
    folder: Path,
    tests: Sequence[str],
    lines: Path,
    given: argparse.Namespace,
    machine: Mapping[str, str],
) -> None:
    """Run the tests of a file in a process of their own, on a machine of variables."""
    path = [str(ROOT), str(ROOT / "compat"), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(path),
        "TILESCOPE_POPART_OUTCOMES": str(lines),
        "TILESCOPE_POPTORCH_MOST": str(given.most),
        "TILESCOPE_POPTORCH_SECONDS": str(given.test_seconds),
        **machine,
    }
    plugins = ["-p", "tests.popart_suite.outcomes", "-p", "tests.poptorch_suite.selection"]
    plugins += ["-p", "no:cacheprovider", "-W", "ignore"]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, "--no-hw-tests", *tests]
    if given.reduced:
        command.append("--reduced-testing")
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
        test = {"test": f"{tests[0]}::the rest", "outcome": "failed", "error": "took too long"}
        with lines.open("a") as file:
            file.write(json.dumps(test) + "\n")


if __name__ == "__main__":
    sys.exit(main())
