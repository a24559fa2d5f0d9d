"""``tilescope insights``: whether the program fits, its largest consumers, suggestions."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from tilescope.console import Column, print_json, print_line, print_table, report_json
from tilescope.parameters import AsJson, ReportPath, TopOption, Units, UnitsOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilescope.analyser.insights import Consumer, Insights
    from tilescope.analyser.liveness import LiveVariables

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command ``insights``."""

    @app.command()
    def insights(
        path: ReportPath,
        as_json: AsJson = False,
        units: UnitsOption = Units.BINARY,
        top: TopOption = 5,
    ) -> None:
        """Show whether the program fits, what fills the fullest tiles, and what would help."""
        from tilescope import analyser
        from tilescope.analyser.insights import insights as ask

        with analyser.open(path) as report:
            found = ask(report)
            if as_json:
                print_json(report_json(report) | _as_json(found))
            else:
                _print(found, units, top)


def _as_json(found: Insights) -> dict[str, object]:
    """Return everything, variables in columns."""
    from tilescope.analyser.insights import tips

    peak = found.peak
    return {
        "fits": found.fit.fits,
        "fit": asdict(found.fit),
        "worst_tiles": [asdict(tile) for tile in found.worst_tiles],
        "histogram": {
            "edges_bytes": found.histogram_edges_bytes.tolist(),
            "n_tiles": found.histogram_n_tiles.tolist(),
        },
        "vertex_states": [asdict(consumer) for consumer in found.vertex_states],
        "vertex_codes": [asdict(consumer) for consumer in found.vertex_codes],
        "exchanges": [asdict(consumer) for consumer in found.exchanges],
        "always_live": _variables_json(found.always_live),
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
        "tips": [asdict(tip) for tip in tips(found)],
    }


def _variables_json(found: LiveVariables) -> dict[str, object]:
    """Return variables in columns."""
    return {
        "name": list(found.name),
        "category": list(found.category),
        "dtype": list(found.dtype),
        "bytes": found.bytes.tolist(),
    }


def _print(found: Insights, units: Units, top: int) -> None:
    """Print whether the program fits, the fullest tiles, their contents, and tips."""
    from tilescope.analyser.insights import fit_sentence, tips
    from tilescope.analyser.quantities import format_bytes

    print_line(fit_sentence(found.fit, units.style))
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
                    for label, size in sorted(row.categories.items(), key=lambda one: -one[1])[:3]
                ),
            )
            for row in found.worst_tiles
        ],
    )
    if found.worst_tiles:
        tile = f"tile {found.worst_tiles[0].tile_id:,}"
        _print_variables(f"Always live on {tile}", found.always_live, units, top)
        if found.peak is not None:
            title = f"Also live at the peak of {tile}, step {found.peak.step:,}"
            _print_variables(title, found.peak.variables, units, top)
    _print_consumers("Vertex state, all tiles", "Compute sets", found.vertex_states, units, top)
    _print_consumers("Codelet code, per tile", "Compute sets", found.vertex_codes, units, top)
    _print_consumers("Exchange code, all tiles", "", found.exchanges, units, top)
    for tip in tips(found, units.style):
        print_line()
        print_line(f"{tip.title}: {tip.text}")


def _print_variables(title: str, found: LiveVariables, units: Units, top: int) -> None:
    """Print the largest variables on the fullest tile."""
    from tilescope.analyser.quantities import format_bytes

    print_line()
    print_table(
        [Column(title), Column("Type"), Column("Size", is_number=True)],
        [
            (
                found.name[place],
                found.dtype[place],
                format_bytes(int(found.bytes[place]), units.style),
            )
            for place in range(min(top, len(found)))
        ],
    )


def _print_consumers(
    title: str, users: str, found: Sequence[Consumer], units: Units, top: int
) -> None:
    """Print the largest consumers and the number of their users."""
    from tilescope.analyser.quantities import format_bytes

    if not found:
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
            for consumer in found[:top]
        ],
    )
