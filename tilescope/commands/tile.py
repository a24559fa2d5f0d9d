"""``tilescope tile``: everything about one tile."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tilescope.console import Column, print_json, print_line, print_table, reading, report_json
from tilescope.parameters import (
    AsJson,
    ReportPath,
    RunOption,
    TopOption,
    Units,
    UnitsOption,
    examples,
)

if TYPE_CHECKING:
    from tilescope.analyser.memory.lowered_variables import TileVariables
    from tilescope.analyser.memory.tile_timeline import TileMap
    from tilescope.analyser.summary.tile import TileFacts

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command ``tile``."""

    @app.command(
        epilog=examples(
            "tile report 0",
            "tile report 17 --run 0 --top 30",
            "tile report 17 --map --step 12",
            "tile report 17 --map --json",
        )
    )
    def tile(
        path: ReportPath,
        number: Annotated[
            int, typer.Argument(metavar="TILE", min=0, help="Tile, from 0 over all IPUs.")
        ],
        as_json: AsJson = False,
        run: RunOption = None,
        is_map: Annotated[
            bool,
            typer.Option("--map", help="Show its memory over time instead: blocks and gaps."),
        ] = False,
        step: Annotated[
            int | None,
            typer.Option(
                "--step",
                min=0,
                help="Liveness step of the gaps of --map; where the tile holds most by default.",
                show_default=False,
            ),
        ] = None,
        units: UnitsOption = Units.BINARY,
        top: TopOption = 10,
    ) -> None:
        """Show one tile: place, memory, parts of variables, vertices, and cycles over the run."""
        from tilescope.analyser.memory.tile_timeline import tile_map
        from tilescope.analyser.summary.tile import tile_facts

        if step is not None and not is_map:
            raise typer.BadParameter("--step requires --map.")
        with reading(path) as report:
            if is_map:
                blocks = tile_map(report, number)
                at = blocks.peak_step if step is None else step
                if as_json:
                    print_json(report_json(report) | _map_json(blocks, at))
                else:
                    _print_map(blocks, at, units, top)
                return
            found = tile_facts(report, number, run)
            if as_json:
                print_json(report_json(report) | _as_json(found))
            else:
                _print(found, units, top)


def _as_json(found: TileFacts) -> dict[str, object]:
    """Return everything, parts of variables in columns."""
    parts = found.variables
    return {
        "tile_id": found.tile_id,
        "ipu_id": found.ipu_id,
        "physical_id": found.physical_id,
        "row": found.row,
        "column": found.column,
        "capacity_bytes": found.capacity_bytes,
        "missing_bytes": found.missing_bytes,
        "memory": {row.key: row.bytes[0] for row in found.memory},
        "peak": None if found.peak is None else asdict(found.peak),
        "variables": {
            "variable_id": parts.variable_id.tolist(),
            "name": list(parts.name),
            "category": list(parts.category),
            "offset_bytes": parts.offset_bytes.tolist(),
            "bytes": parts.bytes.tolist(),
            "start_step": parts.start_step.tolist(),
            "end_step": parts.end_step.tolist(),
            "is_always_live": parts.is_always_live.tolist(),
        },
        "vertices": [asdict(row) for row in found.vertices],
        "n_runs": found.n_runs,
        "run_cycles": found.run_cycles,
        "busy_cycles": found.busy_cycles,
        "steps": [asdict(step) for step in found.steps],
    }


def _map_json(found: TileMap, step: int) -> dict[str, object]:
    """Return the blocks of a tile in columns, and the gaps at a step."""
    live = found.live_at(step)
    return {
        "tile_id": found.tile_id,
        "n_steps": found.n_steps,
        "capacity_bytes": found.capacity_bytes,
        "non_interleaved_bytes": found.non_interleaved_bytes,
        "unplaced_bytes": found.unplaced_bytes,
        "blocks": {
            "variable_id": found.variable_id.tolist(),
            "name": list(found.name),
            "category": list(found.category),
            "offset_bytes": found.offset_bytes.tolist(),
            "bytes": found.bytes.tolist(),
            "start_step": found.start_step.tolist(),
            "end_step": found.end_step.tolist(),
            "is_always_live": found.is_always_live.tolist(),
        },
        "step": step,
        "live_bytes": int(found.bytes[live].sum()) + found.unplaced_bytes,
        "gaps": [asdict(gap) for gap in found.gaps_at(step)],
    }


