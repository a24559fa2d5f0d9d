"""``python -m tilescope.engine.fidelity``: build all targets, write the table and its page.

Writes build/fidelity.json, the packaged engine/fidelity/table.json and docs/explanation/fidelity.md
of the checkout it is run in.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tilescope.engine.fidelity.builders import BUILDERS
from tilescope.engine.fidelity.page import (
    PAGE,
    as_error,
    as_number,
    as_tolerance,
    render,
    summary_sentence,
)
from tilescope.engine.fidelity.score import Row, compare, rows_as_json


def _line(row: Row) -> str:
    verdict = f"open: needs {row.needs}" if row.verdict == "open" else row.verdict
    counted = "" if row.counted else " (not counted)"
    return (
        f"{row.id:<4} {row.figure:<44} {as_number(row.published):>12} {row.unit:<12}"
        f" {as_number(row.ours):>10} {as_error(row):>13} {as_tolerance(row):>9}"
        f"  {verdict}{counted}; {row.source}"
    )


def main() -> None:
    """Compute the table, print it, and write the three files."""
    rows = compare(BUILDERS)
    title = f"{'':<4} {'figure':<44} {'published':>12} {'':<12} {'ours':>10} {'error':>13}"
    lines = [f"{title} {'tolerance':>9}  verdict; source", *map(_line, rows)]
    sys.stdout.write("\n".join([*lines, "", summary_sentence(rows), ""]))
    text = rows_as_json(rows)
    build = Path("build/fidelity.json")
    build.parent.mkdir(exist_ok=True)
    build.write_text(text, encoding="utf-8")
    (Path(__file__).parent / "table.json").write_text(text, encoding="utf-8")
    PAGE.write_text(render(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
