"""``tilescope liveness``: live memory by step, and the variables that hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tilescope.console import Column, print_json, print_line, print_table, reading, report_json
from tilescope.parameters import (
    AsJson,
    ReportPath,
    TopOption,
    Units,
    UnitsOption,
    examples,
    tiles_of,
)

if TYPE_CHECKING:
    from tilescope.analyser.machine.target import Source
    from tilescope.analyser.memory.liveness import LiveVariables
    from tilescope.reports import Report

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command ``liveness``."""

    @app.command(
        epilog=examples(
            "liveness report",
            "liveness report --step 12",
            "liveness report --tile 17 --top 30",
            "liveness report --ipu 0 --json",
            "liveness report --longest",
        )
    )
    def liveness(
        path: ReportPath,
        as_json: AsJson = False,
        ipu: Annotated[
            int | None,
            typer.Option(
                "--ipu",
                min=0,
                metavar="N",
                help="Tiles of this IPU; default: all.",
                show_default=False,
            ),
        ] = None,
        tile: Annotated[
            int | None,
            typer.Option(
                "--tile", min=0, metavar="N", help="This tile; default: all.", show_default=False
            ),
        ] = None,
        step: Annotated[
            int | None,
            typer.Option("--step", help="List the variables of this step; default: the peak."),
        ] = None,
        longest: Annotated[
            bool,
            typer.Option("--longest", help="List the variables that live longest, but not always."),
        ] = False,
        units: UnitsOption = Units.BINARY,
        top: TopOption = 10,
    ) -> None:
        """Show live memory by step, its peak, and the variables that hold it."""
        if longest and step is not None:
            raise typer.BadParameter("--longest and --step are mutually exclusive.")
        tiles = tiles_of(ipu, tile)
        with reading(path) as report:
            if longest:
                _show_longest(report, tiles, units, top, as_json=as_json)
            elif as_json:
                print_json(_as_json(report, tiles, step))
            else:
                _print(report, tiles, step, units, top)


def _as_json(report: Report, source: Source, step: int | None) -> dict[str, object]:
    """Return the curve in columns, the variables of a step, and always-live variables."""
    from tilescope.analyser.machine.target import format_source
    from tilescope.analyser.memory.liveness import (
        always_live_variables,
        curve,
        peak_step,
        step_variables,
    )

    live, peak = curve(report, source), peak_step(report, source)
    shown_step = step if step is not None else peak or 0
    return report_json(report) | {
        "source": format_source(source),
        "capacity_bytes": live.capacity_bytes,
        "always_live_bytes": live.always_live_bytes,
        "peak_step": peak,
        "steps": {
            "name": list(live.name),
            "kind": list(live.kind),
            "not_always_live_bytes": live.not_always_live_bytes.tolist(),
        },
        "step": shown_step,
        "step_variables": _columns(step_variables(report, shown_step, source)),
        "always_live_variables": _columns(always_live_variables(report, source)),
    }


def _columns(variables: LiveVariables) -> dict[str, object]:
    """Return variables in columns."""
    return {
        "name": list(variables.name),
        "category": list(variables.category),
        "bytes": variables.bytes.tolist(),
        "shape": [list(shape) for shape in variables.shape],
        "dtype": list(variables.dtype),
        "start_step": variables.start_step.tolist(),
        "end_step": variables.end_step.tolist(),
    }


def _print(report: Report, source: Source, step: int | None, units: Units, top: int) -> None:
    """Print the peak, the variables of a step, and always-live variables."""
    from tilescope.analyser.machine.target import format_source
    from tilescope.analyser.memory.liveness import (
        always_live_variables,
        curve,
        peak_step,
        step_variables,
    )
    from tilescope.analyser.quantities import format_bytes

    live, peak = curve(report, source), peak_step(report, source)
    style = units.style
    shown_step = step if step is not None else peak or 0
    variables = step_variables(report, shown_step, source)
    print_line(f"Liveness of {report.path}, tiles: {format_source(source)}")
    print_line(f"{len(live):,} steps; always live {format_bytes(live.always_live_bytes, style)}")
    if peak is not None:  # a report without steps was rejected above
        peak_bytes = int(live.not_always_live_bytes[peak])
        print_line(
            f"Peak at step {peak:,}, {live.kind[peak]} ({live.name[peak]}):"
            f" {format_bytes(peak_bytes, style)} not always live,"
            f" {format_bytes(peak_bytes + live.always_live_bytes, style)} in total"
        )
    print_line()
    _print_variables(f"Live at step {shown_step:,}", variables, units, top)
    print_line()
    _print_variables("Always live", always_live_variables(report, source), units, top)


def _print_variables(title: str, variables: LiveVariables, units: Units, top: int) -> None:
    """Print the largest variables and the sum of the rest."""
    from tilescope.analyser.quantities import format_bytes, format_steps

    style, n_shown = units.style, min(top, len(variables))
    rows = [
        (
            variables.name[row],
            "×".join(str(size) for size in variables.shape[row]),
            variables.dtype[row],
            format_bytes(int(variables.bytes[row]), style),
            format_steps(int(variables.start_step[row]), int(variables.end_step[row])),
        )
        for row in range(n_shown)
    ]
    rest = len(variables) - n_shown
    if rest:
        text = format_bytes(int(variables.bytes[n_shown:].sum()), style)
        rows.append((f"{rest:,} more", "", "", text, ""))
    rows.append(("Total", "", "", format_bytes(variables.total_bytes, style), ""))
    print_table(
        [
            Column(title),
            Column("Shape"),
            Column("Type"),
            Column("Size", is_number=True),
            Column("Live steps", is_number=True),
        ],
        rows,
    )


def _show_longest(report: Report, source: Source, units: Units, top: int, *, as_json: bool) -> None:
    """Print the variables that live longest without being live always."""
    from tilescope.analyser.machine.target import format_source
    from tilescope.analyser.memory.longest_lives import longest_lives
    from tilescope.analyser.quantities import format_bytes, format_count, format_lives

    lives = longest_lives(report, source)
    if as_json:
        rows = [
            {
                "name": row.variable.name,
                "category": row.variable.category,
                "bytes": row.variable.bytes,
                "n_steps": row.variable.n_steps,
                "share": row.share,
                "cycles": row.cycles,
                "byte_steps": row.byte_steps,
                "lives": row.variable.lives,
                "made_by": row.variable.made_by,
            }
            for row in lives.rows
        ]
        facts = {"source": format_source(source), "n_steps": lives.n_steps, "variables": rows}
        print_json(report_json(report) | facts)
        return
    print_line(f"Longest lives in {report.path}, tiles: {format_source(source)}")
    print_line(
        f"{len(lives.rows):,} variables live at some of {lives.n_steps:,} steps;"
        " those that are always live are left out"
    )
    print_line()
    numbers = ("Steps", "% of steps", "Cycles a run", "Size")
    print_table(
        [
            Column("Variable"),
            *(Column(title, is_number=True) for title in numbers),
            Column("Live steps", is_number=True),
        ],
        [
            (
                row.variable.name,
                f"{row.variable.n_steps:,}",
                f"{row.share:.1%}",
                format_count(row.cycles),
                format_bytes(row.variable.bytes, units.style),
                format_lives(row.variable.lives),
            )
            for row in lives.rows[:top]
        ],
    )
    if len(lives.rows) > top:
        print_line(f"… {len(lives.rows) - top:,} more; --top N shows more, --json all")
