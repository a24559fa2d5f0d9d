"""The Operations page: the analyser's figures, and the plan of the selected operation."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.golden.recipe import GOLDEN
from tests.webapp.test_callbacks import Browser

from tilescope.analyser.advice.trust import NOT_IN_CORPUS, ReportTrust, report_trust
from tilescope.analyser.program.operations import Operation, Operations
from tilescope.analyser.program.operations import operations as listed_operations
from tilescope.analyser.program.plan_explanation import explain_plan
from tilescope.analyser.program.plan_text import plan_facts
from tilescope.analyser.program.plans import plans, predicted_by_stage
from tilescope.corpus_trust import packaged_trust
from tilescope.engine import Engine, Graph, compile_programs, load_machine, resolve_options
from tilescope.engine.codelets.popops.elementwise.copy import COPY
from tilescope.engine.graph import blocks
from tilescope.engine.program import Execute
from tilescope.reports import Report, open_report
from tilescope.webapp.components.markup import Markup, frozen
from tilescope.webapp.library import Library
from tilescope.webapp.pages.operation_panels import details_panel, operation_details
from tilescope.webapp.pages.operation_rows import (
    LAYERS,
    compared_rows,
    kinds_table,
    matching,
    operation_rows,
    operations_of_view,
)


@pytest.fixture(scope="module")
def browser(client: TestClient) -> Browser:
    return Browser(client)


@pytest.fixture(scope="module")
def golden() -> Iterator[Report]:
    """Return a report written by the engine, with plans and their runners-up."""
    with open_report(GOLDEN) as report:
        yield report


def _operation(number: int, name: str, cycles: int) -> Operation:
    return Operation(number, name, "popops.map", cycles, cycles, 0, None, 0, 0, 0, 1)


def _operations(*found: Operation) -> Operations:
    return Operations("library", found, sum(operation.cycles for operation in found), 1)


def _texts(component: Any) -> list[str]:
    """Return all texts of static content."""
    tree = frozen(component)
    assert isinstance(tree, Markup)

    def walk(part: Any) -> Iterator[str]:
        if isinstance(part, str):
            yield part
        elif isinstance(part, list):
            for child in part:
                yield from walk(child)
        else:
            yield from walk(part.get("c", []))

    return list(walk(tree.tree))


def _rows(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of the table of operations."""
    data = answer["operations-table.data"]
    return [dict(zip(data, values, strict=True)) for values in zip(*data.values(), strict=True)]


def test_the_table_holds_what_the_analyser_answers(
    browser: Browser, ids: dict[str, str], library: Library
) -> None:
    answer = browser.ask("operations", report=ids["baseline"], layer="model")
    rows = _rows(answer)
    with library.opened(ids["baseline"]) as report:
        listed = listed_operations(report, "model")
    assert [(row["name"], row["cycles"]) for row in rows] == [
        (operation.name, operation.cycles) for operation in listed.operations
    ]
    assert sum(row["cycles"] for row in rows) == listed.cycles
    assert rows[0]["share"] == listed.operations[0].cycles / listed.total_cycles
    assert f'"{listed.cycles:,}"' in json.dumps(answer["operations-headlines.children"])
    assert answer["operations-metric-field.style"] == {"display": "none"}


def test_without_library_calls_the_nodes_of_the_model_are_listed(
    browser: Browser, ids: dict[str, str]
) -> None:
    nodes = browser.ask("operations", report=ids["baseline"], layer="model")
    answer = browser.ask("operations", report=ids["baseline"])
    assert _rows(answer) == _rows(nodes) != []
    note = answer["operations-note.children"]
    assert note.startswith("This program was built without library calls, its nodes of the model")
    assert "without" not in nodes["operations-note.children"]
    chosen = _rows(answer)[0]["key"]
    details = browser.ask("operations", report=ids["baseline"], op=chosen)
    assert chosen in json.dumps(details["operation.children"])


