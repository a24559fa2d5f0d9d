"""Every page without serious findings of axe-core, in both schemes, with one and two reports."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

Visit = Callable[..., Page]

_AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
#: A view, and what is shown once it stands: every page, and every tab of the pages with tabs.
_VIEWS: dict[str, tuple[str, dict[str, str], str]] = {
    "summary": ("/summary", {}, "#summary-body .facts td"),
    "insights": ("/insights", {}, "#insights-body .stacked-bar"),
    "memory": ("/memory", {"tiles": "3"}, "#memory-details tbody tr"),
    **{
        f"memory-{tab}": ("/memory", {"tab": tab, "tiles": "3"}, f"#memory-{place} tbody tr")
        for tab, place in (
            ("sets", "sets"),
            ("vertices", "vertices"),
            ("exchanges", "exchanges"),
            ("variables", "variables"),
            ("tiles", "ranking"),
        )
    },
    "memory-map": ("/memory", {"tab": "variables", "as": "map", "tiles": "3"}, ".address-strip"),
    **{
        f"liveness-{tab}": (
            "/liveness",
            {"tab": tab, "step": "40,80"},
            f"#liveness-tab-{tab} :is(table, .empty-state)",
        )
        for tab in ("step", "always", "vertices", "cycles", "flops", "program", "tightest")
    },
    "programs": ("/programs", {"node": "1"}, ".tree-row .tree-kind"),
    "operations": ("/operations", {}, "#operations-headlines .headline-value"),
    "operations-graph": (
        "/operations",
        {"as": "graph", "layer": "onnx"},
        "#operations-graph[data-drawn] .legend .swatch",
    ),
    "trace": ("/trace", {}, "#trace-panel table, .trace-note"),
    "home": ("/", {}, "main table"),
}
_SCHEME = """scheme => {
    document.documentElement.setAttribute("data-mantine-color-scheme", scheme);
}"""
_RUN = """async () => {
    const found = await axe.run(document, {resultTypes: ["violations"]});
    return found.violations
        .filter((one) => one.impact === "serious" || one.impact === "critical")
        .flatMap(({id, nodes}) => nodes.map(
            (node) => `${id} ${node.target} ${node.failureSummary}`));
}"""


@pytest.fixture(scope="module")
def axe() -> str:
    """Return the script of axe-core, which the Makefile installs."""
    if not _AXE.exists():
        if os.environ.get("CI"):
            pytest.fail("axe-core is missing: make setup installs it")
        pytest.skip("axe-core is missing: make setup installs it")
    return _AXE.read_text(encoding="utf-8")


@pytest.mark.parametrize("candidate", ["", "changed"])
@pytest.mark.parametrize("view", _VIEWS)
def test_pages_have_no_serious_findings(
    visit: Visit, page: Page, axe: str, view: str, candidate: str
) -> None:
    path, parameters, ready = _VIEWS[view]
    if candidate:
        parameters = {**parameters, "with_": candidate}
    page.emulate_media(reduced_motion="reduce")
    page = visit(path, **parameters)
    page.wait_for_selector(ready, timeout=60_000)
    page.evaluate(axe)
    found = {}
    for scheme in ("light", "dark"):
        page.evaluate(_SCHEME, scheme)
        found[scheme] = page.evaluate(_RUN)
    assert found == {"light": [], "dark": []}
