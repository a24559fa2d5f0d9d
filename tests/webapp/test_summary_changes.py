"""What changed between two reports: the tables of the Summary page, whose rows are links."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from plotly.utils import PlotlyJSONEncoder
from starlette.testclient import TestClient
from tests.generated_report import generate_report
from tests.webapp.test_callbacks import Browser

from tilescope import analyser
from tilescope.analyser.diff import compare, operation_changes
from tilescope.analyser.time.execution import execution
from tilescope.webapp.library import Library
from tilescope.webapp.pages.operation_rows import operations_of_view
from tilescope.webapp.pages.summary_changes import headlines


@pytest.fixture(scope="module")
def browser(client: TestClient) -> Browser:
    return Browser(client)


def _links(part: Any) -> Iterator[tuple[str, dict[str, str], list[str]]]:
    """Yield path, parameters and the other cells' texts of all rows that are links."""
    if isinstance(part, list):
        for item in part:
            yield from _links(item)
    if not isinstance(part, dict):
        return
    cells: Any = part.get("c")
    first = cells[0] if isinstance(cells, list) and cells else None
    link = first.get("c") if isinstance(first, dict) else None
    link = link[0] if isinstance(link, list) and link else link
    if part.get("t") == "tr" and isinstance(link, dict) and "href" in json.dumps(link):
        address = urlsplit(_found(link, "href"))
        query = {name: value for name, (value,) in parse_qs(address.query).items()}
        yield address.path, query, [json.dumps(cell, ensure_ascii=False) for cell in cells[1:]]
        return
    for value in part.values():
        yield from _links(value)


def _found(part: Any, name: str) -> str:
    """Return the first text of that name."""
    if isinstance(part, dict):
        if isinstance(part.get(name), str):
            return str(part[name])
        part = list(part.values())
    if isinstance(part, list):
        return next((text for item in part if (text := _found(item, name))), "")
    return ""


def test_rows_lead_to_what_changed_most(
    browser: Browser, ids: dict[str, str], library: Library
) -> None:
    view = {"report": ids["baseline"], "with": ids["candidate"]}
    rows = list(_links(browser.ask("summary", **view)["summary-changes.children"]))
    assert all({"report": query["report"], "with": query["with"]} == view for _, query, _ in rows)
    baseline, candidate = operations_of_view(library, view, "library")
    assert candidate is not None
    changes = [first for first in operation_changes(baseline, candidate, "cycles") if first.delta][
        :8
    ]
    listed = [(query, cells) for path, query, cells in rows if path == "/operations"]
    assert [query["op"] for query, _ in listed] == [change.key for change in changes]
    assert {query["layer"] for query, _ in listed} == {baseline.layer}
    for change, (_, cells) in zip(changes, listed, strict=True):
        sides = change.baseline, change.candidate
        for size, cell in zip(sides, cells, strict=False):
            assert (f"{size:,}" if size is not None else "–") in cell
        assert f"{change.delta:+,}" in cells[2]
    with library.opened(view["report"]) as first, library.opened(view["with"]) as second:
        difference = compare(first, second)
    steps = difference.steps
    every = sorted(
        (*steps.added, *steps.removed, *steps.changed), key=lambda step: -abs(step.delta_cycles)
    )
    offset = [query.get("at") for path, query, _ in rows if path == "/trace"]
    assert offset == [
        None if step.baseline_step_id is None else f"step:{step.baseline_step_id}"
        for step in every[:8]
    ]
    variables = difference.variables
    largest = max(
        (*variables.added, *variables.removed, *variables.changed),
        key=lambda change: abs(change.delta_bytes),
    )
    of_memory = [query for path, query, _ in rows if path == "/memory"]
    assert of_memory[0]["var"] == largest.name
    assert len(of_memory) == 8


def test_equal_reports_have_no_tables(browser: Browser, ids: dict[str, str]) -> None:
    view = {"report": ids["baseline"], "with": ids["baseline"]}
    answer = browser.ask("summary", **view)["summary-changes.children"]
    assert not list(_links(answer))
    assert "changed most" not in json.dumps(answer)


def test_headlines_show_both_sides_and_the_change(
    browser: Browser, ids: dict[str, str], library: Library
) -> None:
    view = {"report": ids["baseline"], "with": ids["candidate"]}
    answer = browser.ask("summary", **view)["summary-changes.children"]
    text = json.dumps(answer, ensure_ascii=False)
    with library.opened(view["report"]) as first, library.opened(view["with"]) as second:
        totals = [sum(execution(report).phase_cycles.values()) for report in (first, second)]
    percent = 100 * (totals[1] - totals[0]) / totals[0]
    assert f"{totals[0]:,} cycles → {totals[1]:,} cycles" in text
    assert f"{totals[1] - totals[0]:+,} cycles ({percent:+.2f} %)" in text


def test_headlines_of_equal_reports_say_so(browser: Browser, ids: dict[str, str]) -> None:
    view = {"report": ids["baseline"], "with": ids["baseline"]}
    text = json.dumps(browser.ask("summary", **view)["summary-changes.children"])
    assert text.count(": unchanged") == 4
    assert "\u2192" not in text


def test_headlines_of_reports_with_other_numbers_of_runs_are_per_run(tmp_path: Path) -> None:
    for name, n_runs in (("one", 1), ("four", 4)):
        generate_report(tmp_path / name, n_tiles=8, n_steps=24, n_variables=5, n_runs=n_runs)
    with analyser.open(tmp_path / "one") as item, analyser.open(tmp_path / "four") as four:
        totals = [sum(execution(report).phase_cycles.values()) for report in (item, four)]
        figures = headlines(compare(item, four), {"report": "a", "with": "b"})
    text = json.dumps(figures[0].to_plotly_json(), cls=PlotlyJSONEncoder, ensure_ascii=False)
    assert "per run, of 1 and 4 runs" in text
    for total in (totals[0], round(totals[1] / 4)):
        assert f"{total:,} cycles" in text
