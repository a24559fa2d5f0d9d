"""Every page in a real browser: it opens, reacts to clicks, and its URL restores it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.generated_report import generate_report

from tilescope.engine.fidelity import packaged_rows
from tilescope.engine.fidelity.statement import as_error

Visit = Callable[..., Page]

OPERATIONS = '.data-table[aria-label="Operations"]'

READY = {
    "/summary": "#summary-body .facts td",
    "/insights": "#insights-body .stacked-bar",
    "/memory": "#memory-figure [data-drawn]",
    "/liveness": "#liveness-figure [data-drawn]",
    "/programs": ".tree-row .tree-kind",
    "/operations": "#operations-headlines .headline-value",
}


def _wait(page: Page, path: str) -> None:
    page.wait_for_selector(READY[path], state="attached", timeout=30_000)


def _settled_text(page: Page) -> str:
    """Return the page's text once it has not changed for a second."""
    text, n_equal = "", 0
    for _ in range(100):
        page.wait_for_timeout(200)
        now = page.locator("#content").inner_text()
        text, n_equal = now, n_equal + 1 if now == text else 0
        if n_equal == 5:
            break
    return text


@pytest.mark.parametrize("path", sorted(READY))
def test_every_page_opens_and_names_its_report(visit: Visit, path: str) -> None:
    page = visit(path)
    _wait(page, path)
    expect(page.locator("#report-baseline option:checked")).to_have_text(re.compile("large$"))
    expect(page.locator(".menu-link.is-current")).to_have_count(1)
    expect(page.locator(".error-panel")).to_have_count(0)


def test_the_menu_leads_through_all_pages_and_keeps_the_reports(
    visit: Visit, ids: dict[str, str]
) -> None:
    page = visit("/summary", with_="changed")
    _wait(page, "/summary")
    for path in ("/insights", "/memory", "/liveness", "/operations", "/programs", "/summary"):
        page.click(f'.menu-link[href^="{path}"]')
        _wait(page, path)
        expect(page).to_have_url(re.compile(f"report={ids['large']}"))
        expect(page).to_have_url(re.compile(f"with={ids['changed']}"))
    page.go_back()
    expect(page.locator(".tree-row").first).to_be_visible()


def test_an_unknown_page_and_an_unknown_report_say_so(visit: Visit, origin: str) -> None:
    page = visit("/nowhere")
    expect(page.locator("#unknown-page")).to_contain_text("Page not found")
    page.goto(f"{origin}/memory?report=0123456789ab")
    expect(page.locator("#memory-figure-error .error-panel")).to_contain_text("Unknown report")
    expect(page.locator("#memory-figure")).to_be_hidden()


def test_the_breakdown_and_gaps_follow_the_controls_and_stand_in_the_address(
    visit: Visit,
) -> None:
    page = visit("/memory")
    _wait(page, "/memory")
    page.get_by_text("Region", exact=True).click()
    expect(page.locator("#memory-figure .legend")).to_contain_text("Interleaved")
    page.locator(".toolbar-switch", has_text="Include gaps").locator("label").first.click()
    expect(page.locator("#memory-figure .legend")).to_contain_text("Gaps")
    expect(page).to_have_url(re.compile("breakdown=region"))
    expect(page).to_have_url(re.compile("gaps=1"))


def _click_chart(page: Page, chart: str, share: float, *, shift: bool = False) -> None:
    box = page.locator(f"#{chart} .chart-box").bounding_box()
    assert box is not None
    if shift:
        page.keyboard.down("Shift")
    page.mouse.move(box["x"] + box["width"] * share, box["y"] + box["height"] * 0.8)
    page.wait_for_timeout(150)
    page.mouse.click(box["x"] + box["width"] * share, box["y"] + box["height"] * 0.8)
    if shift:
        page.keyboard.up("Shift")