def _print_map(found: TileMap, step: int, units: Units, top: int) -> None:
    """Print the largest gaps of a tile at a step, and what lies below and above them."""
    from tilescope.analyser.quantities import format_bytes

    style, live, gaps = units.style, found.live_at(step), found.gaps_at(step)
    held = int(found.bytes[live].sum()) + found.unplaced_bytes
    print_line(
        f"Tile {found.tile_id:,} at liveness step {step:,}: {format_bytes(held, style)} live in"
        f" {len(live):,} of {len(found):,} blocks,"
        f" {format_bytes(sum(gap.bytes for gap in gaps), style)} in {len(gaps):,} gaps"
    )
    if not gaps:
        return
    print_line()
    print_table(
        [
            Column("Gap at", is_number=True),
            Column("Size", is_number=True),
            Column("Below"),
            Column("Above"),
        ],
        [
            (
                f"0x{gap.offset_bytes:x}",
                format_bytes(gap.bytes, style),
                "–" if gap.below is None else found.name[gap.below],
                found.name[gap.above],
            )
            for gap in sorted(gaps, key=lambda gap: (-gap.bytes, gap.offset_bytes))[:top]
        ],
    )
    if len(gaps) > top:
        print_line(f"… {len(gaps) - top:,} more gaps; --top N shows more, --json all")


def _print(found: TileFacts, units: Units, top: int) -> None:
    """Print the tile, section by section."""
    from tilescope.analyser.quantities import format_bytes

    style = units.style
    where = f"Tile {found.tile_id:,} of IPU {found.ipu_id:,}"
    if found.physical_id is not None:
        where += f", row {found.row}, column {found.column}, physical tile {found.physical_id:,}"
    print_line(where)
    if found.missing_bytes:
        print_line(f"It does not fit: {format_bytes(found.missing_bytes, style)} are missing.")
    if found.peak is not None:
        name = f" ({found.peak.name})" if found.peak.name else ""
        print_line(
            f"It holds most at step {found.peak.step:,}, {found.peak.kind}{name}:"
            f" {format_bytes(found.peak.not_always_live_bytes, style)} not always live."
        )
    if found.memory:
        print_line()
        print_table(
            [Column("Memory"), Column("Bytes", is_number=True)],
            [
                ("  " * row.depth + row.label, format_bytes(row.bytes[0], style))
                for row in found.memory
            ],
        )
    _print_parts(found.variables, units, top)
    if found.vertices:
        print_line()
        print_table(
            [
                Column("Vertex type"),
                Column("Kind"),
                *(Column(title, is_number=True) for title in ("Vertices", "Compute sets", "Code")),
            ],
            [
                (
                    row.vertex_type,
                    row.kind,
                    f"{row.n_vertices:,}",
                    f"{row.n_compute_sets:,}",
                    format_bytes(row.code_bytes, style),
                )
                for row in found.vertices[:top]
            ],
        )
    _print_cycles(found, top)


def _print_parts(parts: TileVariables, units: Units, top: int) -> None:
    """Print the largest parts of variables."""
    from tilescope.analyser.quantities import format_bytes, format_steps

    if not len(parts):
        return
    print_line()
    largest = (-parts.bytes).argsort(kind="stable")[:top].tolist()
    print_table(
        [
            Column("Variable"),
            Column("Category"),
            *(Column(title, is_number=True) for title in ("Address", "Size", "Live steps")),
        ],
        [
            (
                parts.name[part],
                parts.category[part],
                f"0x{parts.offset_bytes[part]:x}",
                format_bytes(int(parts.bytes[part]), units.style),
                "always"
                if parts.is_always_live[part]
                else format_steps(int(parts.start_step[part]), int(parts.end_step[part])),
            )
            for part in largest
        ],
    )
    if len(parts) > top:
        print_line(f"… {len(parts) - top:,} more parts; --top N shows more, --json all")


def _print_cycles(found: TileFacts, top: int) -> None:
    """Print how long the tile is busy, by phase and by step."""
    from tilescope.analyser.quantities import format_percent
    from tilescope.reports.schema.vocabulary import PHASE_LABELS

    print_line()
    if found.n_runs:
        runs = "1 recorded run" if found.n_runs == 1 else f"{found.n_runs:,} recorded runs"
        print_line(f"Busy in {runs} of {found.run_cycles:,} cycles:")
    else:
        print_line("Busy in one execution of every step (no recorded run):")
    whole = found.run_cycles if found.n_runs else 0
    rows = [
        (
            PHASE_LABELS[phase],
            f"{cycles:,}",
            format_percent(100 * cycles / whole if whole else None),
        )
        for phase, cycles in found.busy_cycles.items()
        if cycles
    ]
    if whole:
        idle = whole - sum(found.busy_cycles.values())
        rows.append(("Idle", f"{idle:,}", format_percent(100 * idle / whole)))
    print_table(
        [Column("Phase"), Column("Cycles", is_number=True), Column("% of run", is_number=True)],
        rows,
    )
    if found.steps:
        print_line()
        print_table(
            [
                Column("Longest steps"),
                Column("Kind"),
                *(Column(title, is_number=True) for title in ("Step", "Executions", "Cycles")),
            ],
            [
                (
                    step.name or step.kind,
                    step.kind,
                    f"{step.step_id:,}",
                    f"{step.n_executions:,}",
                    f"{step.cycles:,}",
                )
                for step in found.steps[:top]
            ],
        )
