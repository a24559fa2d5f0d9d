"""Known advisories of the pinned packages, as pip-audit reports them.

    python -m tests.faults.advisories --tool .venv/audit/bin/pip-audit

Exit code 0: none; 1: some; 3: no source answered for some package, so nothing is certain.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["main", "read_report"]

_CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"
_LISTED = 5


def read_report(report: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return a line for every advisory, and the names of packages that were not checked."""
    advisories, unchecked = [], []
    for package in report["dependencies"]:
        if "skip_reason" in package:
            unchecked.append(str(package["name"]))
        for advisory in package.get("vulns", []):
            fixes = ", ".join(advisory["fix_versions"]) or "no version"
            name = f"{package['name']} {package['version']}"
            advisories.append(f"{name}: {advisory['id']}, fixed in {fixes}")
    return advisories, unchecked


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the pinned packages, and print what is known about them."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.advisories")
    parser.add_argument("--tool", default="pip-audit", help="path of pip-audit")
    tool = parser.parse_args(arguments).tool
    command = [
        tool, "--requirement", str(_CONSTRAINTS), "--no-deps", "--disable-pip",
        "--progress-spinner", "off", "--format", "json",
    ]  # fmt: skip
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        report = json.loads(answer.stdout)
    except ValueError:
        last = (answer.stderr.strip().splitlines() or ["no message"])[-1]
        sys.stderr.write(f"No source of advisories answered: {last[:200]}\n")
        return 3
    advisories, unchecked = read_report(report)
    for line in advisories:
        sys.stdout.write(line + "\n")
    n_packages = len(report["dependencies"])
    sys.stdout.write(f"{n_packages - len(unchecked)} of {n_packages} packages checked.\n")
    if unchecked:
        names = ", ".join(unchecked[:_LISTED])
        sys.stderr.write(f"No source of advisories knows {names}, and others like them.\n")
    return 1 if advisories else 3 if unchecked else 0


if __name__ == "__main__":
    sys.exit(main())
