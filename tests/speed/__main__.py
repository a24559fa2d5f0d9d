"""Measure models beside onnxruntime and write the table of the page: ``python -m tests.speed``."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numba
import numpy as np
import onnxruntime
from tests.models.measure import fixed_of, inputs_of
from tests.speed.runs import Compared, compare

from tilescope.engine.frontend.onnx.facts.census import take_census
from tilescope.engine.models import all_models, fetch

TABLE = Path(__file__).with_name("table.json")
#: The models whose compile and run are shown by part.
_BY_PART = ("opennsfw", "light-resnet50")


def multiply_adds(name: str) -> int:
    """Return the multiply-adds of a model of the catalogue."""
    path, value = fetch(name), inputs_of(all_models()[name])
    shapes, fixed = fixed_of(path, value)
    return take_census(path, shapes, values=fixed).multiply_adds


def parts(*arguments: str) -> dict[str, float]:
    """Return a table of `tests.speed.parts`, from a process of its own on one thread."""
    environ = os.environ | {"NUMBA_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.speed.parts", *arguments]
    answer = subprocess.run(command, env=environ, check=True, capture_output=True, text=True)
    results: dict[str, float] = json.loads(answer.stdout)
    return results


def line(found: Compared) -> str:
    """Return a row for the terminal."""
    low, high = found.clock_spread
    return (
        f"{found.name:18} {found.multiply_adds / 1e6:8.1f} {found.run_clock_s * 1e3:9.2f}"
        f" {found.their_clock_s * 1e3:9.2f} {found.clock_ratio:6.2f} {low:6.2f} to {high:5.2f}"
        f" {found.cpu_ratio:6.2f} {found.compile_s:10.2f} {found.machine_load:5.1f}"
    )


def main() -> None:
    """Measure, print, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="models of the catalogue; all by default")
    options = parser.parse_args()
    unknown = set(options.names) - set(all_models())
    if unknown:
        parser.error(f"unknown model {min(unknown)!r}: the models are {', '.join(all_models())}")
    before: dict[str, Any] = json.loads(TABLE.read_text()) if TABLE.exists() else {"models": []}
    rows = {row["name"]: row for row in before["models"]}
    sys.stdout.write(
        "model               M mul-add   ours ms theirs ms  ratio          spread    cpu  compile s"
        "  load\n"
    )
    for name in options.names or all_models():
        actual = compare(name, multiply_adds(name))
        rows[name] = asdict(actual)
        sys.stdout.write(line(actual) + "\n")
        sys.stdout.flush()
    table = {
        "processor": platform.processor() or platform.machine(),
        "n_processors": os.cpu_count(),
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "numba": numba.__version__,
            "onnxruntime": onnxruntime.__version__,
        },
        "models": [rows[name] for name in all_models() if name in rows],
        "start": parts("start"),
        "compile": {name: parts("compile", name) for name in _BY_PART},
        "run": {name: parts("run", name) for name in _BY_PART},
    }
    TABLE.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
