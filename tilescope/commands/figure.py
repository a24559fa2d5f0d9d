"""``tilescope figure``: write a chart of a report to a file of its own."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilescope.console import comparing, print_line, reading
from tilescope.parameters import ReportPath, examples

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["register"]

_ENDINGS = (".html", ".json")


class Figure(StrEnum):
    """What is drawn."""

    MEMORY = "memory"
    LIVENESS = "liveness"
    PHASES = "phases"
    OPERATIONS = "operations"
    HISTOGRAM = "histogram"


def register(app: typer.Typer) -> None:
    """Add the command ``figure``."""

    @app.command(
        epilog=examples(
            "figure report memory --out memory.html",
            "figure baseline/ liveness --candidate candidate/ --out liveness.html",
        )
    )
    def figure(
        path: ReportPath,
        what: Annotated[
            Figure,
            typer.Argument(
                metavar="FIGURE",
                help="memory (by tile), liveness (by step), phases (cycles), operations (by cycles,"
                " with their cumulative share), or histogram (of memory over tiles).",
                show_default=False,
            ),
        ],
        out: Annotated[
            Path,
            typer.Option(
                help="File to write: .html holds all it needs, .json is Plotly's format.",
                show_default=False,
            ),
        ],
        candidate: Annotated[
            Path | None,
            typer.Option(help="A report to compare with.", show_default=False),
        ] = None,
    ) -> None:
        """Write a chart of a report, or of two, to a file that opens without a server."""
        if out.suffix not in _ENDINGS:
            raise typer.BadParameter(
                f"expected a file that ends in {' or '.join(_ENDINGS)}, got {out.name!r}",
                param_hint="--out",
            )
        # Plotly is slow to import and optional: import it here only.
        from tilescope.webapp.figures.notebook import FIGURES

        if candidate is None:
            with reading(path) as report:
                drawn = FIGURES[what](report, None)
        else:
            with comparing(path, candidate) as (baseline, candidate_report):
                drawn = FIGURES[what](baseline, candidate_report)
        _write(drawn, out)
        print_line(f"Figure: {out}", is_whole=True)


def _write(drawn: go.Figure, out: Path) -> None:
    """Write a figure.

    Raises
    ------
    typer.BadParameter
        When the file cannot be written.
    """
    if out.suffix == ".html":
        text = drawn.to_html(include_plotlyjs=True, full_html=True)
    else:
        text = drawn.to_json()
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(
            f"{out} cannot be written: {error.strerror}; choose another file", param_hint="--out"
        ) from error
