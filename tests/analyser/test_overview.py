"""What one line says of a report, and why nothing ran."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.analyser.small_report import Shape

from tilescope import analyser
from tilescope.analyser.summary.overview import why_no_run
from tilescope.reports import ReportWriter


def test_a_report_with_a_run_needs_no_reason(small):
    assert why_no_run(small) == ""


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        (
            Shape(n_runs=0, bytes_per_tile=250),
            "5 of 8 tiles need more than 250 B. Insights lists what would make it fit.",
        ),
        (Shape(n_runs=0, is_finished=False), "No run is recorded: the report ended early"),
        (Shape(n_runs=0), "with the option autoReport.outputExecutionProfile=true"),
    ],
)
def test_the_advice_follows_the_reason(variation, shape, text):
    assert text in why_no_run(variation(shape))


def test_a_report_that_has_just_begun(tmp_path: Path) -> None:
    writer = ReportWriter.create(tmp_path)
    writer.commit("created")
    try:
        (path,) = tmp_path.glob("*.pop")
        with analyser.open(path) as report:
            why = why_no_run(report)
            assert "is still being written" in why
            assert why.endswith("wait until the engine finishes.")
    finally:
        writer.finish()
