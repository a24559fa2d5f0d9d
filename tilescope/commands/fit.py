"""``tilescope fit``: by how much tiles lack memory, and what would make the program fit."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from tilescope.console import (
    Column,
    print_json,
    print_line,
    print_table,
    reading,
    report_json,
)
from tilescope.parameters import AsJson, ReportPath, Units, UnitsOption, examples

if TYPE_CHECKING:
    from tilescope.analyser.advice.remedy import FitAdvice

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command ``fit``."""

    @app.command(epilog=examples("fit report", "fit report --units bytes", "fit report --json"))
    def fit(
        path: ReportPath,
        as_json: AsJson = False,
        units: UnitsOption = Units.BINARY,
    ) -> None:
        """Show what makes a program fit: bytes over per tile, remedies, and what they gain.

        A gain is exact where the report decides it; an 'estimate' is computed with the plans of the
        report, while the compiler plans anew; 'at most' is an upper bound. Commands measure it.
        """
        from tilescope.analyser.advice.remedy import fit_advice, fit_verdict

        with reading(path) as report:
            advice = fit_advice(report)
            if as_json:
                print_json(report_json(report) | _as_json(advice))
            else:
                print_line(fit_verdict(advice, units.style))
                if advice.command and len(advice.together) > 1:
                    print_line(f"  {advice.command}", is_whole=True)
                _print(advice, units)


def _as_json(advice: FitAdvice) -> dict[str, object]:
    """Return what lacks, and every remedy with its effect."""
    from tilescope.analyser.advice.remedy import fit_verdict

    answer = asdict(advice) | {"fits": advice.fits, "verdict": fit_verdict(advice)}
    answer["remedies"] = [
        asdict(remedy) | {"is_enough": remedy.is_enough} for remedy in advice.remedies
    ]
    return answer


def _print(advice: FitAdvice, units: Units) -> None:
    """Print the remedies, what gains most first, then how to apply and measure them."""
    from tilescope.analyser.advice.remedy import live_words
    from tilescope.analyser.quantities import format_bytes

    if not advice.remedies:
        return
    print_line()
    of_tile = f"Gain on tile {advice.tile_id:,}"
    numbers = ("Tiles over then", "Worst lacks", "All lack")
    print_table(
        [
            Column("Remedy"),
            Column(of_tile, is_number=True),
            Column("Known"),
            *(Column(title, is_number=True) for title in (() if advice.fits else numbers)),
        ],
        [
            (
                remedy.title,
                format_bytes(remedy.gain_bytes, units.style),
                remedy.certainty,
                *(
                    ()
                    if advice.fits
                    else (
                        f"{remedy.after.n_tiles:,}",
                        format_bytes(remedy.after.worst_bytes, units.style),
                        format_bytes(remedy.after.total_bytes, units.style),
                    )
                ),
            )
            for remedy in advice.remedies
        ],
    )
    for remedy in advice.remedies:
        print_line()
        live = live_words(advice, remedy, units.style)
        print_line(f"{remedy.title}: {remedy.text}{' ' * bool(live)}{live}")
        if remedy.command:
            print_line(f"  {remedy.command}", is_whole=True)
