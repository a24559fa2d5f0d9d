"""``tilescope export``: figures of a report in the formats of benchmark trackers."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from tilescope.completion import complete_metric
from tilescope.console import print_json, reading
from tilescope.parameters import ReportPath, examples

__all__ = ["register"]


class TrackerFormat(StrEnum):
    """Format of a benchmark tracker."""

    GITHUB_ACTION_BENCHMARK = "github-action-benchmark"
    BENCHER = "bencher"


def register(app: typer.Typer) -> None:
    """Add the command ``export``."""

    @app.command(epilog=examples("export report --format bencher > figures.json"))
    def export(
        path: ReportPath,
        form: Annotated[
            TrackerFormat,
            typer.Option(
                "--format",
                help="github-action-benchmark (its tool customSmallerIsBetter), or bencher (Bencher"
                " Metric Format).",
                show_default=False,
            ),
        ],
        metric: Annotated[
            list[str] | None,
            typer.Option(
                "--metric",
                autocompletion=complete_metric,
                metavar="METRIC",
                help="Export these metrics only; * stands for any text; repeatable.",
                show_default=False,
            ),
        ] = None,
        name: Annotated[
            str | None,
            typer.Option(
                help="Name of the model; default: that in the report.", show_default=False
            ),
        ] = None,
        bigger_is_better: Annotated[
            bool,
            typer.Option(
                "--bigger-is-better",
                help="With github-action-benchmark: export the metrics for which lower is worse,"
                " for its tool customBiggerIsBetter.",
            ),
        ] = False,
    ) -> None:
        """Export the figures of a report for a benchmark tracker."""
        from tilescope.analyser.export import bencher, github_action_benchmark
        from tilescope.analyser.gates import figures_named
        from tilescope.analyser.summary.metrics import METRICS
        from tilescope.analyser.summary.provenance import model_name
        from tilescope.reports import require_complete

        names = {figure.name for text in metric or ["*"] for figure in figures_named(text)}
        with reading(path) as report:
            require_complete(report)
            values = {key: METRICS[key].of_run(report) for key in METRICS if key in names}
            model = name or model_name(report) or report.path.parent.name
        if form is TrackerFormat.BENCHER:
            print_json(bencher(values, model))
        else:
            print_json(github_action_benchmark(values, model, is_bigger_better=bigger_is_better))
