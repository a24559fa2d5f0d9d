"""Known changes of real programs: the first sentence names the cause, and a gate notices.

``docs/explanation/diff.md`` holds the same as a table; ``pytest --update-golden`` rewrites it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.analyser.known_changes import CHANGES, Change

from tilescope import analyser
from tilescope.analyser.diff import Difference, compare, explain
from tilescope.analyser.quantities import format_change_of
from tilescope.main import main

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "diff.md"
HEAD = ["| Change | First sentence | Gate |", "| --- | --- | --- |"]


@dataclass(frozen=True)
class Found:
    """Reports of a change and their difference."""

    baseline: Path
    candidate: Path
    difference: Difference


@pytest.fixture(scope="session")
def found(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Change], Found]:
    """Return a function that writes and compares the reports of a change, once."""
    directory = tmp_path_factory.mktemp("known")
    written: dict[object, Path] = {}
    selected: dict[str, Found] = {}

    def report_of(program: Callable[[Path], Path]) -> Path:
        if program not in written:
            written[program] = program(directory / f"report {len(written)}")
        return written[program]

    def of(change: Change) -> Found:
        if change.title not in selected:
            paths = report_of(change.base), report_of(change.write)
            with analyser.open(paths[0]) as first, analyser.open(paths[1]) as second:
                selected[change.title] = Found(*paths, compare(first, second))
        return selected[change.title]

    return of


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.title)
def test_the_first_sentence_names_the_cause(
    found: Callable[[Change], Found], change: Change
) -> None:
    first = explain(found(change).difference)[0]
    assert first.startswith(change.begins)
    assert change.holds in first


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.title)
def test_a_gate_notices_what_costs(
    found: Callable[[Change], Found], change: Change, capsys: pytest.CaptureFixture[str]
) -> None:
    of = found(change)
    if not change.metric:
        assert {metric.verdict for metric in of.difference.metrics} <= {"same", "absent"}
        return
    is_worse = of.difference.metric(change.metric).verdict == "worse"
    assert of.difference.metric(change.metric).delta
    paths, gate = (str(of.baseline), str(of.candidate)), f"{change.metric}:+0%"
    assert main(["diff", *paths, "--fail-on", gate]) == int(is_worse)
    assert main(["diff", *paths[::-1], "--fail-on", gate]) == int(not is_worse)
    assert " ".join(change.begins.split()) in " ".join(capsys.readouterr().out.split())


def test_a_renamed_model_keeps_all_operations_steps_and_variables(
    found: Callable[[Change], Found],
) -> None:
    change = next(change for change in CHANGES if change.title == "All nodes renamed")
    difference = found(change).difference
    for changes in (difference.steps, difference.variables):
        assert changes.added == changes.removed == changes.changed == ()
    assert not difference.is_identical


def test_the_page_holds_the_same(
    found: Callable[[Change], Found], request: pytest.FixtureRequest
) -> None:
    rows = []
    for change in CHANGES:
        of = found(change)
        first = explain(of.difference)[0]
        rows.append(f"| {change.title} | {first} | {_gate(of.difference, change)} |")
    table = "\n".join((*HEAD, *rows))
    text = PAGE.read_text("utf-8")
    before, start, rest = text.partition("<!-- table -->\n")
    _, end, after = rest.partition("\n<!-- end of table -->")
    assert start, "the page marks where its table begins"
    assert end, "the page marks where its table ends"
    expected = f"{before}{start}{table}{end}{after}"
    if request.config.getoption("--update-golden"):
        PAGE.write_text(expected, "utf-8")
    assert PAGE.read_text("utf-8") == expected


def _gate(difference: Difference, change: Change) -> str:
    """Return a gate that moves with its outcome."""
    if not change.metric:
        return "none moves"
    metric = difference.metric(change.metric)
    amount = format_change_of(metric.baseline, metric.delta or 0, metric.unit)
    return f"`{metric.name}:+0%` {'fails' if metric.verdict == 'worse' else 'passes'}: {amount}"