def test_a_graph_built_by_hand_lists_its_steps(tmp_path: Path) -> None:
    graph = Graph(load_machine("gc200", tiles_per_ipu=4))
    compute_set = graph.add_compute_set("move")
    fields = {}
    for name in ("x", "out"):
        tensor = graph.add_variable("float32", (8,), name)
        graph.set_tile_mapping(tensor, [0], [1])
        fields[name] = blocks(tensor.variable, 0, [8], [1], 1)
    graph.add_vertices(compute_set, COPY, [1], fields)
    executable = compile_programs(graph, [Execute(compute_set)])
    options = {"autoReport.all": True, "autoReport.directory": str(tmp_path)}
    with Engine(executable, resolve_options(code=options)) as engine:
        engine.run()
    library = Library([tmp_path])
    (entry,) = library.found()
    view = {"report": entry.report_id, "with": ""}
    for requested in LAYERS:
        listed, candidate = operations_of_view(library, view, requested)
        assert (listed.layer, candidate) == ("step", None)
        compute = [
            operation for operation in listed.operations if operation.operation == "OnTileExecute"
        ]
        assert [operation.name for operation in compute] == ["move"]
        assert compute[0].cycles == 11 + 6 * (20 + 1)
        with library.opened(entry.report_id) as report:
            (step,) = operation_details(report, listed, compute[0], None).steps
        assert step.name == "move"
    library.close()


def test_a_filter_finds_names_and_calls() -> None:
    rows = [{"name": "Conv_1", "call": "poplin.convolution"}, {"name": "add", "call": "popops.map"}]
    assert matching(rows, " CONV") == rows[:1]
    assert matching(rows, "popops") == rows[1:]
    assert matching(rows, "") == rows


def test_a_name_that_two_have_is_counted_in_the_order_of_the_program() -> None:
    listed = _operations(_operation(7, "n/reduce", 90), _operation(3, "n/reduce", 10))
    assert {key: operation.cycles for key, operation in listed.by_key.items()} == {
        "n/reduce": 10,
        "n/reduce#2": 90,
    }
    assert [row["key"] for row in operation_rows(listed, ReportTrust())] == [
        "n/reduce#2",
        "n/reduce",
    ]


def test_two_reports_are_aligned_by_name_and_the_largest_change_is_first() -> None:
    baseline = _operations(
        _operation(0, "a", 100), _operation(1, "b", 50), _operation(2, "gone", 5)
    )
    new = replace(_operation(2, "new", 7), operation="popops.fill")
    candidate = _operations(_operation(0, "a", 90), _operation(1, "b", 80), new)
    rows, columns = compared_rows(baseline, candidate, "cycles")
    assert [(row["name"], row["baseline"], row["candidate"], row["delta"]) for row in rows] == [
        ("b", 50, 80, 30),
        ("a", 100, 90, -10),
        ("new", None, 7, 7),
        ("gone", 5, None, -5),
    ]
    assert rows[0]["diff"] == "+30 cycles (+60.00 %)"
    assert rows[2]["diff"].endswith("(only in candidate)")
    assert [column["title"] for column in columns][1:] == [
        "Baseline, cycles per run",
        "Candidate",
        "Diff",
    ]
    errors = {"popops.map": NOT_IN_CORPUS, "popops.fill": NOT_IN_CORPUS}
    kinds = _texts(kinds_table(baseline, candidate, errors))
    assert kinds[7:14] == [
        "popops.map", "3", "2", "155", "170", "+15 cycles (+9.68 %)", NOT_IN_CORPUS,
    ]  # fmt: skip


def test_details_have_the_plan_in_the_words_of_the_command_line(golden: Report) -> None:
    plan = next(plan for plan in plans(golden) if plan.runner_up is not None)
    listed = listed_operations(golden, "library")
    details = operation_details(golden, listed, listed.by_key[plan.name], None)
    texts = _texts(details_panel(plan.name, [details], {}))
    assert texts[0] == plan.name
    for label, text in plan_facts(explain_plan(golden, plan.name)):
        assert label in texts
        assert set(text) <= set(texts)
    for part, cycles in predicted_by_stage(golden)[plan.plan_id].items():
        assert part in texts
        assert f"{cycles:,}" in texts
    assert f"{details.operation.cycles:,}" in texts
    assert sum(step.cycles for step in details.steps) == details.operation.cycles