def test_clicked_tiles_become_columns(visit: Visit) -> None:
    page = visit("/memory")
    _wait(page, "/memory")
    _click_chart(page, "memory-figure", 0.25)
    expect(page.locator("#memory-details thead th")).to_have_count(2)
    expect(page.locator("#memory-details thead")).to_contain_text("Tile")
    expect(page).to_have_url(re.compile(r"[?&]tiles=\d+($|&)"))
    _click_chart(page, "memory-figure", 0.75, shift=True)
    expect(page.locator("#memory-details thead th")).to_have_count(3)
    expect(page).to_have_url(re.compile(r"tiles=\d+(,|%2C)\d+"))
    page.go_back()
    expect(page.locator("#memory-details thead th")).to_have_count(2)


def test_the_variables_of_a_tile_have_addresses_and_a_filter(visit: Visit) -> None:
    page = visit("/memory", tiles="7", tab="variables")
    rows = page.locator("#memory-variables tbody tr")
    expect(rows.first).to_contain_text("0x", timeout=30_000)
    page.fill("#memory-name", "weights")
    expect(rows.first.locator(".data-name")).to_contain_text("weights")
    expect(page).to_have_url(re.compile("name=weights"))


def test_a_clicked_step_shows_its_variables(visit: Visit) -> None:
    page = visit("/liveness")
    _wait(page, "/liveness")
    tab = page.locator("#liveness-tab-step")
    expect(tab.locator(".grid-note").first).to_contain_text("Peak, step")
    expect(tab.locator("tbody tr").first).to_be_visible()
    _click_chart(page, "liveness-figure", 0.3)
    expect(tab.locator(".grid-note").first).to_contain_text(re.compile(r"^Step [\d,]+:"))
    expect(tab.locator("tbody tr").first).to_be_visible()
    expect(page).to_have_url(re.compile(r"step=\d+"))


def test_zooming_brings_every_step_and_double_click_goes_back(visit: Visit) -> None:
    page = visit("/liveness")
    _wait(page, "/liveness")
    note = page.locator("#liveness-figure .chart-note")
    expect(note).to_contain_text("20,000 steps")
    box = page.locator("#liveness-figure .chart-box").bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.50, middle)
    for _ in range(8):
        page.mouse.wheel(0, -240)
    expect(note).not_to_contain_text("columns")
    expect(page).to_have_url(re.compile(r"x=\d+:\d+"))
    # A marked range is what F shows.
    page.keyboard.down("Shift")
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.60, middle, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    expect(page).to_have_url(re.compile(r"mark=\d+:\d+"))
    before = page.url
    page.keyboard.press("f")
    expect(page).not_to_have_url(before)
    for _ in range(3):  # a busy machine may take the two clicks for single ones
        page.mouse.dblclick(box["x"] + box["width"] / 2, middle)
        page.wait_for_timeout(1_500)
        if "x=" not in page.url:
            break
    expect(page).not_to_have_url(re.compile("x="))
    expect(note).to_contain_text("20,000 steps")


def test_always_live_memory_is_named_with_code_and_state(visit: Visit) -> None:
    page = visit("/liveness", tab="always")
    _wait(page, "/liveness")
    expect(page.locator("#liveness-tab-always tbody tr").first).to_be_visible()
    expect(page.locator("#liveness-tab-always .grid-note").first).to_contain_text("rows")


def test_the_source_of_liveness_can_be_an_ipu_or_a_tile(visit: Visit) -> None:
    page = visit("/liveness", report="pair")
    _wait(page, "/liveness")
    full = page.locator("#liveness-headlines").inner_text()
    page.click("#liveness-source")
    page.get_by_role("option", name="IPU 1").click()
    expect(page.locator("#liveness-headlines")).not_to_have_text(full)
    expect(page).to_have_url(re.compile("source=ipu:1"))


def test_the_tree_opens_lazily_and_shows_details(visit: Visit) -> None:
    page = visit("/programs")
    _wait(page, "/programs")
    page.locator('.tree-row[aria-expanded="false"]').first.locator(".tree-arrow").click()
    expect(page.locator('.tree-row[aria-level="3"]').first).to_be_visible()
    page.locator('.tree-row[aria-level="3"]').first.click()
    expect(page.locator("#programs-details h2")).to_be_visible()
    expect(page).to_have_url(re.compile(r"node=\d+"))
    # Invisible rows are not drawn.
    assert page.locator(".tree-row").count() < 100


