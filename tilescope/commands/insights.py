"""``tilescope insights``: whether the program fits, its largest consumers, suggestions."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tilescope.console import (
    Column,
    print_json,
    print_line,
    print_name,
    print_table,
    reading,
    report_json,
)
from tilescope.parameters import AsJson, ReportPath, TopOption, Units, UnitsOption, examples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilescope.analyser.advice.experiments import Experiment
    from tilescope.analyser.advice.insights import Consumer, Insights
    from tilescope.analyser.advice.shortfall import Shortfall
    from tilescope.analyser.advice.time_insights import TimeInsights
    from tilescope.analyser.advice.trust import ReportTrust
    from tilescope.analyser.memory.liveness import LiveVariables

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command ``insights``."""

    @app.command(
        epilog=examples(
            "insights report",
            "insights report --ipu 1 --top 20",
            "insights report --run 0 --json",
        )
    )
    def insights(
        path: ReportPath,
        as_json: AsJson = False,
        ipu: Annotated[
            int | None,
            typer.Option(
                "--ipu",
                min=0,
                metavar="N",
                help="Memory of this IPU; default: all.",
                show_default=False,
            ),
        ] = None,
        run: Annotated[
            int | None,
            typer.Option(
                "--run",
                min=0,
                metavar="N",
                help="Time of this recorded run; default: all.",
                show_default=False,
            ),
        ] = None,
        units: UnitsOption = Units.BINARY,
        top: TopOption = 5,
    ) -> None:
        """Show whether the program fits, what takes memory and time, and what would help."""
        from tilescope.analyser.advice.experiments import experiments
        from tilescope.analyser.advice.insights import insights as ask
        from tilescope.analyser.advice.time_insights import time_insights
        from tilescope.analyser.advice.trust import report_trust
        from tilescope.analyser.ranking import ranked_insights
        from tilescope.corpus_trust import packaged_trust

        with reading(path) as report:
            insights, time = ask(report, ipu), time_insights(report, run)
            trust = report_trust(report, packaged_trust())
            if as_json:
                ranked = [
                    asdict(insight) | {"expected_error": trust.text(insight.operation)}
                    for insight in ranked_insights(report)
                ]
                print_json(
                    report_json(report)
                    | _as_json(insights)
                    | {"time": _time_json(time), "ranked": ranked, "trust": {"notes": trust.notes}}
                    | {"experiments": [asdict(one) for one in experiments(report)]}
                )
            else:
                _print(insights, units, top)
                _print_time(time, trust, top)
                _print_experiments(experiments(report))


def _print_experiments(found: Sequence[Experiment]) -> None:
    """Print the commands that measure what another precision or machine saves."""
    if not found:
        return
    print_line()
    print_line("What another precision or machine saves, measured beside the model:")
    for one in found:
        print_line(f"  {one.title}: {one.command}", is_whole=True)


def _time_json(time: TimeInsights) -> dict[str, object]:
    """Return what costs time, and how every expected gain is computed."""
    return {
        "n_runs": time.n_runs,
        "total_cycles": time.total_cycles,
        "insights": [asdict(insight) | {"bound": insight.bound} for insight in time.found],
    }


def _print_time(time: TimeInsights, trust: ReportTrust, top: int) -> None:
    """Print what costs time, the largest expected gain first, and how far to trust it."""
    from tilescope.analyser.quantities import format_percent, format_runs
    from tilescope.analyser.ranking import INSIGHT_TITLES

    if not time.total_cycles:
        return
    total = f"{time.total_cycles:,} cycles {format_runs(time.n_runs)}"
    print_line()
    if not time.found:
        print_line(f"Time: nothing stands out in {total}.")
        return
    print_line(f"Time: what costs most of {total}; gains are upper bounds and overlap.")
    for number, insight in enumerate(time.found[:top], start=1):
        share = format_percent(100 * insight.gain_cycles / time.total_cycles)
        print_line()
        print_name(f"{number}. {INSIGHT_TITLES[insight.kind]}: ", insight.subject)
        print_line(
            f"   Costs {insight.cost_cycles:,} cycles, gains up to {insight.gain_cycles:,}"
            f" ({share}): {insight.bound}."
        )
        print_line(f"   {insight.text}")
        print_line(f"   {insight.advice}")
        if insight.subject in trust.by_operation:
            print_line(f"   Expected error of {trust.text(insight.subject)}.")
    if len(time.found) > top:
        print_line()
        print_line(f"… {len(time.found) - top:,} more; --top N shows more, --json all")
    print_line()
    print_line(" ".join(trust.notes))


