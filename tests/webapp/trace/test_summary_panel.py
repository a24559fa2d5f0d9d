"""Figures of the visible range, as the data that the browser gets."""

from __future__ import annotations

from tilescope.analyser import trace
from tilescope.webapp.components.markup import as_html
from tilescope.webapp.library import Library
from tilescope.webapp.pages.stretch_panels import stretches_panel
from tilescope.webapp.pages.trace_panels import Around, slice_panel, summary_panel


def test_the_sides_have_lines_of_their_own_and_no_column_is_empty(
    library: Library, ids: dict[str, str]
) -> None:
    with library.opened(ids["baseline"]) as item, library.opened(ids["candidate"]) as peer:
        sides = [trace.range_summary(report, None, None, None, top=0) for report in (item, peer)]
    page = as_html(summary_panel(sides, {}, is_marked=False))
    first, second = page.split('class="trace-heads"')[1:]
    assert first.count("Baseline: ") == 3
    assert "Candidate" not in first
    assert second.count("Candidate: ") == 3
    assert "Host in" in page
    assert "Global in" not in page


def test_bytes_between_ipus_have_columns(library: Library, ids: dict[str, str]) -> None:
    with library.opened(ids["pair"]) as report:
        side = trace.range_summary(report, None, None, None, top=0)
    page = as_html(summary_panel([side], {}, is_marked=False))
    assert sum(ipu.global_in_bytes for ipu in side.ipus) > 0
    assert "Global in" in page
    assert "Remote in" not in page


def test_stretches_lead_to_their_ranges(library: Library, ids: dict[str, str]) -> None:
    with library.opened(ids["pair"]) as report:
        found = trace.stretches(report)
    (table,) = (
        part for part in stretches_panel(found, is_pair=False).children if hasattr(part, "columns")
    )
    for row, place, shown in zip(found.rows, table.data["place"], table.data["range"], strict=True):
        assert place == f"{row.start_cycle}:{row.end_cycle}"
        low, high = map(int, shown.split(":"))
        assert low <= row.start_cycle < row.end_cycle < high
    assert table.columns[0]["changes"] == {"range": "{range}", "mark": "{place}"}
    (pair_table,) = (
        part for part in stretches_panel(found, is_pair=True).children if hasattr(part, "columns")
    )
    assert pair_table.columns[0]["changes"] == {"at": "step:{step}"}
    page = as_html(stretches_panel(found, is_pair=True).children[0])
    assert sum(share.cycles > 0 for share in found.shares) == page.count("<span")


def test_a_slice_lists_its_idle_tiles(library: Library, ids: dict[str, str]) -> None:
    with library.opened(ids["pair"]) as report:
        idle, slice_ = next(
            (rows, found)
            for execution in trace.executions(report, limit=200).rows
            if (rows := tuple(trace.idle_tiles(report, execution.step_id)))
            and 0 < rows[0].n_idle < rows[0].n_tiles
            and execution.ipu_id == rows[0].ipu_id
            and (
                found := trace.slice_at(
                    report, execution.ipu_id, execution.track, 0, execution.start_cycle, "flat"
                )
            )
        )
        inside = trace.range_summary(report, top=1)
        step = trace.step_details(report, idle[0].step_id)
    panel = slice_panel(slice_, inside, step, {}, Around(idle=idle))
    page = as_html(panel)
    assert f"{idle[0].n_idle:,} of {idle[0].n_tiles:,}: " in page
    low, high = idle[0].ranges[0]
    assert f"tiles={low}" in page
    assert str(high - 1) in page