def test_the_search_opens_what_is_around_a_match(visit: Visit) -> None:
    page = visit("/programs")
    _wait(page, "/programs")
    page.keyboard.press("/")
    page.keyboard.type("layer700/attention")
    expect(page.locator("#programs-note")).to_contain_text("1 of")
    expect(page.locator(".tree-row.is-match").first).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator("#programs-note")).to_contain_text("2 of")
    expect(page.locator("#programs-details h2")).to_contain_text("layer700")


def test_the_tree_answers_to_the_keyboard(visit: Visit) -> None:
    page = visit("/programs")
    _wait(page, "/programs")
    page.focus("#program-tree")
    n_rows = page.locator(".tree-row").count()
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".tree-row")).to_have_count(1)
    page.keyboard.press("ArrowRight")
    expect(page.locator(".tree-row")).to_have_count(n_rows)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#programs-details h2")).to_be_visible()


DEEP_LINKS = [
    ("/memory", {"breakdown": "liveness", "tiles": "3,9", "x": "100:300", "gaps": "1"}),
    ("/memory", {"tab": "variables", "tiles": "3", "name": "weights"}),
    ("/liveness", {"step": "12000", "always": "1", "x": "11000:13000", "steps": "softmax"}),
    ("/liveness", {"tab": "tightest"}),
    ("/programs", {"find": "softmax", "node": "30"}),
    ("/summary", {"options": "auto"}),
]


@pytest.mark.parametrize(("path", "view"), DEEP_LINKS)
def test_a_reloaded_address_shows_the_same_view(
    visit: Visit, path: str, view: dict[str, str]
) -> None:
    page = visit(path, **view)
    _wait(page, path)
    url, text = page.url, _settled_text(page)
    page.reload()
    _wait(page, path)
    again = _settled_text(page)
    for _ in range(5):
        if again == text:
            break
        again = _settled_text(page)
    assert again == text
    assert page.url == url
    for name, value in view.items():
        expect(page).to_have_url(re.compile(f"{name}={value}"))


def test_two_reports_stand_side_by_side_and_swap(visit: Visit, ids: dict[str, str]) -> None:
    page = visit("/memory", with_="changed")
    _wait(page, "/memory")
    expect(page.locator("#memory-headlines .side-mark")).to_have_count(2)
    expect(page.locator("#memory-details thead")).to_contain_text("Diff")
    page.click("#swap-button")
    expect(page.locator("#report-baseline option:checked")).to_have_text(re.compile("changed$"))
    expect(page).to_have_url(re.compile(f"report={ids['changed']}&with={ids['large']}"))


def test_the_candidate_is_chosen_in_the_header_and_taken_away(
    visit: Visit, ids: dict[str, str]
) -> None:
    page = visit("/summary")
    _wait(page, "/summary")
    page.select_option("#report-candidate", ids["changed"])
    expect(page.locator("#summary-changes")).to_contain_text("What changed")
    page.click("#close-button")
    expect(page.locator("#summary-changes")).to_be_empty()
    expect(page.locator("#swap-button")).to_be_disabled()


def test_the_colour_scheme_is_remembered(visit: Visit) -> None:
    page = visit("/summary")
    _wait(page, "/summary")
    scheme = "data-mantine-color-scheme"
    before = page.get_attribute("html", scheme)
    after = "dark" if before == "light" else "light"
    page.click("#scheme-button")
    expect(page.locator("html")).to_have_attribute(scheme, after)
    page.reload()
    _wait(page, "/summary")
    expect(page.locator("html")).to_have_attribute(scheme, after)
    page.click("#scheme-button")
    expect(page.locator("html")).to_have_attribute(scheme, before or "light")


