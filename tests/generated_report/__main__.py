"""``python -m tests.generated_report DIRECTORY --steps N``: write a generated report."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.generated_report import generate_report

from tilescope.reports.errors import ReportError


def main(arguments: list[str] | None = None) -> int:
    """Write a report according to the arguments and print its path."""
    parser = argparse.ArgumentParser(prog="python -m tests.generated_report", description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--tiles", type=int, default=1472, help="tiles of one IPU")
    parser.add_argument("--ipus", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--variables", type=int, default=2_000)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--patterns", type=int, default=400, help="distinct rows of cycles")
    parser.add_argument("--distinct-runs", action="store_true", help="no run repeats another one")
    chosen = parser.parse_args(arguments)
    try:
        path = generate_report(
            chosen.directory,
            n_tiles=chosen.tiles,
            n_ipus=chosen.ipus,
            n_steps=chosen.steps,
            n_variables=chosen.variables,
            n_runs=chosen.runs,
            seed=chosen.seed,
            distinct_patterns=chosen.patterns,
            has_distinct_runs=chosen.distinct_runs,
        )
    except (ReportError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return getattr(error, "exit_code", 2)
    sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
