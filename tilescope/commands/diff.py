"""``tilescope diff``: compare a baseline with a candidate, and gate on the change."""

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
                help="Exit with 1 if a metric exceeds a limit, such as cycles.total:+1% or"
                " memory.max_tile:+1024B; repeatable.",
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
        "baseline": asdict(difference.baseline),
        "candidate": asdict(difference.candidate),
        "is_identical": difference.is_identical,
        "is_data_dependent": difference.is_data_dependent,
        "unequal": list(difference.unequal),
        "sentences": list(sentences),
        "context": [asdict(fact) for fact in difference.context],
        "metrics": {
            metric.name: {key: value for key, value in asdict(metric).items() if key != "name"}
            for metric in difference.metrics
        },
        "tiles": {
            "n_changed": tiles.n_changed,
            "baseline_bytes": tiles.baseline_bytes.tolist(),
            "candidate_bytes": tiles.candidate_bytes.tolist(),
            "delta_bytes": tiles.delta_bytes.tolist(),
        },
        "variables": {
            "added": [asdict(variable) for variable in variables.added],
            "removed": [asdict(variable) for variable in variables.removed],
            "changed": [asdict(variable) for variable in variables.changed],
            "n_same": variables.n_same,
        },
        "steps": {
            "basis": steps.basis,
            "added": [asdict(step) for step in steps.added],
            "removed": [asdict(step) for step in steps.removed],
            "changed": [asdict(step) for step in steps.changed],
            "n_same": steps.n_same,
            "delta_cycles": steps.delta_cycles,
        },
        "gates": [
            {
                "gate": result.gate.text,
                "metric": result.gate.metric,
                "status": result.status,
                "baseline": result.baseline,
                "candidate": result.candidate,
                "delta": result.delta,
                "is_data_dependent": result.is_data_dependent,
                "text": result.text,
            }
            for result in results
        ],
    }


def _print(
    difference: Difference,
    sentences: Sequence[str],
    results: Sequence[GateResult],
    units: Units,
    top: int,
) -> None:
    """Print sentences, then tables of the changes, then gates."""
    print_line(f"Baseline  {difference.baseline.path}")
    print_line(f"Candidate {difference.candidate.path}")
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
    """Print the changed metrics."""
    from tilescope.analyser.quantities import format_change, format_percent, format_value

    style = units.style
    rows = [
        (
            metric.name,
            format_value(metric.baseline, _unit_suffix(metric.unit), style),
            format_value(metric.candidate, _unit_suffix(metric.unit), style),
            format_change(metric.delta, _unit_suffix(metric.unit), style),
            format_percent(metric.percent_of_baseline, is_signed=True),
            metric.verdict,
        )
        for metric in difference.metrics
        if metric.verdict not in {"same", "absent"}
    ]
    if rows:
        numbers = ("Baseline", "Candidate", "Change", "% of baseline")
        titles = [Column(title, is_number=True) for title in numbers]
        print_line()
        print_table([Column("Metric"), *titles, Column("")], rows)


def _unit_suffix(unit: str) -> str:
    """Return the unit to print; empty where the metric's name states it."""
    return "" if unit in {"cycles", "flops", "tiles"} else unit


def _print_steps(difference: Difference, top: int) -> None:
    """Print the steps with the largest changes."""
    steps = difference.steps
    every: list[tuple[str, StepChange]] = [
        *(("added", step) for step in steps.added),
        *(("removed", step) for step in steps.removed),
        *(("changed", step) for step in steps.changed),
    ]
    every.sort(key=lambda item: -abs(item[1].delta_cycles))
    rows = [
        (
            step.name,
            step.kind,
            _cycles(step.baseline_cycles),
            _cycles(step.candidate_cycles),
            f"{step.delta_cycles:+,}" if step.delta_cycles else "0",
            word,
        )
        for word, step in every[:top]
    ]
    if rows:
        numbers = [Column(title, is_number=True) for title in ("Baseline", "Candidate", "Change")]
        cycles = "cycles, all runs" if steps.basis == "runs" else "cycles, one execution"
        print_line()
        print_table([Column(f"Step ({cycles})"), Column("Kind"), *numbers, Column("")], rows)
        _print_rest(len(every) - len(rows))


def _print_variables(difference: Difference, units: Units, top: int) -> None:
    """Print the variables with the largest changes."""
    from tilescope.analyser.quantities import format_bytes, format_change

    variables = difference.variables
    every: list[tuple[str, VariableChange]] = [
        *(("added", variable) for variable in variables.added),
        *(("removed", variable) for variable in variables.removed),
        *(("changed", variable) for variable in variables.changed),
    ]
    every.sort(key=lambda item: -abs(item[1].delta_bytes))
    rows = [
        (
            variable.name,
            format_bytes(variable.baseline.bytes if variable.baseline else None, units.style),
            format_bytes(variable.candidate.bytes if variable.candidate else None, units.style),
            format_change(variable.delta_bytes, "bytes", units.style),
            word,
        )
        for word, variable in every[:top]
    ]
    if rows:
        numbers = [Column(title, is_number=True) for title in ("Baseline", "Candidate", "Change")]
        print_line()
        print_table([Column("Variable"), *numbers, Column("")], rows)
        _print_rest(len(every) - len(rows))


def _print_rest(n_omitted: int) -> None:
    """Print the number of omitted rows."""
    if n_omitted:
        print_line(f"… {n_omitted:,} more; --top N shows more, --json all")


def _cycles(cycles: int | None) -> str:
    """Return cycles without their unit, which is in the heading."""
    from tilescope.analyser.quantities import MISSING

    return MISSING if cycles is None else f"{cycles:,}"
