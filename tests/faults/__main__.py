"""Run all faults, write ``build/faults.json``: ``python -m tests.faults [--short] [PART ...]``."""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
from tests.faults import bombs, interrupts, kills, models, mutants, races, requests, storage

_FILE = Path(__file__).parents[2] / "build" / "faults.json"


def _bombs() -> dict[str, object]:
    """Return the largest figures of all files that grow, and the cases that failed."""
    answers = bombs.run()
    return {
        "cases": len(answers),
        "slowest_s": max(float(answer["seconds"]) for answer in answers.values()),
        "most_mebibytes": max(float(answer["mebibytes"]) for answer in answers.values()),
        "failures": bombs.failures(answers),
    }


#: Every part: its long and its short form, and the counts that must be zero.
_PARTS: dict[str, tuple[Callable[[], Any], Callable[[], Any], tuple[str, ...]]] = {
    "kills": (lambda: kills.run(500), lambda: kills.run(10), ("failures",)),
    "interrupts": (lambda: interrupts.run(1_000), lambda: interrupts.run(40), ("failures",)),
    "interrupts of the recorder": (
        lambda: interrupts.run_in_thread(200),
        lambda: interrupts.run_in_thread(20),
        ("failures",),
    ),
    "full disks": (
        lambda: storage.run_disk_full(200),
        lambda: storage.run_disk_full(15),
        ("failures",),
    ),
    "failing calls": (
        storage.run_failures,
        lambda: storage.run_failures(20),
        ("failures",),
    ),
    "power loss": (
        lambda: storage.run_power_loss(1_000),
        lambda: storage.run_power_loss(40),
        ("failures",),
    ),
    "races": (lambda: races.run(100), lambda: races.run(10), ("failures",)),
    "mutants": (
        lambda: mutants.run(20_000, 2_000, 0, _say),
        lambda: mutants.run(100, 20, 0, _say),
        ("failures",),
    ),
    "bombs": (_bombs, _bombs, ("failures",)),
    "requests": (
        lambda: requests.run(10_000, 0),
        lambda: requests.run(300, 0),
        ("answers_5xx", "leaks", "internal", "tracebacks"),
    ),
    "models": (lambda: models.run(500, 0), lambda: models.run(20, 0), ("problems", "exit_other")),
}


def _say(line: object) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _is_clean(result: Mapping[str, Any], zero: tuple[str, ...]) -> bool:
    return not any(result.get(name) for name in zero)


def main() -> int:
    """Run the parts and return 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(_PARTS)}; all by default")
    parser.add_argument("--short", action="store_true", help="a slice of every part")
    options = parser.parse_args()
    unknown = set(options.parts) - set(_PARTS)
    if unknown:
        parser.error(f"unknown part {min(unknown)!r}")
    os.environ.pop("POPLAR_ENGINE_OPTIONS", None)
    logging.disable(logging.WARNING)
    stored = json.loads(_FILE.read_text()) if options.parts and _FILE.is_file() else {"parts": {}}
    is_clean = True
    for name in options.parts or _PARTS:
        full, short, zero = _PARTS[name]
        _say(f"==> {name}")
        result = (short if options.short else full)()
        stored["parts"][name] = result
        is_clean = is_clean and _is_clean(result, zero)
        _say(json.dumps(result, indent=1))
    stored["machine"] = f"{platform.machine()}, {os.cpu_count()} processors"
    stored["python"], stored["sqlite"] = platform.python_version(), apsw.sqlite_lib_version()
    stored["date"] = datetime.now(UTC).strftime("%Y-%m-%d")
    _FILE.parent.mkdir(exist_ok=True)
    _FILE.write_text(json.dumps(stored, indent=1) + "\n")
    _say(f"{_FILE.relative_to(Path.cwd())} is written; {'no' if is_clean else 'SOME'} failures")
    return 0 if is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
