"""Callbacks of the pages, requested as a browser requests them."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from tilescope.analyser.memory.liveness import (
    curve,
    liveness_step_ids,
    step_program,
    step_variables,
)
from tilescope.analyser.memory.lowered_variables import tile_variables
from tilescope.analyser.memory.program_code import program_code
from tilescope.analyser.memory.tile_memory import categories
from tilescope.analyser.memory.variables import named_variables
from tilescope.analyser.program.program_tree import all_programs
from tilescope.analyser.program.programs import node
from tilescope.analyser.quantities import format_bytes
from tilescope.analyser.trace import step_details
from tilescope.webapp import api, pages
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


def _data(content: Any) -> dict[str, list[Any]]:
    """Return the data of the first table in content."""
    if isinstance(content, list):
        return next((actual for part in content if (actual := _data(part))), {})
    if not isinstance(content, dict):
        return {}
    props = content.get("props", {})
    if content.get("type") == "DataTable":
        data: dict[str, list[Any]] = props["data"]
        return data
    return _data(props.get("children"))


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
        actual = response.json()["response"]
        return {
            f"{key}.{name}": value for key, props in actual.items() for name, value in props.items()
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


@pytest.mark.parametrize("package", [pages, api])
def test_a_misspelt_module_is_an_error(
    package: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package, "_NAMES", ("sumary",))
    with pytest.raises(ModuleNotFoundError, match="sumary"):
        package.modules()


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
        assert "holds no machine" in text
        assert "ended early" in text


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
        ("operations", {"columns": "moon"}, "moon"),
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
    first, second = (
        browser.ask("liveness", report=ids["baseline"], step=step)["liveness-tab-step.children"]
        for step in ("10", "90")
    )
    assert set(_data(first)["name"]) != set(_data(second)["name"])
    assert "Step 10:" in json.dumps(first)
    actual = _data(first)
    assert actual["start"][0] <= 10 < actual["end"][0]
    some = actual["name"][0]
    view = {"report": ids["baseline"], "step": "10", "name": some}
    filtered = browser.ask("liveness", **view)["liveness-tab-step.children"]
    assert set(_data(filtered)["name"]) == {some}


def test_several_steps_become_columns(
    browser: Browser, ids: dict[str, str], library: Library
) -> None:
    view = {"report": ids["baseline"], "step": "10,90"}
    answer = browser.ask("liveness", **view)
    assert not _errors(answer)
    content = answer["liveness-tab-step.children"]
    assert all(f'"Step {step}"' in json.dumps(content) for step in (10, 90))
    actual = _data(content)
    with library.opened(ids["baseline"]) as report:
        for index, step in enumerate((10, 90)):
            sizes = [size for size in actual[f"bytes{index}"] if size is not None]
            assert sum(sizes) == step_variables(report, step).total_bytes
    both = browser.ask("liveness", **view, **{"with": ids["candidate"]})
    assert not _errors(both)
    assert {"baseline0", "candidate0", "diff0", "baseline1", "candidate1", "diff1"} <= set(
        _data(both["liveness-tab-step.children"])
    )
    for tab in ("step", "vertices", "cycles", "flops", "program"):
        beyond = browser.ask("liveness", report=ids["baseline"], step="10,999", tab=tab)
        assert "step 999 does not exist" in json.dumps(beyond[f"liveness-tab-{tab}-error.children"])
    problem = browser.ask("liveness", report=ids["baseline"], step="10,x")
    assert "is not a number" in json.dumps(problem["liveness-tab-step-error.children"])


@pytest.mark.parametrize("tab", ["always", "vertices", "cycles", "flops", "tightest", "longest"])
def test_every_tab_of_liveness_answers_for_one_report_and_two(
    browser: Browser, ids: dict[str, str], library: Library, tab: str
) -> None:
    with library.opened(ids["baseline"]) as report:
        live = curve(report)
        step = next(index for index, kind in enumerate(live.kind) if kind == "OnTileExecute")
    for candidate in ({}, {"with": ids["candidate"]}, {"with": ids["baseline"]}):
        answer = browser.ask(
            "liveness", report=ids["baseline"], tab=tab, step=str(step), **candidate
        )
        assert not _errors(answer)
        actual = _data(answer[f"liveness-tab-{tab}.children"])
        assert actual
        assert len({len(values) for values in actual.values()}) == 1
        if candidate.get("with") == ids["baseline"] and tab not in {"tightest", "longest"}:
            assert set(actual["diff"]) == {"0"}


def test_the_cycles_of_a_step_are_those_of_its_tiles(
    browser: Browser, ids: dict[str, str], library: Library
) -> None:
    with library.opened(ids["baseline"]) as report:
        live = curve(report)
        step = next(index for index, kind in enumerate(live.kind) if kind == "OnTileExecute")
        details = step_details(report, int(liveness_step_ids(report)[step]))
    view = {"report": ids["baseline"], "tab": "cycles", "step": str(step)}
    text = json.dumps(browser.ask("liveness", **view)["liveness-tab-cycles.children"])
    assert f'"{details.costs[0].max_tile_cycles:,}"' in text
    assert "Slowest tiles" in text
    assert "Show in the trace" in text


def test_a_step_has_its_program(browser: Browser, ids: dict[str, str], library: Library) -> None:
    answer = browser.ask("liveness", report=ids["baseline"], tab="program", step="10")
    with library.opened(ids["baseline"]) as report:
        details = node(report, step_program(report, 10))
    text = json.dumps(answer["liveness-tab-program.children"])
    assert "Step 10:" in text
    assert f'"{details.node.name}"' in text
    assert f'"{details.costs[0].cycles:,}"' in text


def test_no_step_means_the_peak(browser: Browser, ids: dict[str, str]) -> None:
    answer = browser.ask("liveness", report=ids["baseline"])
    assert "Peak, step" in json.dumps(answer["liveness-tab-step.children"])


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
    rows = _data(answer["memory-variables.children"])
    assert rows["offset"]
    assert rows["bytes"] == sorted(rows["bytes"], reverse=True)
    some = rows["name"][0]
    filtered = browser.ask("memory", report=ids["baseline"], tiles="3", tab="variables", name=some)
    assert set(_data(filtered["memory-variables.children"])["name"]) == {some}


def test_lifetimes_and_categories_of_parts_are_written_for_people(
    browser: Browser, ids: dict[str, str], library: Library
) -> None:
    answer = browser.ask("memory", report=ids["baseline"], tiles="3", tab="variables")
    rows = _data(answer["memory-variables.children"])
    with library.opened(ids["baseline"]) as report:
        parts = tile_variables(report, 3)
        labels = {category.label for category in categories(report)}
    order = np.argsort(-parts.bytes, kind="stable")
    assert rows["offset"] == parts.offset_bytes[order].tolist()
    assert [start is None for start in rows["start"]] == parts.is_always_live[order].tolist()
    assert None in rows["start"]
    assert set(rows["category"]) <= labels
    ends = [end for end in rows["end"] if end is not None]
    always = parts.is_always_live[order]
    assert ends == parts.end_step[order][~always].tolist()


@pytest.mark.parametrize("tab", ["sets", "vertices", "exchanges"])
def test_what_is_on_tiles_is_listed_and_filtered(
    browser: Browser, ids: dict[str, str], tab: str
) -> None:
    view = {"report": ids["baseline"], "tab": tab}
    everything = _data(browser.ask("memory", **view)[f"memory-{tab}.children"])
    of_tile = _data(browser.ask("memory", **view, tiles="3")[f"memory-{tab}.children"])
    assert 0 < len(of_tile["name"]) <= len(everything["name"])
    assert sum(of_tile["code"]) < sum(everything["code"])
    some = everything["name"][0]
    actual = _data(browser.ask("memory", **view, name=some)[f"memory-{tab}.children"])
    assert some in actual["name"]
    assert len(actual["name"]) < len(everything["name"])
    nothing = browser.ask("memory", **view, name="no such name")
    assert "Clear the filter" in json.dumps(nothing[f"memory-{tab}.children"])
    problem = browser.ask("memory", **view, tiles="64")
    assert "expected numbers from 0 to 63" in json.dumps(problem[f"memory-{tab}.children"])


def test_the_address_map_of_a_tile_is_drawn_or_asks_for_one(
    browser: Browser, ids: dict[str, str]
) -> None:
    view = {"report": ids["baseline"], "tab": "variables", "as": "map"}
    assert "Select a tile" in json.dumps(browser.ask("memory", **view)["memory-variables.children"])
    text = json.dumps(browser.ask("memory", **view, tiles="3")["memory-variables.children"])
    assert "Addresses of tile 3" in text
    assert "Shared at different steps" in text
    both = {**view, "with": ids["candidate"], "tiles": "3"}
    text = json.dumps(browser.ask("memory", **both)["memory-variables.children"])
    assert all(side in text for side in ("Baseline", "Candidate"))
    problem = browser.ask("memory", **{**view, "as": "picture"})
    assert "choose table or map" in json.dumps(problem["memory-variables-error.children"])


def test_the_balance_of_a_step_counts_idle_tiles_as_the_trace_does(
    browser: Browser, ids: dict[str, str], library: Library
) -> None:
    with library.opened(ids["baseline"]) as report:
        actual = next(
            program
            for program in all_programs(report).values()
            if program.step_id is not None and program.kind == "OnTileExecute"
        )
        assert actual.step_id is not None
        (of_tree,) = node(report, actual.program_id).costs
        (of_trace,) = step_details(report, actual.step_id).costs
    assert of_tree.tile_balance == of_trace.tile_balance
    assert of_trace.tile_balance is not None
    text = json.dumps(browser.ask("programs", report=ids["baseline"], node=str(actual.program_id)))
    assert f"{100 * of_trace.tile_balance:.2f} %" in text


def test_variables_are_drawn_tile_by_tile(
    browser: Browser, ids: dict[str, str], library: Library
) -> None:
    view = {"report": ids["baseline"], "breakdown": "variables"}
    empty = browser.ask("memory", **view)
    assert "choose a variable" in json.dumps(empty["memory-headlines.children"])
    with library.opened(ids["baseline"]) as report:
        name = tile_variables(report, 3).name[0]
        actual = named_variables(report, name)
    answer = browser.ask("memory", **view, var=name)
    text = json.dumps(answer["memory-headlines.children"])
    assert f"{int(actual.tile_bytes.max()):,} B" in text
    assert name in text
    peer = browser.ask(
        "memory", **(view | {"report": ids["pair"]}), **{"with": ids["baseline"]}, var=name
    )
    assert not _errors(peer)
    assert json.dumps(peer["memory-headlines.children"]).count("side-mark") == 2


def test_two_reports_have_baseline_candidate_and_diff(
    browser: Browser, ids: dict[str, str]
) -> None:
    view = {"report": ids["baseline"], "with": ids["candidate"]}
    for page, key in (("summary", "summary-body.children"), ("memory", "memory-details.children")):
        text = json.dumps(browser.ask(page, **view)[key])
        assert all(f'"{word}"' in text for word in ("Baseline", "Candidate", "Diff"))
    actual = _data(browser.ask("liveness", **view)["liveness-tab-step.children"])
    assert None in actual["baseline0"]


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


def test_the_trace_lists_regions(browser: Browser, ids: dict[str, str]) -> None:
    for by in ("layer", "phase", "run"):
        view = {"report": ids["training"], "tab": "regions", "by": by}
        one = _data(browser.ask("trace", **view)["trace-regions.children"])
        assert sum(one["share"]) == pytest.approx(1)
        both = _data(
            browser.ask("trace", **view, **{"with": ids["training"]})["trace-regions.children"]
        )
        assert set(both["name"]) == set(one["name"])
        assert not any(both["delta"])
    for by, said in (("micro-batch", "is of no pipeline"), ("weather", "use layer, phase")):
        view = {"report": ids["training"], "tab": "regions", "by": by}
        (error,) = _errors(browser.ask("trace", **view))
        assert said in error
    assert "trace-regions.children" not in browser.ask("trace", report=ids["training"])


def test_a_report_beside_itself_differs_nowhere(browser: Browser, ids: dict[str, str]) -> None:
    view = {"report": ids["baseline"], "with": ids["baseline"]}
    assert "identical data" in json.dumps(browser.ask("summary", **view))
    details = json.dumps(browser.ask("memory", **view)["memory-details.children"])
    assert "is-changed" not in details
    for tab, position in (("tiles", "ranking"), ("sets", "sets"), ("vertices", "vertices"),
                       ("exchanges", "exchanges"), ("variables", "variables")):  # fmt: skip
        answer = browser.ask("memory", **view, tab=tab)
        assert set(_data(answer[f"memory-{position}.children"])["diff"]) == {"0"}


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
    content = answer["liveness-tab-step.children"]
    sizes = [size for size in _data(content)["candidate0"] if size is not None]
    assert sum(sizes) == there.total_bytes
    assert "Step 138" in json.dumps(content)
    alone = browser.ask("liveness", **pair, step="c120")
    assert not _errors(alone)
    content = alone["liveness-tab-step.children"]
    assert set(_data(content)["baseline0"]) == {None}
    assert "Baseline: does not have this step" in json.dumps(content)
    program = browser.ask("liveness", **pair | {"tab": "program"}, step="c120")
    assert not _errors(program)


def test_a_sequence_has_the_code_of_the_programs_in_it(
    browser: Browser, ids: dict[str, str], library: Library
) -> None:
    with library.opened(ids["baseline"]) as report:
        every = all_programs(report)
        root = next(item for item in every.values() if item.n_children)
        actual = program_code(report, root.program_id)
    assert min(actual.exchange_bytes, actual.control_bytes, actual.vertex_bytes) > 0
    sizes = [actual.exchange_bytes, actual.control_bytes, actual.vertex_bytes]
    for tab in ("cost", "code"):
        answer = browser.ask("programs", report=ids["baseline"], node=str(root.program_id), tab=tab)
        text = json.dumps(answer["programs-details.children"], ensure_ascii=False)
        assert all(format_bytes(size) in text for size in sizes)


@pytest.mark.parametrize("tab", ["cost", "vertices", "code", "debug"])
def test_a_program_of_two_reports_stands_side_by_side(
    browser: Browser, ids: dict[str, str], library: Library, tab: str
) -> None:
    with library.opened(ids["baseline"]) as report:
        actual = next(
            program for program in all_programs(report).values() if program.kind == "OnTileExecute"
        )
    view = {"report": ids["baseline"], "with": ids["candidate"], "tab": tab}
    answer = browser.ask("programs", **view, node=str(actual.program_id))
    assert not _errors(answer)
    text = json.dumps(answer["programs-details.children"])
    assert "Baseline" in text
    assert "Candidate" in text
    assert "Save CSV" in text
    with library.opened(ids["candidate"]) as report:
        last = max(all_programs(report))
    answer = browser.ask("programs", **view, node=f"c{last}")
    assert not _errors(answer)
