"""Figures of the visible range, as the data that the browser gets."""

from __future__ import annotations

from tilescope.analyser import trace
from tilescope.webapp.components.markup import as_html
from tilescope.webapp.library import Library
from tilescope.webapp.pages.trace_panels import summary_panel


def test_the_sides_have_lines_of_their_own_and_no_column_is_empty(
    library: Library, ids: dict[str, str]
) -> None:
    with library.opened(ids["baseline"]) as item, library.opened(ids["candidate"]) as peer:
        sides = [trace.range_summary(report, None, None, None, top=0) for report in (item, peer)]
    page = as_html(summary_panel(sides, is_marked=False))
    first, second = page.split('class="trace-heads"')[1:]
    assert first.count("Baseline: ") == 3
    assert "Candidate" not in first
    assert second.count("Candidate: ") == 3
    assert "Host in" in page
    assert "Global in" not in page


def test_bytes_between_ipus_have_columns(library: Library, ids: dict[str, str]) -> None:
    with library.opened(ids["pair"]) as report:
        side = trace.range_summary(report, None, None, None, top=0)
    page = as_html(summary_panel([side], is_marked=False))
    assert sum(ipu.global_in_bytes for ipu in side.ipus) > 0
    assert "Global in" in page
    assert "Remote in" not in page