def test_help_opens_with_its_key(visit: Visit) -> None:
    page = visit("/summary")
    _wait(page, "/summary")
    assert page.locator("#help").inner_text() == "", "the help is fetched when it is opened"
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Keys and gestures")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


@pytest.mark.parametrize("width", [1280, 600])
def test_help_has_a_glossary_and_the_fidelity_statement(visit: Visit, width: int) -> None:
    page = visit("/summary")
    page.set_viewport_size({"width": width, "height": 800})
    _wait(page, "/summary")
    page.click("#help-button")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("heading", name="Glossary").click()
    expect(dialog).to_contain_text("Always live")
    dialog.get_by_role("heading", name="How far to trust the numbers").click()
    expect(dialog).to_contain_text("counted references")
    # The page shows the same as `tilescope doctor --fidelity`.
    for row in (row for row in packaged_rows() if row.id == "C5"):
        line = dialog.locator("tr", has_text=row.figure).filter(has_text=as_error(row))
        expect(line.first).to_contain_text(row.verdict)
    dialog.get_by_text("Shown, not counted").click()
    expect(dialog.locator(".figures")).to_have_count(3)
    sizes = page.evaluate(
        "() => {const d = document.querySelector('#help'); return [d.scrollWidth, d.clientWidth]}"
    )
    assert sizes[0] == sizes[1]


def test_a_copied_link_holds_the_view_and_no_token(visit: Visit) -> None:
    page = visit("/liveness", step="40")
    _wait(page, "/liveness")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("#copy-button")
    expect(page.locator("#copy-note")).to_have_text("Link copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.url
    assert "token" not in copied


@pytest.mark.parametrize("path", sorted(READY))
def test_a_narrow_window_does_not_scroll_sideways(visit: Visit, path: str) -> None:
    page = visit(path, with_="changed")
    page.set_viewport_size({"width": 600, "height": 800})
    _wait(page, path)
    page.wait_for_load_state("networkidle")
    overflow = page.evaluate(
        "() => document.getElementById('content').scrollWidth"
        " - document.getElementById('content').clientWidth"
    )
    assert overflow <= 0


def test_a_browser_that_did_not_open_the_link_is_refused(chromium: Browser, origin: str) -> None:
    stranger = chromium.new_context()
    page = stranger.new_page()
    answer = page.goto(f"{origin}/memory")
    assert answer is not None
    assert answer.status == 401
    expect(page.locator("body")).to_contain_text("tilescope serve")
    stranger.close()


def test_changes_stand_under_their_head_to_the_right(visit: Visit) -> None:
    page = visit("/liveness", with_="changed")
    cell = page.locator("#liveness-tab-step tbody td:nth-child(4)").first
    expect(cell).to_have_css("text-align", "right", timeout=30_000)


def test_a_chart_is_picked_from_by_keyboard(visit: Visit) -> None:
    page = visit("/memory")
    _wait(page, "/memory")
    chart = page.locator(".chart-box:visible")
    expect(chart).to_have_attribute("aria-label", re.compile("Left and right move a cursor"))
    chart.focus()
    for key, tile in (
        ("ArrowRight", 0),
        ("Shift+ArrowRight", 10),
        ("ArrowLeft", 9),
        ("End", 1471),
        ("ArrowRight", 1471),
        ("Home", 0),
    ):
        page.keyboard.press(key)
        expect(chart).to_have_attribute("aria-valuenow", str(tile))
        expect(chart).to_have_attribute(
            "aria-valuetext", re.compile(rf"^Tile {tile:,}: .*Variables [\d.]+ KiB.*Total")
        )
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"[?&]tiles=1($|&)"))
    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile("tiles="))
    page = visit("/liveness", with_="changed")
    _wait(page, "/liveness")
    page.locator(".chart-box:visible").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    # Values of a place that is not drawn are asked for.
    notes = page.locator(".chart-box:visible")
    expect(notes).to_have_attribute("aria-valuetext", re.compile(r"^Step 1\b"))
    page.keyboard.press("Enter")
    # The second place of the aligned steps may be one of the candidate only.
    expect(page).to_have_url(re.compile(r"[?&]step=c?\d+($|&)"))
    step = page.url.partition("step=")[2].partition("&")[0].lstrip("c")
    expect(page.locator("#liveness-tab-step .grid-note").first).to_contain_text(f"Step {step}:")


