"""The tab of regions: rows lead to their first and longest region, two reports to a step."""

from __future__ import annotations

from tilescope.analyser import trace
from tilescope.analyser.diff import compare_regions
from tilescope.webapp.components.markup import as_html
from tilescope.webapp.library import Library
from tilescope.webapp.pages.region_panels import (
    REGION_CHOICES,
    region_changes_panel,
    regions_panel,
)


def test_a_row_leads_to_its_first_and_its_longest_region(
    library: Library, ids: dict[str, str]
) -> None:
    with library.opened(ids["training"]) as report:
        found = trace.regions(report, "phase")
    note, table = regions_panel(found).children
    assert table.data["name"] == [row.name for row in found.rows]
    assert table.data["cycles"] == [row.cycles for row in found.rows]
    for name in ("first", "longest"):
        for row, place, shown in zip(
            found.rows, table.data[f"{name}_mark"], table.data[f"{name}_range"], strict=True
        ):
            at = getattr(row, name)
            assert place == f"{at.start_cycle}:{at.end_cycle}"
            low, high = map(int, shown.split(":"))
            assert low <= at.start_cycle < at.end_cycle < high
    changes = {item["field"]: item.get("changes") for item in table.columns}
    assert changes["name"] == {"range": "{first_range}", "mark": "{first_mark}"}
    assert changes["longest"] == {"range": "{longest_range}", "mark": "{longest_mark}"}
    assert f"{found.between_cycles:,} cycles lie between regions" in as_html(note)
    assert [value for value, _ in REGION_CHOICES] == list(trace.REGIONS)


def test_two_reports_have_both_sides_and_the_change(library: Library, ids: dict[str, str]) -> None:
    with library.opened(ids["baseline"]) as one, library.opened(ids["candidate"]) as other:
        changes = compare_regions(one, other, "layer")
    assert any(change.baseline is None for change in changes)
    _, table = region_changes_panel(changes, "layer").children
    assert table.data["delta"] == [
        round(change.candidate_cycles or 0) - round(change.baseline_cycles or 0)
        for change in changes
    ]
    for change, step in zip(changes, table.data["step"], strict=True):
        assert step == (None if change.baseline is None else change.baseline.first.step_id)
    assert table.columns[0]["changes"] == {"at": "step:{step}"}
