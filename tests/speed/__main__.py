"""Measure models beside onnxruntime and write the table of the page: ``python -m tests.speed``."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numba
import numpy as np
import onnxruntime
from tests.speed.runs import Compared, compare
from tests.speed.subjects import SUBJECTS

TABLE = Path(__file__).with_name("table.json")
#: The models whose compile and run are shown by part.
_BY_PART = ("opennsfw", "light-resnet50")
#: Part by which a figure differs from the last table before it is said to have moved.
_MOVED = 0.1


def parts(*arguments: str) -> dict[str, float]:
    """Return a table of `tests.speed.parts`, from a process of its own on one thread."""
    environ = os.environ | {"NUMBA_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.speed.parts", *arguments]
    answer = subprocess.run(command, env=environ, check=True, capture_output=True, text=True)
    results: dict[str, float] = json.loads(answer.stdout)
    return results


def line(found: Compared, before: Mapping[str, Any] | None) -> str:
    """Return a row for the terminal, with what moved since the last table."""
    low, high = found.spread
    text = (
        f"{found.name:24} {found.run_s * 1e3:9.2f} {found.their_run_s * 1e3:9.2f}"
        f" {found.run_ratio:6.2f} {low:6.2f} to {high:5.2f} {found.anew_s:8.3f}"
        f" {found.stored_s:8.4f} {found.session_s:9.4f} {found.machine_load:5.1f}"
    )
    if before is None:
        return text
    moved = [
        f"{label} {before[key]:.3g} -> {getattr(found, key):.3g}"
        for key, label in (("run_ratio", "run"), ("anew_s", "anew"), ("stored_s", "stored"))
        if abs(getattr(found, key) / before[key] - 1) > _MOVED
    ]
    return f"{text}  {'; '.join(moved)}"


def main() -> None:
    """Measure, print, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="models, by the names of the page; all by default")
    options = parser.parse_args()
    unknown = set(options.names) - set(SUBJECTS)
    if unknown:
        parser.error(f"unknown model {min(unknown)!r}: the models are {', '.join(SUBJECTS)}")
    before: dict[str, Any] = json.loads(TABLE.read_text()) if TABLE.exists() else {"models": []}
    rows = {row["name"]: row for row in before["models"]}
    sys.stdout.write(
        "model                      ours ms theirs ms  ratio          spread     anew   stored"
        "   session  load\n"
    )
    for name in options.names or SUBJECTS:
        actual = compare(SUBJECTS[name])
        sys.stdout.write(line(actual, rows.get(name)) + "\n")
        sys.stdout.flush()
        rows[name] = asdict(actual)
    table = {
        "processor": platform.processor() or platform.machine(),
        "n_processors": os.cpu_count(),
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "numba": numba.__version__,
            "onnxruntime": onnxruntime.__version__,
        },
        "models": [rows[name] for name in SUBJECTS if name in rows],
        "start": parts("start"),
        "compile": {name: parts("compile", name) for name in _BY_PART},
        "run": {name: parts("run", name) for name in _BY_PART},
    }
    TABLE.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
