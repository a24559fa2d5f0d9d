"""``tilescope ledger``: what every tile-cycle of the runs was spent on."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilescope.console import (
    Column,
    comparing,
    print_json,
    print_line,
    print_table,
    reading,
    report_json,
)
from tilescope.parameters import AsJson, ReportPath, RunOption, TopOption, examples

if TYPE_CHECKING:
    from tilescope.analyser.advice.ledger import Ledger, LedgerPart
    from tilescope.analyser.diff import LedgerChange

__all__ = ["register"]

#: Width of the bar of the largest entry, characters.
_BAR = 24


def register(app: typer.Typer) -> None:
    """Add the command ``ledger``."""

    @app.command(
        epilog=examples(
            "ledger report",
            "ledger report --run 0 --top 10",
            "ledger report --json",
        )
    )
    def ledger(
        path: ReportPath,
        candidate: Annotated[
            Path | None,
            typer.Argument(
                metavar="[CANDIDATE]", help="A second report to compare with.", show_default=False
            ),
        ] = None,
        as_json: AsJson = False,
        run: RunOption = None,
        top: TopOption = 3,
    ) -> None:
        """Show what all tile-cycles were spent on, the causes, and the gain at most.

        Compute, imbalance, overhead, exchange, syncs, waits and host copies add up to the time of
        the runs times all tiles. Gains are upper bounds on the critical path, and overlap.
        """
        from tilescope.analyser.advice.ledger import ledger as ask
        from tilescope.analyser.advice.ledger import ledger_parts
        from tilescope.analyser.diff import ledger_changes

        if candidate is None:
            with reading(path) as report:
                ledger, parts = ask(report, run, top), ledger_parts(report, run)
                if as_json:
                    of_ipus = {"parts": [asdict(part) for part in parts]} if parts else {}
                    print_json(report_json(report) | _as_json(ledger) | of_ipus)
                else:
                    _print(ledger)
                    _print_parts(parts)
            return
        with comparing(path, candidate) as (baseline, candidate_report):
            sides = ask(baseline, run, top), ask(candidate_report, run, top)
            changes = ledger_changes(*sides)
            if as_json:
                heads = (report_json(baseline), report_json(candidate_report))
                print_json(
                    {
                        name: head | _as_json(side)
                        for name, head, side in zip(
                            ("baseline", "candidate"), heads, sides, strict=True
                        )
                    }
                    | {"changes": [_change_json(change) for change in changes]}
                )
            else:
                _print_changes(sides, changes)


def _as_json(ledger: Ledger) -> dict[str, object]:
    """Return a ledger with the names and meanings of its entries."""
    return {
        "n_runs": ledger.n_runs,
        "n_tiles": ledger.n_tiles,
        "total_cycles": ledger.total_cycles,
        "total_tile_cycles": ledger.total_tile_cycles,
        "entries": [
            asdict(entry) | {"label": entry.label, "meaning": entry.meaning}
            for entry in ledger.entries
        ],
    }


def _change_json(change: LedgerChange) -> dict[str, object]:
    """Return a kind on both sides, in cycles of a run."""
    return {
        "kind": change.kind,
        "baseline_cycles": change.baseline_cycles,
        "candidate_cycles": change.candidate_cycles,
        "delta_cycles": change.delta_cycles,
    }


def _print(ledger: Ledger) -> None:
    """Print the ledger as bars, then the causes of every entry."""
    from tilescope.analyser.quantities import format_percent, format_runs

    if not ledger.entries:
        print_line("This report has no steps: it was written without the compiled program.")
        return
    print_line(
        f"{ledger.total_tile_cycles:,} tile-cycles: {ledger.total_cycles:,} cycles"
        f" {format_runs(ledger.n_runs)} on {ledger.n_tiles:,} tiles."
    )
    print_line()
    largest = max(entry.tile_cycles for entry in ledger.entries)
    print_table(
        [
            Column("Spent on"),
            Column("% of total", is_number=True),
            Column(""),
            Column("Tile-cycles", is_number=True),
            Column("Gain, cycles", is_number=True),
        ],
        [
            (
                entry.label,
                format_percent(100 * entry.share),
                "█" * max(1, round(_BAR * entry.tile_cycles / largest)),
                f"{entry.tile_cycles:,}",
                "–" if entry.gain_cycles is None else f"≤ {entry.gain_cycles:,}",
            )
            for entry in ledger.entries
        ],
    )
    for entry in ledger.entries:
        print_line()
        print_table(
            [
                Column(f"{entry.label}: largest of {entry.n_causes:,}"),
                Column("Step", is_number=True),
                Column("% of total", is_number=True),
            ],
            [
                (
                    cause.subject,
                    "–" if cause.step_id is None else f"{cause.step_id:,}",
                    format_percent(100 * cause.tile_cycles / ledger.total_tile_cycles),
                )
                for cause in entry.causes
            ],
        )


def _print_parts(parts: tuple[LedgerPart, ...]) -> None:
    """Print what every IPU spends its tile-cycles on, and what for every stage."""
    from tilescope.analyser.advice.ledger import LEDGER_KINDS
    from tilescope.analyser.quantities import format_percent

    if not parts:
        return
    kinds = [kind for kind in LEDGER_KINDS if any(kind in part.tile_cycles for part in parts)]
    print_line()
    print_table(
        [
            Column("By IPU and stage"),
            Column("Tile-cycles", is_number=True),
            *(Column(LEDGER_KINDS[kind].label, is_number=True) for kind in kinds),
        ],
        [
            (
                part.label if part.stage is None else f"  {part.label}",
                f"{part.total:,}",
                *(
                    format_percent(100 * part.tile_cycles.get(kind, 0) / max(part.total, 1))
                    for kind in kinds
                ),
            )
            for part in parts
        ],
    )


def _print_changes(sides: tuple[Ledger, Ledger], changes: tuple[LedgerChange, ...]) -> None:
    """Print two ledgers, the largest change first."""
    from tilescope.analyser.quantities import format_percent, format_runs, percent_of

    baseline, candidate = (side.total_cycles / max(side.n_runs, 1) for side in sides)
    print_line(
        f"Cycles of a run, mean over its tiles: baseline {baseline:,.0f},"
        f" candidate {candidate:,.0f} ({candidate - baseline:+,.0f}),"
        f" {format_runs(*(side.n_runs for side in sides))}."
    )
    print_line()
    numbers = ("Baseline", "Candidate", "Difference", "%")
    print_table(
        [Column("Spent on"), *(Column(title, is_number=True) for title in numbers)],
        [
            (
                change.label,
                f"{change.baseline_cycles:,.0f}",
                f"{change.candidate_cycles:,.0f}",
                f"{change.delta_cycles:+,.0f}",
                format_percent(
                    percent_of(change.baseline_cycles, change.delta_cycles), is_signed=True
                ),
            )
            for change in changes
        ],
    )