def test_a_chart_is_saved_as_picture_and_table(visit: Visit) -> None:
    page = visit("/memory", report="pair")
    _wait(page, "/memory")
    with page.expect_download() as picture:
        page.get_by_role("button", name="save as a picture").click()
    data = picture.value.path().read_bytes()
    assert picture.value.suggested_filename.endswith("pair-tile-memory.png")
    width = page.locator(".chart-canvas:visible").evaluate("canvas => canvas.clientWidth")
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(data[16:20], "big") == 2 * width
    with page.expect_download() as table:
        page.get_by_role("button", name="save the drawn data").click()
    head, *lines = table.value.path().read_text(encoding="utf-8").splitlines()
    assert head.startswith("tile,")
    assert head.endswith(",total (bytes)")
    assert [line.partition(",")[0] for line in lines] == [str(tile) for tile in range(64)]


def test_a_tooltip_tells_every_series_of_a_tile(visit: Visit) -> None:
    page = visit("/memory", with_="changed")
    _wait(page, "/memory")
    page.locator("#memory-figure .chart-box").hover()
    label = page.locator("#memory-figure .chart-tooltip")
    expect(label).to_contain_text("Total")
    expect(label).to_contain_text("Baseline")
    expect(label.locator(".chart-tooltip-title")).to_have_text(re.compile(r"^Tile [\d,]+$"))
    frame = label.bounding_box()
    assert frame is not None
    for line in label.locator("tr").all():
        box = line.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= frame["x"] + frame["width"] + 1


def test_two_reports_are_drawn_in_one_plot_or_in_two(visit: Visit) -> None:
    page = visit("/memory", with_="changed")
    _wait(page, "/memory")
    legend = page.locator("#memory-figure .legend")
    expect(legend).to_have_text("BaselineCandidate")
    expect(page.locator("#memory-figure .chart-note")).to_contain_text("totals are drawn")
    page.get_by_text("Separate", exact=True).locator("visible=true").click()
    expect(legend).to_contain_text("Control code")
    expect(page).to_have_url(re.compile("sides=separate"))


def test_long_names_of_variables_are_not_cut(visit: Visit) -> None:
    page = visit("/memory", tiles="7", tab="variables")
    cells = page.locator("#memory-variables td.data-name")
    expect(cells.first).to_be_visible(timeout=30_000)
    cut = cells.evaluate_all(
        "all => all.filter(element => element.scrollWidth > element.clientWidth + 1)"
    )
    assert cut == []
    widths = cells.evaluate_all("all => all.map(element => element.clientWidth)")
    assert min(widths) >= 200


def test_tables_beside_the_tree_fit_their_panel(visit: Visit) -> None:
    page = visit("/programs", find="OnTileExecute")
    expect(page.locator("#programs-note")).to_contain_text("matches")
    page.locator(".tree-row", has_text="OnTileExecute").first.click()
    expect(page.locator("#programs-details")).to_contain_text("Tile balance")
    too_wide = page.locator("#programs-details .table-wrap").evaluate_all(
        "all => all.filter(element => element.scrollWidth > element.clientWidth + 1).length"
    )
    assert too_wide == 0


