"""``python -m tests.fidelity [--networks] [--pods]``: build published programs, write the table.

Writes build/fidelity.json and engine/fidelity/table.json of the current checkout. Rows of whole
networks are kept unless ``--networks`` is given, and those of training on Pods unless ``--pods``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.fidelity.builders import BUILDERS, NETWORKS, PODS
from tests.fidelity.comparison import compare, rows_as_json

from tilescope.engine.fidelity import Row, packaged_rows
from tilescope.engine.fidelity.statement import (
    as_error,
    as_number,
    as_tolerance,
    summary_sentence,
)

WRITTEN = (Path("build/fidelity.json"), Path("engine/fidelity/table.json"))


def _line(row: Row) -> str:
    verdict = f"open: needs {row.needs}" if row.verdict == "open" else row.verdict
    counted = "" if row.counted else " (not counted)"
    return (
        f"{row.id:<4} {row.figure:<44} {as_number(row.published):>12} {row.unit:<12}"
        f" {as_number(row.ours):>10} {as_error(row):>13} {as_tolerance(row):>9}"
        f"  {verdict}{counted}; {row.source}"
    )


def main() -> None:
    """Compute the table, print it, and write both files."""
    builders = dict(BUILDERS)
    for name, others in (("--networks", NETWORKS), ("--pods", PODS)):
        builders |= others if name in sys.argv[1:] else {}
    rows = compare(builders, packaged_rows())
    title = f"{'':<4} {'figure':<44} {'published':>12} {'':<12} {'ours':>10} {'error':>13}"
    lines = [f"{title} {'tolerance':>9}  verdict; source", *map(_line, rows)]
    sys.stdout.write("\n".join([*lines, "", summary_sentence(rows), ""]))
    Path("build").mkdir(exist_ok=True)
    for path in WRITTEN:
        path.write_text(rows_as_json(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