def test_details_of_two_reports_are_side_by_side(golden: Report) -> None:
    plan = plans(golden)[0]
    listed = listed_operations(golden, "library")
    details = operation_details(golden, listed, listed.by_key[plan.name], packaged_trust())
    texts = _texts(details_panel(plan.name, [details, None], {}))
    assert details.expected_error in texts
    assert re.match(r"(products|convolutions): cycles (±\d+ %|factor)", details.expected_error)
    # The reasons of its time, its cost and its plan.
    assert texts.count("Baseline") == texts.count("Candidate") == 3
    peer = dataclasses.replace(details, total_cycles=details.total_cycles * 2)
    both = _texts(details_panel(plan.name, [details, peer], {}))
    assert both.count(f"{details.operation.cycles:,}") > texts.count(
        f"{details.operation.cycles:,}"
    )
    assert {
        "Parts, cycles of one execution · Baseline",
        "Parts, cycles of one execution · Candidate",
    } <= (set(both))


def test_a_missing_operation_is_an_empty_state(browser: Browser, ids: dict[str, str]) -> None:
    answer = browser.ask("operations", report=ids["baseline"], layer="model", op="<b>nowhere</b>")
    assert "not in this report" in json.dumps(answer["operation.children"])
    assert "href" not in json.dumps(answer["operation-links.children"])


def test_a_chosen_operation_leads_to_its_steps(browser: Browser, ids: dict[str, str]) -> None:
    view = {"report": ids["baseline"], "layer": "model"}
    name = _rows(browser.ask("operations", **view))[0]["name"]
    links = browser.ask("operations", **view, op=name)["operation-links.children"]
    targets = [link["p"]["href"] for link in links["props"]["tree"]]
    assert all(f"report={ids['baseline']}" in candidate for candidate in targets)
    assert targets[0].startswith("/trace?")
    assert targets[1].startswith("/programs?")
    node = targets[1].rpartition("=")[2]
    details = browser.ask("programs", report=ids["baseline"], node=node)[
        "programs-details.children"
    ]
    assert name in json.dumps(details)


def test_expected_errors_are_beside_the_figures(golden: Report) -> None:
    listed = listed_operations(golden, "library")
    trust = report_trust(golden, packaged_trust())
    errors = {kind.kind: kind.cycles for kind in packaged_trust().kinds if kind.machine == "gc200"}
    rows = {row["call"]: row["error"] for row in operation_rows(listed, trust)}
    assert rows["poplin.convolution"] == errors["convolutions"]
    assert rows["popops.mapInPlace"] == "–"
    texts = _texts(kinds_table(listed, None, trust.of_calls(listed)))
    assert errors["convolutions"] in texts
    assert NOT_IN_CORPUS in texts


def test_the_page_says_where_expected_errors_come_from(
    browser: Browser, ids: dict[str, str]
) -> None:
    view = {"report": ids["baseline"], "layer": "model"}
    answer = browser.ask("operations", **view)
    assert {row["error"] for row in _rows(answer)} == {"–"}
    note = answer["operations-trust.children"]
    assert f"on the IPU Model of GC200 (table {packaged_trust().version})" in note
    kinds = json.dumps(browser.ask("operations", **view, tab="kinds")["operation-kinds.children"])
    assert NOT_IN_CORPUS in kinds
    assert note in kinds
    pair = browser.ask("operations", **view, **{"with": ids["candidate"]}, tab="kinds")
    assert NOT_IN_CORPUS in json.dumps(pair["operation-kinds.children"])
    assert pair["operations-trust.children"] == ""
