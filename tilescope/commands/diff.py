"""``tilescope diff``: what changed from one report to another, and gates for continuous checks."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilescope.console import Column, print_json, print_line, print_table
from tilescope.parameters import AsJson, TopOption, Units, UnitsOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilescope.analyser.diff import Difference, StepChange, VariableChange
    from tilescope.analyser.gates import GateResult

__all__ = ["register"]

EXIT_GATE_FAILED = 1
EXIT_METRIC_MISSING = 3


def register(app: typer.Typer) -> None:
    """Add the command ``diff``."""

    @app.command()
    def diff(
        baseline: Annotated[
            Path, typer.Argument(metavar="BASELINE", help="Report to compare against.")
        ],
        candidate: Annotated[
            Path, typer.Argument(metavar="CANDIDATE", help="Report that may have changed.")
        ],
        as_json: AsJson = False,
        fail_on: Annotated[
            list[str] | None,
            typer.Option(
                "--fail-on",
                metavar="METRIC:LIMIT",
                help="Exit 1 if a metric changes beyond a limit, such as cycles.total:+1% or"
                " memory.max_tile:+1024B; repeat for several.",
            ),
        ] = None,
        units: UnitsOption = Units.BINARY,
        top: TopOption = 10,
    ) -> None:
        """Compare a baseline report with a candidate report."""
        from tilescope import analyser
        from tilescope.analyser.diff import compare, explain
        from tilescope.analyser.gates import evaluate, parse_gate

        gates = [parse_gate(text) for text in fail_on or ()]
        with analyser.open(baseline) as one, analyser.open(candidate) as other:
            difference = compare(one, other)
            results = evaluate(gates, difference)
            sentences = explain(difference)
        if as_json:
            print_json(_as_json(difference, sentences, results))
        else:
            _print(difference, sentences, results, units, top)
        statuses = {result.status for result in results}
        if "failed" in statuses:
            raise typer.Exit(EXIT_GATE_FAILED)
        if "missing" in statuses:
            raise typer.Exit(EXIT_METRIC_MISSING)


def _as_json(
    difference: Difference, sentences: Sequence[str], results: Sequence[GateResult]
) -> dict[str, object]:
    """Return the whole difference with raw numbers."""
    steps, variables, tiles = difference.steps, difference.variables, difference.tiles
    return {
        "base": asdict(difference.base),
        "new": asdict(difference.new),
        "is_identical": difference.is_identical,
        "is_data_dependent": difference.is_data_dependent,
        "unequal": list(difference.unequal),
        "sentences": list(sentences),
        "context": [asdict(each) for each in difference.context],
        "metrics": {
            each.name: {key: value for key, value in asdict(each).items() if key != "name"}
            for each in difference.metrics
        },
        "tiles": {
            "n_changed": tiles.n_changed,
            "base_bytes": tiles.base_bytes.tolist(),
            "new_bytes": tiles.new_bytes.tolist(),
            "delta_bytes": tiles.delta_bytes.tolist(),
        },
        "variables": {
            "added": [asdict(each) for each in variables.added],
            "removed": [asdict(each) for each in variables.removed],
            "changed": [asdict(each) for each in variables.changed],
            "n_same": variables.n_same,
        },
        "steps": {
            "basis": steps.basis,
            "added": [asdict(each) for each in steps.added],
            "removed": [asdict(each) for each in steps.removed],
            "changed": [asdict(each) for each in steps.changed],
            "n_same": steps.n_same,
            "delta_cycles": steps.delta_cycles,
        },
        "gates": [
            {
                "gate": each.gate.text,
                "metric": each.gate.metric,
                "status": each.status,
                "base": each.base,
                "new": each.new,
                "delta": each.delta,
                "is_data_dependent": each.is_data_dependent,
                "text": each.text,
            }
            for each in results
        ],
    }


def _print(
    difference: Difference,
    sentences: Sequence[str],
    results: Sequence[GateResult],
    units: Units,
    top: int,
) -> None:
    """Print sentences first, then tables of what changed, then the gates."""
    print_line(f"Baseline  {difference.base.path}")
    print_line(f"Candidate {difference.new.path}")
    print_line()
    for sentence in sentences:
        print_line(sentence)
    if not difference.is_identical:
        _print_metrics(difference, units)
        _print_steps(difference, top)
        _print_variables(difference, units, top)
    if results:
        print_line()
    for result in results:
        print_line(f"{result.status}: {result.text}")


def _print_metrics(difference: Difference, units: Units) -> None:
    """Print the metrics that changed."""
    from tilescope.analyser.quantities import format_change, format_percent, format_value

    style = units.style
    rows = [
        (
            each.name,
            format_value(each.base, _told(each.unit), style),
            format_value(each.new, _told(each.unit), style),
            format_change(each.delta, _told(each.unit), style),
            format_percent(each.percent_of_base, is_signed=True),
            each.verdict,
        )
        for each in difference.metrics
        if each.verdict not in {"same", "absent"}
    ]
    if rows:
        numbers = ("Baseline", "Candidate", "Change", "% of baseline")
        titles = [Column(title, is_number=True) for title in numbers]
        print_line()
        print_table([Column("Metric"), *titles, Column("")], rows)


def _told(unit: str) -> str:
    """Return a unit that has to be written; the name of a metric tells the others."""
    return "" if unit in {"cycles", "flops", "tiles"} else unit


def _print_steps(difference: Difference, top: int) -> None:
    """Print the steps that changed most."""
    steps = difference.steps
    every: list[tuple[str, StepChange]] = [
        *(("added", each) for each in steps.added),
        *(("removed", each) for each in steps.removed),
        *(("changed", each) for each in steps.changed),
    ]
    every.sort(key=lambda item: -abs(item[1].delta_cycles))
    rows = [
        (
            each.name,
            each.kind,
            _cycles(each.base_cycles),
            _cycles(each.new_cycles),
            f"{each.delta_cycles:+,}" if each.delta_cycles else "0",
            word,
        )
        for word, each in every[:top]
    ]
    if rows:
        numbers = [Column(title, is_number=True) for title in ("Baseline", "Candidate", "Change")]
        cycles = "cycles over all runs" if steps.basis == "runs" else "cycles of one execution"
        print_line()
        print_table([Column(f"Step ({cycles})"), Column("Kind"), *numbers, Column("")], rows)
        _print_rest(len(every) - len(rows))


def _print_variables(difference: Difference, units: Units, top: int) -> None:
    """Print the variables that changed most."""
    from tilescope.analyser.quantities import format_bytes, format_change

    variables = difference.variables
    every: list[tuple[str, VariableChange]] = [
        *(("added", each) for each in variables.added),
        *(("removed", each) for each in variables.removed),
        *(("changed", each) for each in variables.changed),
    ]
    every.sort(key=lambda item: -abs(item[1].delta_bytes))
    rows = [
        (
            each.name,
            format_bytes(each.base.bytes if each.base else None, units.style),
            format_bytes(each.new.bytes if each.new else None, units.style),
            format_change(each.delta_bytes, "bytes", units.style),
            word,
        )
        for word, each in every[:top]
    ]
    if rows:
        numbers = [Column(title, is_number=True) for title in ("Baseline", "Candidate", "Change")]
        print_line()
        print_table([Column("Variable"), *numbers, Column("")], rows)
        _print_rest(len(every) - len(rows))


def _print_rest(n_left_out: int) -> None:
    """Say how many rows were left out."""
    if n_left_out:
        print_line(f"… {n_left_out:,} more; --top N shows more, --json all")


def _cycles(cycles: int | None) -> str:
    """Return cycles without their word, which stands in the heading."""
    from tilescope.analyser.quantities import MISSING

    return MISSING if cycles is None else f"{cycles:,}"