def test_a_chosen_operation_shows_its_plan_and_leads_to_its_steps(visit: Visit) -> None:
    page = visit("/operations", layer="model", find="layer7")
    cell = page.locator(f"{OPERATIONS} .row-button").first
    expect(cell).to_have_text(re.compile("^layer7"))
    name = cell.inner_text()
    cell.click()
    expect(page.locator("#operation h2")).to_have_text(name)
    expect(page.locator("#operation")).to_contain_text("Runner-up")
    expect(page.locator("#operation .part-bars").first).to_be_visible()
    expect(page).to_have_url(re.compile("op=layer"))
    page.get_by_text("In the execution trace").click()
    expect(page.locator("#trace-find")).to_have_value(name)
    # The trace shows its longest step, and selects it.
    expect(page).to_have_url(re.compile(r"at=\d+\.\d+\.\d+\.\d+"))
    expect(page).to_have_url(re.compile(r"range=\d+:\d+"))
    expect(page.locator("#trace-details h2")).to_contain_text(name)
    page.go_back()
    expect(page.locator("#operation h2")).to_have_text(name)


def test_the_menu_keeps_what_a_page_showed(visit: Visit) -> None:
    page = visit("/operations", layer="model", find="layer7")
    _wait(page, "/operations")
    page.locator(".menu-link", has_text="Insights").click()
    expect(page).to_have_title("Insights – TileScope")
    page.locator(".menu-link", has_text="Operations").click()
    expect(page).to_have_url(re.compile("layer=model&find=layer7"))
    expect(page.locator("#operations-find")).to_have_value("layer7")
    expect(page).to_have_title("Operations – TileScope")
    expect(page.get_by_role("heading", level=1)).to_have_text("Operations")


def test_insights_lead_to_tiles_steps_and_variables(visit: Visit) -> None:
    page = visit("/insights")
    _wait(page, "/insights")
    tile = page.locator(".fullest-tiles .page-link").first
    number = tile.inner_text().replace(",", "")
    tile.click()
    expect(page.locator("#memory-tiles")).to_have_value(number)
    page.go_back()
    page.locator("#insights-body .page-link", has_text="step").click()
    expect(page).to_have_url(re.compile(r"/liveness\?.*step=\d+"))
    page.go_back()
    variable = page.locator('#insights-body .page-link[href*="var="]').first
    name = variable.inner_text()
    variable.click()
    expect(page.locator("#memory-var")).to_have_value(name)


def test_arrow_keys_move_through_a_table_and_tab_leaves_it(visit: Visit) -> None:
    page = visit("/memory", tab="sets")
    region = page.locator("#memory-sets .data-scroll")
    region.focus()
    inside = "document.activeElement.closest('tbody') !== null"
    page.keyboard.press("ArrowDown")
    assert page.evaluate(inside)
    row = "document.activeElement.closest('tr').rowIndex"
    for key, expected in (("ArrowDown", 2), ("ArrowRight", 2), ("End", 200), ("Home", 1)):
        page.keyboard.press(key)
        assert page.evaluate(row) == expected
    page.keyboard.press("Tab")
    assert not page.evaluate(inside)
    region.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/programs\?.*node=\d+"))
    expect(page.locator(".tree-row.is-selected")).to_be_visible()


