"""Run the catalogue's models beside onnxruntime: ``python -m tests.models [NAME ...]``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

from tests.models.measure import Measured, measure

from tilescope.engine import load_machine
from tilescope.engine.errors import EngineError
from tilescope.engine.models import all_models, fetch

ROOT = Path(__file__).parents[2]
_HEAD = (
    "model               error   limit  label     cycles  tile kB fits  least of total"
    "  compile s   run s  x ORT  report MB"
)


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def line(found: Measured) -> str:
    """Return a row of the table."""
    return (
        f"{found.name:18} {found.error:7.1e} {found.tolerance:7.0e}"
        f"  {'same' if found.same_labels else 'OTHER':5} {found.cycles:10,}"
        f" {found.tile_bytes / 1000:8.1f} {'yes' if found.fits else 'NO':4}"
        f" {found.least_bytes / found.total_bytes:15.0%} {found.compile_s:10.1f}"
        f" {found.run_s:7.3f} {found.onnxruntime_ratio:6.1f} {found.report_bytes / 1e6:10.2f}"
    )


def main() -> None:
    """Measure models and write the table as JSON; fail if values are wrong or a model fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="models of the catalogue; all by default")
    parser.add_argument("--machine", default="gc200")
    parser.add_argument("--precision", default="float", choices=("float", "half"))
    parser.add_argument("--out", type=Path, default=ROOT / "build/models.json")
    options = parser.parse_args()
    catalogue, machine = all_models(), load_machine(options.machine)
    unknown = set(options.names) - set(catalogue)
    if unknown:
        parser.error(f"unknown model {min(unknown)!r}: the models are {', '.join(catalogue)}")
    rows, problem = list[dict[str, object]](), list[str]()
    say(_HEAD)
    for name in options.names or catalogue:
        began = time.process_time()
        try:
            actual = measure(catalogue[name], fetch(name), machine, options.precision)
        except EngineError as error:
            seconds = time.process_time() - began
            rows.append({"name": name, "failure": str(error)})
            problem.append(name)
            say(f"{name:18} {seconds:.1f} s: {' '.join(str(error).split())[:200]}")
            continue
        rows.append(asdict(actual))
        problem += [] if actual.is_right and actual.fits else [name]
        say(line(actual))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    table = {"machine": machine.name, "precision": options.precision, "models": rows}
    options.out.write_text(json.dumps(table, indent=1) + "\n")
    say(f"{len(rows) - len(problem)} of {len(rows)} right and fit; written to {options.out}")
    if problem:
        sys.exit(f"not so: {', '.join(problem)}")


if __name__ == "__main__":
    main()
