"""Views of all pages: every page, and every tab and figure of the pages with several."""

from __future__ import annotations

from typing import NamedTuple


class View(NamedTuple):
    """A page, its parameters, and what is shown once it stands."""

    path: str
    parameters: dict[str, str]
    ready: str
    #: Whether it shows two reports only.
    is_of_two: bool = False


_MEMORY_TABS = {
    "sets": "sets",
    "vertices": "vertices",
    "exchanges": "exchanges",
    "variables": "variables",
    "tiles": "ranking",
}
_LIVENESS_TABS = (
    "step",
    "always",
    "vertices",
    "cycles",
    "flops",
    "program",
    "tightest",
    "longest",
)

VIEWS = {
    "summary": View("/summary", {}, "#summary-body .facts td"),
    "insights": View("/insights", {}, "#insights-body .stacked-bar"),
    "memory": View("/memory", {"tiles": "3"}, "#memory-details tbody tr"),
    **{
        f"memory-{tab}": View("/memory", {"tab": tab, "tiles": "3"}, f"#memory-{place} tbody tr")
        for tab, place in _MEMORY_TABS.items()
    },
    **{
        f"memory-figure-{graph}": View("/memory", {"graph": graph}, "#memory-figure [data-drawn]")
        for graph in ("map", "lives")
    },
    "memory-map": View(
        "/memory", {"tab": "variables", "as": "map", "tiles": "3"}, ".address-strip"
    ),
    **{
        f"liveness-{tab}": View(
            "/liveness",
            {"tab": tab, "step": "40,80"},
            f"#liveness-tab-{tab} :is(table, .empty-state)",
        )
        for tab in _LIVENESS_TABS
    },
    "programs": View("/programs", {"node": "1"}, ".tree-row .tree-kind"),
    "operations": View("/operations", {}, ".data-table tbody tr"),
    "operations-kinds": View("/operations", {"tab": "kinds"}, "#operation-kinds table"),
    "operations-graph": View(
        "/operations",
        {"as": "graph", "layer": "model"},
        "#operations-graph[data-drawn] .legend .swatch",
    ),
    "trace": View("/trace", {}, "#trace-panel table, .trace-note"),
    "trace-flat": View("/trace", {"view": "flat", "tab": "top"}, "#trace-panel table, .trace-note"),
    "trace-difference": View(
        "/trace", {"view": "difference"}, "#trace-panel table, .trace-note", is_of_two=True
    ),
    "home": View("/", {}, "main tr[data-report]"),
}
#: Views with one report and with two.
SHOWN = [
    (name, candidate)
    for name, view in VIEWS.items()
    for candidate in ("", "changed")
    if candidate or not view.is_of_two
]
