"""The tabs below the chart of Liveness: what is live, and what the selected steps do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dash import Dash, Input, Output, html, no_update

from tilescope.analyser.memory.liveness import curve, step_program
from tilescope.analyser.memory.longest_lives import longest_lives
from tilescope.analyser.memory.program_code import program_code
from tilescope.analyser.program.programs import node
from tilescope.webapp.answer import answer
from tilescope.webapp.components.controls import tabs, text_box
from tilescope.webapp.components.links import reports_of
from tilescope.webapp.components.panels import empty_state, guarded
from tilescope.webapp.library import Library
from tilescope.webapp.pages.liveness_steps import ChosenSteps, chosen_steps, tiles_of
from tilescope.webapp.pages.liveness_tables import (
    always_live,
    compared_live,
    live_at,
    longest_lives_table,
    tightest_steps,
)
from tilescope.webapp.pages.program_panels import program_panel
from tilescope.webapp.pages.step_panels import (
    cycles_of_step,
    flops_of_step,
    sides_of_step,
    vertices_of_step,
)
from tilescope.webapp.view import Parameter, view_store

__all__ = ["TAB_PANEL", "TAB_PARAMETERS", "liveness_tabs", "register_tabs"]

TAB_PARAMETERS = (
    Parameter("tab", "step", "liveness-tabs"),
    Parameter("name", "", "liveness-name"),
)

#: What the tabs depend on.
TAB_PANEL = {"tabs": ("tab", "name", "step", "source", "tile", "steps")}

_TABS = (
    ("step", "Not always live"),
    ("always", "Always live"),
    ("vertices", "Vertices"),
    ("cycles", "Cycle estimates"),
    ("flops", "FLOPs"),
    ("program", "Program of the step"),
    ("tightest", "Tightest steps"),
    ("longest", "Longest lives"),
)
_PANELS: dict[str, Callable[..., Any]] = {
    "vertices": vertices_of_step,
    "cycles": cycles_of_step,
    "flops": flops_of_step,
}


def liveness_tabs() -> html.Div:
    """Return the tabs without content."""
    words = text_box("liveness-name", "Filter rows", "words of the name", is_search=True)
    tabs_ = tabs("liveness-tabs", [(tab, title, _slot(tab)) for tab, title in _TABS])
    return html.Div([html.Div(words, className="tabs-filter"), tabs_], className="filtered-tabs")


def register_tabs(app: Dash, library: Library) -> None:
    """Connect the tabs; only the one that is shown is answered."""

    def show(tab: str, content: Callable[[Library, dict[str, str]], Any]) -> None:
        slot = _place(tab)

        @answer(
            app,
            f"{slot}-error",
            [Output(slot, "children")],
            Input(view_store("liveness", "tabs"), "data"),
        )
        def respond(view: dict[str, str]) -> tuple[Any]:
            return (content(library, view) if view["tab"] == tab else no_update,)

    show("step", _live)
    show("always", _always)
    show("program", _program)
    show("tightest", _tightest)
    show("longest", _longest)
    for tab in _PANELS:
        show(tab, _panels)


def _place(tab: str) -> str:
    """Return the id of a tab's content."""
    return f"liveness-tab-{tab}"


def _slot(tab: str) -> html.Div:
    """Return the place of a tab's content, and of its errors."""
    return guarded(f"{_place(tab)}-error", html.Div(id=_place(tab)))


def _notes(chosen: ChosenSteps) -> list[Any]:
    """Return which steps the content is about."""
    return [html.Div(note, className="grid-note data-note") for note in chosen.notes]


def _live(library: Library, view: dict[str, str]) -> list[Any]:
    """Return what is live but not always, with a column for every step."""
    chosen, (source, _) = chosen_steps(library, view), tiles_of(library, view)
    if not chosen.pairs:
        return [empty_state(chosen.notes[0])]
    with library.opened(view["report"]) as report:
        if not view["with"]:
            return [*_notes(chosen), live_at(report, chosen, source, view)]
        with library.opened(view["with"]) as candidate:
            return [*_notes(chosen), compared_live(report, candidate, chosen, source, view)]


def _always(library: Library, view: dict[str, str]) -> Any:
    """Return what is always live, of one report or of two."""
    return always_live(library, view, tiles_of(library, view)[0])


def _program(library: Library, view: dict[str, str]) -> list[Any]:
    """Return the program of the step that was selected last, on the first side that has it."""
    chosen = chosen_steps(library, view)
    if not chosen.pairs:
        return [empty_state(chosen.notes[0])]
    step, candidate_step = chosen.pairs[-1]
    key, result = ("report", step) if step is not None else ("with", candidate_step)
    assert result is not None
    with library.opened(view[key]) as report:
        number = step_program(report, result)
        panel = program_panel(node(report, number), program_code(report, number), reports_of(view))
    return [*_notes(chosen)[-1:], html.Div(panel, className="step-program")]


def _panels(library: Library, view: dict[str, str]) -> list[Any]:
    """Return what every selected step does: its vertices, cycles or operations."""
    chosen = chosen_steps(library, view)
    if not chosen.pairs:
        return [empty_state(chosen.notes[0])]
    parts: list[Any] = []
    for pair, note in zip(chosen.pairs, chosen.notes, strict=True):
        sides = sides_of_step(library, view, pair)
        parts.append(html.H3(note, className="step-heading"))
        parts.append(_PANELS[view["tab"]](sides, view))
    return parts


def _tightest(library: Library, view: dict[str, str]) -> Any:
    """Return the steps at which most memory is live."""
    with library.opened(view["report"]) as report:
        return tightest_steps(curve(report, tiles_of(library, view)[0]), view)


def _longest(library: Library, view: dict[str, str]) -> Any:
    """Return the variables that live longest, but not always."""
    with library.opened(view["report"]) as report:
        return longest_lives_table(longest_lives(report, tiles_of(library, view)[0]), view)
