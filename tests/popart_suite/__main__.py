"""Run PopART's own tests, and show by file how many pass."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

_ROOT = Path(__file__).parents[2]

#: Groups of tests, by name: folders and files of PopART's tests/integration.
GROUPS = {
    "operators": ("operators_test",),
    "optimizers": ("optimizer_tests",),
    "sessions": (
        "anchorreturntype_test.py",
        "train_then_infer_test.py",
        "weightsio_test.py",
        "stepio_test.py",
        "session_test.py",
        "readwrite_weights_test.py",
        "anchor_tests",
        "dataflow_test.py",
        "resnet_nodata_test.py",
        "synthetic_data_test.py",
    ),
    "builder": ("builder_test.py", "builder_name_test.py"),
}

#: In the order of the table.
_OUTCOMES = ("passed", "failed", "refused", "skipped")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


@dataclass
class _File:
    """Outcomes and times of the tests of a file."""

    outcomes: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)


def main() -> int:
    """Run the tests and print the table; 1 if there are none."""
    parser = argparse.ArgumentParser(prog="python -m tests.popart_suite", description=__doc__)
    parser.add_argument("popart", type=Path, help="a checkout of PopART")
    parser.add_argument("--group", choices=[*GROUPS, "all"], default="all")
    parser.add_argument("--jobs", default="2", help="processes")
    parser.add_argument("--target", default="Cpu", help="TEST_TARGET: Cpu, IpuModel or Hw")
    parser.add_argument("--errors", action="store_true", help="list what failed, with its error")
    parser.add_argument("-k", dest="words", default="", help="tests whose names match")
    given = parser.parse_args()
    folder = given.popart / "tests" / "integration"
    if not folder.is_dir():
        sys.stderr.write(f"{given.popart} is no checkout of PopART: no tests/integration in it\n")
        return 2
    names = GROUPS if given.group == "all" else {given.group: GROUPS[given.group]}
    paths = [folder / part for parts in names.values() for part in parts]
    paths = [path for path in paths if path.exists()]
    with tempfile.TemporaryDirectory() as scratch:
        lines = Path(scratch) / "outcomes.jsonl"
        lines.touch()
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.popart_suite.outcomes"]
        command += ["-p", "no:cacheprovider", "--rootdir", str(folder), "-c", os.devnull]
        command += ["--import-mode", "importlib", "-o", "addopts=", "--tb", "no"]
        command += [
            "-n",
            given.jobs,
            *(["-k", given.words] if given.words else []),
            *map(str, paths),
        ]
        environment = {
            **os.environ,
            "TILESCOPE_POPART_OUTCOMES": str(lines),
            "TEST_TARGET": given.target,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(
                [str(_ROOT), str(_ROOT / "compat"), os.environ.get("PYTHONPATH", "")]
            ),
        }
        subprocess.run(command, cwd=scratch, env=environment, check=False, stdout=sys.stderr)
        records = [json.loads(line) for line in lines.read_text().splitlines()]
    return _print(records, has_errors=given.errors)


def _print(records: list[dict[str, object]], *, has_errors: bool) -> int:
    files: dict[str, _File] = {}
    for record in records:
        file = files.setdefault(str(record["test"]).split("::")[0], _File())
        if "outcome" in record:
            file.outcomes[str(record["outcome"])] += 1
        else:
            file.seconds.append(float(str(record["seconds"])))
    total = _File()
    _say(f"{'file':60} {'passed':>7} {'failed':>7} {'refused':>7} {'skipped':>7} {'s each':>7}")
    for name, file in sorted(files.items()):
        total.outcomes += file.outcomes
        total.seconds += file.seconds
        _print_row(name, file)
    _print_row("all", total)
    if total.seconds:
        most = sorted(total.seconds)[int(0.95 * (len(total.seconds) - 1))]
        _say(
            f"Processor time of a test: median {statistics.median(total.seconds):.2f} s,"
            f" 95 % under {most:.2f} s, all {sum(total.seconds):.0f} s"
        )
    if has_errors:
        for record in records:
            if record.get("outcome") in ("failed", "refused"):
                _say(f"{record['outcome']:8} {record['test']}: {record['error']}")
    return 0 if files else 1


def _print_row(name: str, file: _File) -> None:
    counts = " ".join(f"{file.outcomes[outcome]:7,}" for outcome in _OUTCOMES)
    seconds = statistics.median(file.seconds) if file.seconds else 0
    _say(f"{name[-60:]:60} {counts} {seconds:7.2f}")


if __name__ == "__main__":
    sys.exit(main())
