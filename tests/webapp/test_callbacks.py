"""Callbacks of the pages, requested as a browser requests them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from tilescope.analyser.liveness import step_program, step_variables
from tilescope.analyser.lowered_variables import tile_variables
from tilescope.analyser.programs import all_programs, children, node
from tilescope.analyser.quantities import format_bytes
from tilescope.analyser.tile_memory import categories
from tilescope.analyser.trace import step_details
from tilescope.analyser.variables import named_variables
from tilescope.webapp.library import Library
from tilescope.webapp.pages import (
    insights,
    liveness,
    memory,
    operations,
    programs,
    summary,
    trace,
)

_MODULES = {
    "summary": summary,
    "insights": insights,
    "memory": memory,
    "liveness": liveness,
    "programs": programs,
    "operations": operations,
    "trace": trace,
}


class Browser:
    """Requests a page's server callbacks for a view, as Dash's renderer does."""

    def __init__(self, client: TestClient) -> None:
        self._client = client
        self._callbacks = client.get("/_dash-dependencies").json()

    def ask(self, page: str, **view: str) -> dict[str, Any]:
        """Return the new properties by ``component.property``, for all callbacks of the page."""
        state = {"report": "", "with": ""}
        state |= {
            parameter.name: parameter.default for parameter in getattr(_MODULES[page], "VIEW", ())
        }
        answer: dict[str, Any] = {}
        for callback in self._callbacks:
            inputs = [dependency["id"] for dependency in callback["inputs"]]
            if len(inputs) != 1 or callback["clientside_function"]:
                continue
            if inputs[0] != f"view-{page}" and not inputs[0].startswith(f"view-{page}-"):
                continue
            answer |= self._one(callback, state | view)
        return answer

    def _one(self, callback: dict[str, Any], view: dict[str, str]) -> dict[str, Any]:
        outputs = callback["output"].strip(".").split("...")
        names = [
            dict(zip(("id", "property"), name.rsplit(".", 1), strict=True)) for name in outputs
        ]
        entry = callback["inputs"][0]
        body = {
            "output": callback["output"],
            "outputs": names,
            "inputs": [{"id": entry["id"], "property": entry["property"], "value": view}],
            "changedPropIds": [f"{entry['id']}.{entry['property']}"],
            "state": [],
        }
        response = self._client.post("/_dash-update-component", json=body)
        assert response.status_code == 200, response.text
        found = response.json()["response"]
        return {
            f"{key}.{name}": value for key, props in found.items() for name, value in props.items()
        }


@pytest.fixture(scope="module")
def browser(client: TestClient) -> Browser:
    return Browser(client)


def _errors(answer: dict[str, Any]) -> list[str]:
    return [
        json.dumps(value)
        for name, value in answer.items()
        if name.endswith("-error.children") and value
    ]


@pytest.mark.parametrize("page", sorted(_MODULES))
@pytest.mark.parametrize("report", ["baseline", "candidate", "pair"])
def test_every_page_answers(browser: Browser, ids: dict[str, str], page: str, report: str) -> None:
    answer = browser.ask(page, report=ids[report])
    assert answer
    assert not _errors(answer)


@pytest.mark.parametrize("page", sorted(_MODULES))
def test_every_page_explains_an_invalid_id(browser: Browser, page: str) -> None:
    errors = _errors(browser.ask(page, report="../../etc/passwd"))
    if page == "programs":
        assert not errors
        errors = _errors(browser.ask(page, report="../../etc/passwd", node="1"))
    assert errors
    assert all("Unknown report" in error and "unknown_report" not in error for error in errors)


@pytest.mark.parametrize("page", sorted(_MODULES))
def test_a_killed_run_gives_pages_without_a_traceback(
    browser: Browser, ids: dict[str, str], page: str, library: Library
) -> None:
    answer = browser.ask(page, report=ids["killed"])
    library.close()
    text = json.dumps(answer)
    assert "Traceback" not in text
    assert "went wrong inside" not in text
    if page == "summary":
        assert "Incomplete run" in text or "ends before" in text


@pytest.mark.parametrize(
    ("page", "view", "words"),
    [
        ("memory", {"breakdown": "colour"}, "breakdown"),
        ("memory", {"breakdown": "variables", "var": "nowhere"}, "nowhere"),
        ("memory", {"x": "9:3"}, "10:20"),
        ("liveness", {"source": "moon"}, "moon"),
        ("liveness", {"step": "-4"}, "not a number"),
        ("liveness", {"step": "99999"}, "99999"),
        ("programs", {"node": "abc"}, "not a number"),
        ("programs", {"node": "999999"}, "999999"),
        ("operations", {"layer": "moon"}, "moon"),
    ],
)
def test_a_bad_address_is_answered_in_one_sentence(
    browser: Browser, ids: dict[str, str], page: str, view: dict[str, str], words: str
) -> None:
    errors = _errors(browser.ask(page, report=ids["baseline"], **view))
    assert errors
    assert any(words in error for error in errors)


@pytest.mark.parametrize(
    ("page", "name", "text", "words"),
    [
        ("memory", "tiles", "5,x", "'x' is not a tile; expected numbers from 0 to 63"),
        ("memory", "tiles", "64", "'64' is not a tile; expected numbers from 0 to 63"),
        ("liveness", "tile", "640", "'640' is not a tile; expected numbers from 0 to 63"),
        ("liveness", "tile", "-1", "'-1' is not a tile; expected numbers from 0 to 63"),
        ("liveness", "tile", "<b>", "'<b>' is not a tile; expected numbers from 0 to 63"),
        ("liveness", "tile", "3-5", "'3-5' is not one tile"),
    ],
)
def test_a_wrong_tile_is_named_below_the_chart_of_all(
    browser: Browser, ids: dict[str, str], page: str, name: str, text: str, words: str
) -> None:
    plain = browser.ask(page, report=ids["baseline"])
    answer = browser.ask(page, report=ids["baseline"], **{name: text})
    assert not _errors(answer)
    assert answer[f"{page}-headlines.children"] == plain[f"{page}-headlines.children"]
    note = json.dumps(answer[f"{page}-note.children"])
    assert words in note
    assert '"alert"' in note
    assert '"alert"' not in json.dumps(plain[f"{page}-note.children"])


def test_a_tile_that_the_candidate_lacks_is_named(browser: Browser, ids: dict[str, str]) -> None:
    view = {"report": ids["baseline"], "with": ids["pair"]}
    answer = browser.ask("liveness", **view, tile="40")
    assert not _errors(answer)
    assert "expected numbers from 0 to 31" in json.dumps(answer["liveness-note.children"])


def test_a_clicked_step_shows_its_variables(browser: Browser, ids: dict[str, str]) -> None:
    one = browser.ask("liveness", report=ids["baseline"], step="10")
    other = browser.ask("liveness", report=ids["baseline"], step="90")
    names = [{row["name"] for row in answer["liveness-step.rowData"]} for answer in (one, other)]
    assert names[0] != names[1]
    assert "Step 10:" in one["liveness-step-note.children"]
    row = one["liveness-step.rowData"][0]
    assert row["start"] <= 10 < row["end"]


def test_a_step_has_its_program(browser: Browser, ids: dict[str, str], library: Library) -> None:
    answer = browser.ask("liveness", report=ids["baseline"], tab="program", step="10")
    with library.opened(ids["baseline"]) as report:
        details = node(report, step_program(report, 10))
    said = json.dumps(answer["liveness-program.children"])
    assert "Step 10:" in said
    assert f'"{details.node.name}"' in said
    assert f'"{details.costs[0].cycles:,}"' in said


def test_no_step_means_the_peak(browser: Browser, ids: dict[str, str]) -> None:
    answer = browser.ask("liveness", report=ids["baseline"])
    assert answer["liveness-step-note.children"].startswith("Peak, step")


def test_the_source_menu_names_every_ipu(browser: Browser, ids: dict[str, str]) -> None:
    values = [
        [
            choice["value"]
            for choice in browser.ask("liveness", report=ids[name])["liveness-source.data"]
        ]
        for name in ("baseline", "pair")
    ]
    assert values == [["all"], ["all", "ipu:0", "ipu:1"]]


def test_variables_of_a_selected_tile_have_addresses(browser: Browser, ids: dict[str, str]) -> None:
    answer = browser.ask("memory", report=ids["baseline"], tiles="3", tab="variables")
    rows = answer["memory-variables.rowData"]
    assert rows
    assert [row["offset"] for row in rows] == sorted(row["offset"] for row in rows)
    some = rows[0]["name"]
    filtered = browser.ask("memory", report=ids["baseline"], tiles="3", tab="variables", name=some)
    assert {row["name"] for row in filtered["memory-variables.rowData"]} >= {some}
    assert len(filtered["memory-variables.rowData"]) <= len(rows)


def test_lifetimes_and_categories_of_parts_are_written_for_people(
    browser: Browser, ids: dict[str, str], library: Library
) -> None:
    rows = browser.ask("memory", report=ids["baseline"], tiles="3", tab="variables")[
        "memory-variables.rowData"
    ]
    with library.opened(ids["baseline"]) as report:
        parts = tile_variables(report, 3)
        labels = {category.label for category in categories(report)}
    assert [row["start"] is None for row in rows] == parts.is_always_live.tolist()
    assert any(row["start"] is None for row in rows)
    assert {row["category"] for row in rows} <= labels
    ends = [row["end"] for row in rows if row["end"] is not None]
    assert ends == parts.end_step[~parts.is_always_live].tolist()


def test_the_balance_of_a_step_counts_idle_tiles_as_the_trace_does(
    browser: Browser, ids: dict[str, str], library: Library
) -> None:
    with library.opened(ids["baseline"]) as report:
        found = next(
            program
            for program in all_programs(report).values()
            if program.step_id is not None and program.kind == "OnTileExecute"
        )
        assert found.step_id is not None
        (of_tree,) = node(report, found.program_id).costs
        (of_trace,) = step_details(report, found.step_id).costs
    assert of_tree.tile_balance == of_trace.tile_balance
    assert of_trace.tile_balance is not None
    shown = json.dumps(browser.ask("programs", report=ids["baseline"], node=str(found.program_id)))
    assert f"{100 * of_trace.tile_balance:.2f} %" in shown


def test_variables_are_drawn_tile_by_tile(
    browser: Browser, ids: dict[str, str], library: Library
) -> None:
    view = {"report": ids["baseline"], "breakdown": "variables"}
    empty = browser.ask("memory", **view)
    assert "no matching variable" in json.dumps(empty["memory-headlines.children"])
    with library.opened(ids["baseline"]) as report:
        name = tile_variables(report, 3).name[0]
        found = named_variables(report, name)
    answer = browser.ask("memory", **view, var=name)
    said = json.dumps(answer["memory-headlines.children"])
    assert f"{int(found.tile_bytes.max()):,} B" in said
    assert name in said
    other = browser.ask(
        "memory", **(view | {"report": ids["pair"]}), **{"with": ids["baseline"]}, var=name
    )
    assert not _errors(other)
    assert json.dumps(other["memory-headlines.children"]).count("side-mark") == 2


def test_two_reports_have_baseline_candidate_and_diff(
    browser: Browser, ids: dict[str, str]
) -> None:
    view = {"report": ids["baseline"], "with": ids["candidate"]}
    for page, key in (("summary", "summary-body.children"), ("memory", "memory-details.children")):
        text = json.dumps(browser.ask(page, **view)[key])
        assert all(f'"{word}"' in text for word in ("Baseline", "Candidate", "Diff"))
    rows = browser.ask("liveness", **view)["liveness-step.rowData"]
    assert any(row["baseline"] is None for row in rows)


def test_the_trace_shows_the_figures_of_both_reports(browser: Browser, ids: dict[str, str]) -> None:
    view = {"report": ids["baseline"], "with": ids["candidate"]}
    text = json.dumps(browser.ask("trace", **view)["trace-summary.children"])
    assert "IPU 0, baseline" in text
    assert "IPU 0, candidate" in text
    text = json.dumps(browser.ask("trace", tab="top", **view)["trace-top.children"])
    assert "steps are matched by identity" in text
    details = browser.ask("trace", tab="details", view="flat", at="0.0.0.5.1", **view)
    text = json.dumps(details["trace-details.children"])
    assert "In the baseline" in text


def test_a_report_beside_itself_differs_nowhere(browser: Browser, ids: dict[str, str]) -> None:
    view = {"report": ids["baseline"], "with": ids["baseline"]}
    assert "identical data" in json.dumps(browser.ask("summary", **view))
    details = json.dumps(browser.ask("memory", **view)["memory-details.children"])
    assert "is-changed" not in details
    rows = browser.ask("memory", **view, tab="tiles")["memory-ranking.rowData"]
    assert {row["diff"] for row in rows} == {"0"}


def test_options_are_filtered_by_name_value_and_origin(
    browser: Browser, ids: dict[str, str]
) -> None:
    everything = json.dumps(
        browser.ask("summary", report=ids["baseline"])["summary-options.children"]
    )
    nothing = json.dumps(
        browser.ask("summary", report=ids["baseline"], options="zzz")["summary-options.children"]
    )
    assert len(nothing) <= len(everything)
    assert "No option matches" in nothing or "has no options" in nothing


def test_liveness_compares_a_step_with_the_same_step(
    browser: Browser, ids: dict[str, str], library: Library
) -> None:
    pair = {"report": ids["baseline"], "with": ids["candidate"], "tab": "step"}
    answer = browser.ask("liveness", **pair, step="118")
    assert not _errors(answer)
    with library.opened(ids["candidate"]) as report:
        there = step_variables(report, 138)
    rows = answer["liveness-step.rowData"]
    found = {row["name"]: row["candidate"] for row in rows if row["candidate"] is not None}
    assert sum(found.values()) == there.total_bytes
    assert "Step 138" in answer["liveness-step-note.children"]
    alone = browser.ask("liveness", **pair, step="c120")
    assert not _errors(alone)
    assert all(row["baseline"] is None for row in alone["liveness-step.rowData"])
    assert "Baseline: does not have this step" in alone["liveness-step-note.children"]
    program = browser.ask("liveness", **pair | {"tab": "program"}, step="c120")
    assert not _errors(program)


def test_a_sequence_has_the_code_of_the_programs_in_it(
    browser: Browser, ids: dict[str, str], library: Library
) -> None:
    with library.opened(ids["baseline"]) as report:
        every = all_programs(report)
        root = next(one for one in every.values() if one.n_children)
        inside = node(report, root.program_id).code_inside_bytes
        below = children(report, root.program_id)
        assert inside - root.code_bytes == sum(
            node(report, one.program_id).code_inside_bytes for one in below
        )
        assert inside > root.code_bytes
    answer = browser.ask("programs", report=ids["baseline"], node=str(root.program_id))
    assert not _errors(answer)
    assert f"{format_bytes(inside)} over all tiles, of all programs in it" in json.dumps(
        answer["programs-details.children"], ensure_ascii=False
    )
