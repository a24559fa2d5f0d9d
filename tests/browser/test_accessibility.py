"""Every page without serious findings of axe-core, in both schemes, with one and two reports.

In a narrow window, no table or tree is wider than its place: a column that one cannot see does not
help to decide.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page
from tests.browser.views import SHOWN, VIEWS

Visit = Callable[..., Page]

#: The first view of each page, with one report.
_FIRST = {
    (name, ""): None for name, view in VIEWS.items() if not view.is_of_two and "-" not in name
}
_AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
_NARROW = {"width": 1024, "height": 768}
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
#: What can be moved to the left and right, and the document itself.
_TOO_WIDE = """() => [document.documentElement, ...document.querySelectorAll("main *")]
    .filter((one) => one.clientWidth && one.scrollWidth > one.clientWidth + 1
        && (one === document.documentElement
            || /auto|scroll/.test(getComputedStyle(one).overflowX)))
    .map((one) => `${one.tagName} #${one.id} .${one.className} ${one.scrollWidth}`
        + ` in ${one.clientWidth}`)"""


@pytest.fixture(scope="module")
def axe() -> str:
    """Return the script of axe-core, which the Makefile installs."""
    if not _AXE.exists():
        if os.environ.get("CI"):
            pytest.fail("axe-core is missing: make setup installs it")
        pytest.skip("axe-core is missing: make setup installs it")
    return _AXE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "candidate"),
    [pytest.param(*shown, marks=() if shown in _FIRST else pytest.mark.slow) for shown in SHOWN],
)
def test_pages_have_no_serious_findings(
    visit: Visit, page: Page, axe: str, name: str, candidate: str
) -> None:
    view = VIEWS[name]
    parameters = view.parameters | ({"with_": candidate} if candidate else {})
    page.emulate_media(reduced_motion="reduce")
    page = visit(view.path, **parameters)
    page.wait_for_selector(view.ready, timeout=60_000)
    page.evaluate(axe)
    results = {}
    for scheme in ("light", "dark"):
        page.evaluate(_SCHEME, scheme)
        results[scheme] = page.evaluate(_RUN)
    page.set_viewport_size(_NARROW)  # type: ignore[arg-type]
    page.wait_for_timeout(300)  # what follows the size is drawn in the next frames
    results["narrow"] = page.evaluate(_RUN)
    results["too wide"] = page.evaluate(_TOO_WIDE)
    assert results == {"light": [], "dark": [], "narrow": [], "too wide": []}