#: Texts whose contrast to what lies behind them is below 4.5, the least that WCAG 2.2 AA allows.
_FAINT = r"""() => {
    const light = (colour) => {
        const [r, g, b] = colour.map((v) => v / 255)
            .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const parts = (text) => (text.match(/[\d.]+/g) || []).map(Number);
    const behind = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const [r, g, b, a = 1] = parts(getComputedStyle(at).backgroundColor);
            if (a > 0.99 && r !== undefined) return [r, g, b];
        }
        return [255, 255, 255];
    };
    const found = [];
    for (const element of document.querySelectorAll('#content *, .header *, .menu *')) {
        const texts = [...element.childNodes].filter((node) => node.nodeType === 3);
        if (!element.offsetParent || !texts.some((node) => node.textContent.trim())) continue;
        const colour = parts(getComputedStyle(element).color).slice(0, 3);
        const [a, b] = [light(colour), light(behind(element))];
        const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (contrast < 4.5) found.push(element.className + ' ' + contrast.toFixed(2));
    }
    return [...new Set(found)];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["/summary", "/insights", "/memory", "/programs", "/trace"])
def test_texts_stand_out(visit: Visit, path: str, scheme: str) -> None:
    page = visit(path)
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    if path in READY:
        _wait(page, path)
    else:
        page.locator(".trace-legend .trace-swatch").first.wait_for()
    assert page.evaluate(_FAINT) == []


def test_a_first_click_on_a_column_of_numbers_brings_the_largest(visit: Visit) -> None:
    page = visit("/memory", tab="variables", tiles="7")
    head = page.locator("#memory-variables th", has_text="Size")
    head.locator("button").click(timeout=30_000)
    expect(head).to_have_attribute("aria-sort", "descending")


def test_a_plan_in_the_list_of_plans_is_explained(visit: Visit) -> None:
    page = visit("/operations", tab="plans")
    page.locator("#operation-plans tbody tr").first.wait_for()
    expect(page.locator("#operation-plans-note")).to_contain_text("Predicted cycles")


def test_changes_are_sorted_by_their_size(visit: Visit) -> None:
    page = visit("/operations", layer="model", with_="changed")
    head = page.locator(f"{OPERATIONS} th", has_text="Diff").locator("button")
    cell = page.locator(f"{OPERATIONS} tbody tr").first.locator("td").last
    expect(cell).to_contain_text("cycles")
    head.click()
    expect(cell).to_contain_text(re.compile(r"^\+"))
    head.click()
    expect(cell).to_contain_text(re.compile(r"^-"))


def test_a_chosen_variable_is_drawn_over_the_tiles(visit: Visit) -> None:
    page = visit("/memory", tiles="7", tab="variables")
    cell = page.locator("#memory-variables .row-button").first
    expect(cell).to_have_text(re.compile("/"), timeout=30_000)
    name = cell.inner_text()
    cell.click()
    expect(page.locator("#memory-headlines")).to_contain_text(name)
    expect(page.locator("#memory-var")).to_have_value(name)
    expect(page).to_have_url(re.compile("breakdown=variables"))
    # An immediate return to the previous choice is not a late echo.
    page.locator("#memory-breakdown").get_by_text("Category", exact=True).click()
    expect(page.locator("#memory-var")).to_be_hidden()


def test_a_page_says_that_its_report_changed(visit: Visit, served_dir: Path) -> None:
    page = visit("/memory", report="rewritten")
    _wait(page, "/memory")
    assert page.locator("#changed-notice").count() == 0
    spare = served_dir.parent / "spare"
    generate_report(spare, n_tiles=32, n_steps=40, n_variables=20)
    (spare / "profile.pop").replace(served_dir / "rewritten" / "profile.pop")
    page.click('a[title="Liveness"]')
    notice = page.locator("#changed-notice")
    expect(notice).to_contain_text("The report file changed; reload")
    expect(page.locator("#liveness-headlines")).to_be_empty()
    notice.get_by_role("button", name="Reload").click()
    expect(page.locator("#liveness-headlines")).not_to_be_empty()
    assert page.locator("#changed-notice").count() == 0


@pytest.mark.parametrize(("width", "height"), [(1024, 768), (1920, 1080), (2560, 1440)])
def test_a_chart_and_its_grid_take_the_window(visit: Visit, width: int, height: int) -> None:
    page = visit("/liveness")
    page.set_viewport_size({"width": width, "height": height})
    _wait(page, "/liveness")
    expect(page.locator("#liveness-tab-step tbody tr").first).to_be_visible()
    sizes = {}
    for name, position in (
        ("chart", "#liveness-figure"),
        ("table", "#liveness-tab-step .data-scroll"),
    ):
        box = page.locator(position).bounding_box()
        assert box is not None
        sizes[name] = box
    assert sizes["chart"]["width"] > width - 300
    assert sizes["chart"]["height"] >= 0.4 * height
    assert sizes["table"]["height"] <= 0.45 * height
    drawn = page.locator("#liveness-figure .chart-canvas").bounding_box()
    frame = page.locator("#liveness-figure .chart-box").bounding_box()
    assert drawn is not None
    assert frame is not None
    assert abs(drawn["height"] - frame["height"]) < 1
    assert abs(drawn["width"] - frame["width"]) < 1