def _as_json(insights: Insights) -> dict[str, object]:
    """Return everything, variables in columns."""
    from tilescope.analyser.advice.insights import tips

    peak = insights.peak
    return {
        "fits": insights.fit.fits,
        "fit": asdict(insights.fit),
        "fullest_tile": asdict(insights.fullest),
        "fullest_tiles": [asdict(tile) for tile in insights.fullest_tiles],
        "histogram": {
            "edges_bytes": insights.histogram_edges_bytes.tolist(),
            "n_tiles": insights.histogram_n_tiles.tolist(),
        },
        "vertex_states": [asdict(consumer) for consumer in insights.vertex_states],
        "vertex_codes": [asdict(consumer) for consumer in insights.vertex_codes],
        "exchanges": [asdict(consumer) for consumer in insights.exchanges],
        "always_live": _variables_json(insights.always_live),
        "peak": None
        if peak is None
        else {
            "tile_id": peak.tile_id,
            "step": peak.step,
            "kind": peak.kind,
            "name": peak.name,
            "plan": None if peak.plan is None else peak.plan.name,
            "variables": _variables_json(peak.variables),
        },
        "shortfall": None if insights.shortfall is None else asdict(insights.shortfall),
        "tips": [asdict(tip) for tip in tips(insights)],
    }


def _variables_json(variables: LiveVariables) -> dict[str, object]:
    """Return variables in columns."""
    return {
        "name": list(variables.name),
        "category": list(variables.category),
        "dtype": list(variables.dtype),
        "bytes": variables.bytes.tolist(),
    }


def _print(insights: Insights, units: Units, top: int) -> None:
    """Print whether the program fits, the fullest tiles, their contents, and tips."""
    from tilescope.analyser.advice.insights import fit_sentence, tips
    from tilescope.analyser.quantities import format_bytes

    print_line(fit_sentence(insights.fit, units.style))
    if insights.shortfall is not None:
        _print_shortfall(insights.shortfall, units)
    print_line()
    print_table(
        [
            Column("Tile", is_number=True),
            Column("IPU", is_number=True),
            Column("Including gaps", is_number=True),
            Column("Excluding gaps", is_number=True),
            Column("Largest categories"),
        ],
        [
            (
                f"{row.tile_id:,}",
                f"{row.ipu_id:,}",
                format_bytes(row.including_gaps_bytes, units.style),
                format_bytes(row.excluding_gaps_bytes, units.style),
                ", ".join(
                    f"{label} {format_bytes(size, units.style)}"
                    for label, size in sorted(
                        row.categories.items(), key=lambda category: -category[1]
                    )[:3]
                ),
            )
            for row in insights.fullest_tiles
        ],
    )
    if insights.fullest_tiles:
        tile = f"tile {insights.fullest.tile_id:,}"
        print_line()
        print_line(f"Fullest: {insights.fullest}.")
        _print_variables(f"Always live on {tile}", insights.always_live, units, top)
        if insights.peak is not None:
            title = f"Also live at the peak of {tile}, step {insights.peak.step:,}"
            _print_variables(title, insights.peak.variables, units, top)
    _print_consumers("Vertex state, all tiles", "Compute sets", insights.vertex_states, units, top)
    _print_consumers("Codelet code, per tile", "Compute sets", insights.vertex_codes, units, top)
    _print_consumers("Exchange code, all tiles", "", insights.exchanges, units, top)
    for tip in tips(insights, units.style):
        print_line()
        print_line(f"{tip.title}: {tip.text}")


def _print_shortfall(shortfall: Shortfall, units: Units) -> None:
    """Print how many tiles the program needs at least, and what would have to go."""
    from tilescope.analyser.advice.shortfall import shortfall_sentences
    from tilescope.analyser.quantities import format_bytes

    for sentence in shortfall_sentences(shortfall, units.style):
        print_line(sentence)
    for tile in shortfall.tiles:
        print_line()
        lacks = format_bytes(tile.missing_bytes, units.style)
        gaps = f", {format_bytes(tile.gap_bytes, units.style)} of gaps" if tile.gap_bytes else ""
        enough = "" if tile.is_enough else " (not enough: gaps or the place of code count, too)"
        print_line(f"Tile {tile.tile_id:,} lacks {lacks}{gaps}; what would have to go{enough}:")
        print_table(
            [Column("Name"), Column("Category"), Column("Live"), Column("Size", is_number=True)],
            [
                (
                    item.name,
                    item.category,
                    "always" if item.is_always_live else "at the peak",
                    format_bytes(item.bytes, units.style),
                )
                for item in tile.items[:20]
            ],
        )
        if len(tile.items) > 20:
            print_line(f"… {len(tile.items) - 20:,} more; --json lists all")


def _print_variables(title: str, variables: LiveVariables, units: Units, top: int) -> None:
    """Print the largest variables on the fullest tile."""
    from tilescope.analyser.quantities import format_bytes

    print_line()
    print_table(
        [Column(title), Column("Type"), Column("Size", is_number=True)],
        [
            (
                variables.name[row],
                variables.dtype[row],
                format_bytes(int(variables.bytes[row]), units.style),
            )
            for row in range(min(top, len(variables)))
        ],
    )


def _print_consumers(
    title: str, users: str, consumers: Sequence[Consumer], units: Units, top: int
) -> None:
    """Print the largest consumers and the number of their users."""
    from tilescope.analyser.quantities import format_bytes

    if not consumers:
        return
    print_line()
    columns = [Column(title), Column("Size", is_number=True)]
    if users:
        columns += [Column(users, is_number=True), Column("Largest user")]
    print_table(
        columns,
        [
            (
                consumer.name,
                format_bytes(consumer.bytes, units.style),
                *((f"{consumer.n_users:,}", consumer.detail) if users else ()),
            )
            for consumer in consumers[:top]
        ],
    )
