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
                shown_step = blocks.peak_step if step is None else step
                if as_json:
                    print_json(report_json(report) | _map_json(blocks, shown_step))
                else:
                    _print_map(blocks, shown_step, units, top)
                return
            facts = tile_facts(report, number, run)
            if as_json:
                print_json(report_json(report) | _as_json(facts))
            else:
                _print(facts, units, top)


def _as_json(facts: TileFacts) -> dict[str, object]:
    """Return everything, parts of variables in columns."""
    parts = facts.variables
    return {
        "tile_id": facts.tile_id,
        "ipu_id": facts.ipu_id,
        "physical_id": facts.physical_id,
        "row": facts.row,
        "column": facts.column,
        "capacity_bytes": facts.capacity_bytes,
        "missing_bytes": facts.missing_bytes,
        "memory": {row.key: row.bytes[0] for row in facts.memory},
        "peak": None if facts.peak is None else asdict(facts.peak),
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
        "vertices": [asdict(row) for row in facts.vertices],
        "n_runs": facts.n_runs,
        "run_cycles": facts.run_cycles,
        "busy_cycles": facts.busy_cycles,
        "steps": [asdict(step) for step in facts.steps],
    }


def _map_json(blocks: TileMap, step: int) -> dict[str, object]:
    """Return the blocks of a tile in columns, and the gaps at a step."""
    live = blocks.live_at(step)
    return {
        "tile_id": blocks.tile_id,
        "n_steps": blocks.n_steps,
        "capacity_bytes": blocks.capacity_bytes,
        "non_interleaved_bytes": blocks.non_interleaved_bytes,
        "unplaced_bytes": blocks.unplaced_bytes,
        "blocks": {
            "variable_id": blocks.variable_id.tolist(),
            "name": list(blocks.name),
            "category": list(blocks.category),
            "offset_bytes": blocks.offset_bytes.tolist(),
            "bytes": blocks.bytes.tolist(),
            "start_step": blocks.start_step.tolist(),
            "end_step": blocks.end_step.tolist(),
            "is_always_live": blocks.is_always_live.tolist(),
        },
        "step": step,
        "live_bytes": int(blocks.bytes[live].sum()) + blocks.unplaced_bytes,
        "gaps": [asdict(gap) for gap in blocks.gaps_at(step)],
    }


def _print_map(blocks: TileMap, step: int, units: Units, top: int) -> None:
    """Print the largest gaps of a tile at a step, and what lies below and above them."""
    from tilescope.analyser.quantities import format_bytes

    style, live, gaps = units.style, blocks.live_at(step), blocks.gaps_at(step)
    held = int(blocks.bytes[live].sum()) + blocks.unplaced_bytes
    print_line(
        f"Tile {blocks.tile_id:,} at liveness step {step:,}: {format_bytes(held, style)} live in"
        f" {len(live):,} of {len(blocks):,} blocks,"
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
                "–" if gap.below is None else blocks.name[gap.below],
                blocks.name[gap.above],
            )
            for gap in sorted(gaps, key=lambda gap: (-gap.bytes, gap.offset_bytes))[:top]
        ],
    )
    if len(gaps) > top:
        print_line(f"… {len(gaps) - top:,} more gaps; --top N shows more, --json all")


def _print(facts: TileFacts, units: Units, top: int) -> None:
    """Print the tile, section by section."""
    from tilescope.analyser.quantities import format_bytes

    style = units.style
    where = f"Tile {facts.tile_id:,} of IPU {facts.ipu_id:,}"
    if facts.physical_id is not None:
        where += f", row {facts.row}, column {facts.column}, physical tile {facts.physical_id:,}"
    print_line(where)
    if facts.missing_bytes:
        print_line(f"It does not fit: {format_bytes(facts.missing_bytes, style)} are missing.")
    if facts.peak is not None:
        name = f" ({facts.peak.name})" if facts.peak.name else ""
        print_line(
            f"It holds most at step {facts.peak.step:,}, {facts.peak.kind}{name}:"
            f" {format_bytes(facts.peak.not_always_live_bytes, style)} not always live."
        )
    if facts.memory:
        print_line()
        print_table(
            [Column("Memory"), Column("Bytes", is_number=True)],
            [
                ("  " * row.depth + row.label, format_bytes(row.bytes[0], style))
                for row in facts.memory
            ],
        )
    _print_parts(facts.variables, units, top)
    if facts.vertices:
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
                for row in facts.vertices[:top]
            ],
        )
    _print_cycles(facts, top)


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


def _print_cycles(facts: TileFacts, top: int) -> None:
    """Print how long the tile is busy, by phase and by step."""
    from tilescope.analyser.quantities import format_percent
    from tilescope.reports.schema.vocabulary import PHASE_LABELS

    print_line()
    if facts.n_runs:
        runs = "1 recorded run" if facts.n_runs == 1 else f"{facts.n_runs:,} recorded runs"
        print_line(f"Busy in {runs} of {facts.run_cycles:,} cycles:")
    else:
        print_line("Busy in one execution of every step (no recorded run):")
    run_cycles = facts.run_cycles if facts.n_runs else 0
    rows = [
        (
            PHASE_LABELS[phase],
            f"{cycles:,}",
            format_percent(100 * cycles / run_cycles if run_cycles else None),
        )
        for phase, cycles in facts.busy_cycles.items()
        if cycles
    ]
    if run_cycles:
        idle = run_cycles - sum(facts.busy_cycles.values())
        rows.append(("Idle", f"{idle:,}", format_percent(100 * idle / run_cycles)))
    print_table(
        [Column("Phase"), Column("Cycles", is_number=True), Column("% of run", is_number=True)],
        rows,
    )
    if facts.steps:
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
                for step in facts.steps[:top]
            ],
        )
