"""Insights: does it fit, what costs most, what cycles are spent on, what fills the tiles."""

from __future__ import annotations

from typing import Any

from dash import Dash, Input, Output, html

from tilescope.analyser.advice.experiments import experiments
from tilescope.analyser.advice.insights import insights
from tilescope.analyser.advice.ledger import ledger, ledger_parts
from tilescope.analyser.advice.remedy import fit_advice
from tilescope.analyser.advice.shortfall import shortfall
from tilescope.analyser.advice.trust import report_trust
from tilescope.analyser.diff import ledger_changes
from tilescope.analyser.ranking import ranked_insights, ranked_pairs
from tilescope.analyser.time.execution import execution
from tilescope.analyser.time.figures import has_memory
from tilescope.reports import Report
from tilescope.webapp.answer import answer
from tilescope.webapp.components.links import reports_of, swapped
from tilescope.webapp.components.panels import guarded
from tilescope.webapp.library import Library
from tilescope.webapp.pages.fit_panels import fit_card
from tilescope.webapp.pages.insight_panels import compared_cards, fit_notice, memory_cards
from tilescope.webapp.pages.ledger_panels import compared_ledgers, ledger_card, parts_table
from tilescope.webapp.pages.ranking_panels import (
    compared_ranking,
    experiment_list,
    ranking_card,
)
from tilescope.webapp.view import Parameter, view_store

__all__ = ["ICON", "PATH", "TITLE", "VIEW", "layout", "register"]

PATH = "/insights"
TITLE = "Insights"
ICON = "insights"
VIEW: tuple[Parameter, ...] = ()


def layout() -> html.Div:
    """Return the page without content."""
    return html.Div(
        [
            guarded("insights-error", html.Div(id="insights-fit", className="stack")),
            guarded("insights-remedies-error", html.Div(id="insights-remedies", className="stack")),
            guarded("insights-ranking-error", html.Div(id="insights-ranking")),
            guarded("insights-ledger-error", html.Div(id="insights-ledger")),
            guarded("insights-body-error", html.Div(id="insights-body", className="stack")),
        ],
        className="stack insights-page",
    )


def register(app: Dash, library: Library) -> None:
    """Connect the page; every card is asked for on its own."""
    view_input = Input(view_store("insights"), "data")

    @answer(app, "insights-error", [Output("insights-fit", "children")], view_input)
    def show_fit(view: dict[str, str]) -> tuple[Any]:
        baseline, candidate = library.ask(view, insights)
        blocks = [fit_notice(baseline.fit, "Baseline" if candidate else "")]
        if candidate is not None:
            blocks.append(fit_notice(candidate.fit, "Candidate"))
        return (blocks,)

    @answer(app, "insights-remedies-error", [Output("insights-remedies", "children")], view_input)
    def show_remedies(view: dict[str, str]) -> tuple[Any]:
        baseline, candidate = library.ask(view, _advice)
        reports = reports_of(view)
        if candidate is None:
            return ([] if baseline is None else fit_card(*baseline, reports),)
        sides = (("baseline", baseline, reports), ("candidate", candidate, swapped(reports)))
        return (
            [
                fit_card(*advice, side_reports, side)
                for side, advice, side_reports in sides
                if advice
            ],
        )

    @answer(app, "insights-ranking-error", [Output("insights-ranking", "children")], view_input)
    def show_ranking(view: dict[str, str]) -> tuple[Any]:
        baseline, candidate = library.ask(view, ranked_insights)
        ran, also_ran = library.ask(view, lambda report: execution(report).n_runs)
        trust, other = library.ask(view, lambda report: report_trust(report, library.trust))
        reports = reports_of(view)
        if candidate is None or also_ran is None or other is None:
            card = ranking_card(baseline, reports, ran, trust)
        else:
            aligned = ranked_pairs(baseline, candidate)
            card = compared_ranking(aligned, reports, (ran, also_ran), (trust, other))
        found, _ = library.ask(view, experiments)
        parts = [card, *([] if candidate is not None else experiment_list(found))]
        return (html.Div(parts, className="card details"),)

    @answer(app, "insights-ledger-error", [Output("insights-ledger", "children")], view_input)
    def show_ledger(view: dict[str, str]) -> tuple[Any]:
        baseline, candidate = library.ask(view, ledger)
        reports = reports_of(view)
        if candidate is None:
            with library.opened(view["report"]) as report:
                parts = parts_table(ledger_parts(report))
            card = html.Div([ledger_card(baseline, reports), *parts])
        else:
            changes = ledger_changes(baseline, candidate)
            card = compared_ledgers(baseline, candidate, changes, reports)
        return (html.Div(card, className="card details"),)

    @answer(app, "insights-body-error", [Output("insights-body", "children")], view_input)
    def show_body(view: dict[str, str]) -> tuple[Any]:
        baseline, candidate = library.ask(view, insights)
        reports = reports_of(view)
        if candidate is None:
            return (memory_cards(baseline, reports),)
        return (compared_cards(baseline, candidate, reports),)


def _advice(report: Report) -> tuple[Any, Any] | None:
    """Return what makes a report's program fit, and what its worst tiles lack; None of neither."""
    return (fit_advice(report), shortfall(report)) if has_memory(report) else None
