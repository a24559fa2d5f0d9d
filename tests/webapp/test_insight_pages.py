"""The cards of Insights and the reasons on Operations, as the data that the browser gets."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.analyser.small_report import Shape, write_small_report

from tilescope import analyser
from tilescope.analyser.advice.insights import insights
from tilescope.analyser.advice.ledger import ledger
from tilescope.analyser.advice.operation_time import find_operation, operation_time
from tilescope.analyser.advice.remedy import fit_advice
from tilescope.analyser.advice.shortfall import shortfall
from tilescope.analyser.advice.trust import KindTrust, ReportTrust, Trust, report_trust
from tilescope.analyser.diff import ledger_changes
from tilescope.analyser.ranking import ranked_insights, ranked_pairs
from tilescope.reports import Report
from tilescope.webapp.components.markup import as_html
from tilescope.webapp.pages.fit_panels import fit_card
from tilescope.webapp.pages.insight_panels import compared_cards
from tilescope.webapp.pages.ledger_panels import compared_ledgers, ledger_card
from tilescope.webapp.pages.ranking_panels import compared_ranking, ranking_card
from tilescope.webapp.pages.why_panels import why_blocks

BOTH = {"report": "a", "with": "b"}
TRUST = Trust("0123abcd", (KindTrust("convolutions", "gc200", "±7 %", "factor 2.5", 3),))
_NONE = ReportTrust()


@pytest.fixture
def report_of(tmp_path: Path) -> Iterator[Callable[[Shape], Report]]:
    """Return a function that opens variations of the small report."""
    opened: list[Report] = []

    def open_report(shape: Shape) -> Report:
        path = write_small_report(tmp_path / str(len(opened)), shape)
        opened.append(analyser.open(path))
        return opened[-1]

    yield open_report
    for report in opened:
        report.close()


def test_the_waterfall_begins_where_the_last_entry_ends(report_of) -> None:
    actual = ledger(report_of(Shape()))
    page = as_html(ledger_card(actual, {"report": "a"}))
    start = 0.0
    for entry in actual.entries:
        assert f"marginLeft:{100 * start:.3f}%;width:{100 * entry.share:.3f}%" in page
        assert f"Tile-cycles in which {entry.meaning}." in page
        start += entry.share
    assert start == pytest.approx(1)
    assert "7,760 tile-cycles in 2 recorded runs: 970 cycles on 8 tiles" in page
    # The imbalance leads to the operation and to its step in the trace; the copy to its step.
    assert "/operations?report=a&amp;op=layer1/conv" in page
    assert "/trace?report=a&amp;find=layer1/conv&amp;at=step:3" in page
    assert "/trace?report=a&amp;at=step:0" in page


def test_a_report_without_a_run_has_no_links_to_the_trace(report_of) -> None:
    report = report_of(Shape(n_runs=0))
    page = as_html(ledger_card(ledger(report), {"report": "a"}))
    page += as_html(ranking_card(ranked_insights(report), {"report": "a"}, 0, _NONE))
    assert "Cycles as compiled" in page
    assert page.count("as compiled, not run") == 2  # of the ledger and of the insights
    assert "/trace" not in page
    assert "/programs?report=a&amp;find=in" in page


def test_two_ledgers(report_of) -> None:
    sides = ledger(report_of(Shape())), ledger(report_of(Shape(conv_tile0_cycles=260)))
    page = as_html(compared_ledgers(*sides, ledger_changes(*sides), BOTH))
    assert page.index("Waiting for other IPUs") < page.index("Imbalance") < page.index("Sync")
    assert "+30 cycles (+133.33 %)" in page or "+30 cycles" in page
    assert "report=b&amp;with=a&amp;op=layer1/conv" in page  # the candidate's cause


def test_remedies_that_suffice_are_marked(report_of) -> None:
    report = report_of(Shape(bytes_per_tile=250))
    card = fit_card(fit_advice(report), shortfall(report), {"report": "a"})
    page = as_html(card)
    assert card.open is True  # type: ignore[attr-defined]
    assert page.count("one of 2 that may suffice together") == 2
    assert "5 of 8 tiles lack memory" in page
    assert "what would have to go" in page
    folded = fit_card(fit_advice(report_of(Shape())), None, {"report": "a"}, "baseline")
    assert folded.open is False  # type: ignore[attr-defined]
    assert "Use less memory: baseline" in as_html(folded)


def test_insights_of_two_reports(report_of) -> None:
    first, second = report_of(Shape()), report_of(Shape(n_runs=0, has_memory=False))
    trusts = report_trust(first, TRUST), _NONE
    pairs = ranked_pairs(ranked_insights(first), ())
    page = as_html(compared_ranking(pairs, BOTH, (2, 0), trusts))
    assert "Expected error of convolutions: cycles ±7 %, memory factor 2.5." in page
    assert page.count("(gone)") == len(ranked_insights(first))
    pairs = ranked_pairs((), ranked_insights(second))
    page = as_html(compared_ranking(pairs, BOTH, (2, 0), trusts))
    assert "Expected error of" not in page
    assert "in 2 recorded runs (baseline), as compiled, not run (candidate)" in page
    assert "(only in candidate)" in page
    assert "report=b&amp;with=a" in page
    assert "Nothing stands out" in as_html(ranking_card((), BOTH, 2, _NONE))


def test_memory_of_two_reports_is_aligned_by_name(report_of) -> None:
    first, second = (insights(report_of(Shape(weights_bytes=size))) for size in (320, 640))
    page = "".join(as_html(card) for card in compared_cards(first, second, BOTH))
    assert "+40 B (+100.00 %)" in page
    assert "swap" not in page


def test_why_of_one_and_two_reports(report_of) -> None:
    report = report_of(Shape())
    actual = operation_time(report, find_operation(report, "layer1/conv"))
    page = as_html(why_blocks([actual], {"report": "a"}))
    assert "1.3 times its ideal of 430" in page
    assert "/memory?report=a&amp;tiles=0" in page
    assert "/trace?report=a&amp;at=step:3" in page
    both = as_html(why_blocks([None, actual], BOTH))
    assert both.index("Baseline") < both.index("not in this report") < both.index("Candidate")
    assert "report=b&amp;with=a&amp;tiles=0" in both


def test_names_are_text(report_of) -> None:
    name = "<img src=x onerror=alert(1)>/conv"
    report = report_of(Shape(conv_name=name))
    parts: list[Any] = [
        ledger_card(ledger(report), {"report": "a"}),
        ranking_card(ranked_insights(report), {"report": "a"}, 2, report_trust(report, TRUST)),
        fit_card(fit_advice(report), None, {"report": "a"}),
    ]
    page = "".join(as_html(part) for part in parts)
    assert "<img" not in page
    assert json.dumps("&lt;img src=x onerror=alert(1)&gt;/conv")[1:-1] in page


def test_an_insight_says_how_far_its_figures_can_be_trusted(report_of) -> None:
    report = report_of(Shape())
    trust = report_trust(report, TRUST)
    page = as_html(ranking_card(ranked_insights(report), {"report": "a"}, 2, trust))
    about_convolutions = [one for one in ranked_insights(report) if one.operation == "layer1/conv"]
    sentence = "Expected error of convolutions: cycles ±7 %, memory factor 2.5."
    assert page.count(sentence) == len(about_convolutions) > 0
    assert "on the IPU Model of GC200 (table 0123abcd)" in page
