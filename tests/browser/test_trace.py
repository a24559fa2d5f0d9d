"""The execution trace in a real browser: motion, selection, search, links that restore it."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect
from tests.generated_report import generate_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page

VIEWER = "document.getElementById('trace-viewer')?.viewer"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the printed link to a report that ran and one that did not."""
    root = tmp_path_factory.mktemp("served")
    generate_report(root / "pair", n_tiles=32, n_ipus=2, n_steps=1500, n_variables=60, n_runs=2)
    generate_report(root / "many", n_tiles=8, n_ipus=24, n_steps=200, n_variables=20)
    generate_report(root / "still", n_tiles=32, n_steps=60, n_variables=40, n_runs=0)
    command = [sys.executable, "-m", "tilescope", "serve", str(root), "--port", "0"]
    position = Path(__file__).parents[2]
    with subprocess.Popen(
        command, cwd=position, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        assert server.stdout is not None
        printed = ""
        for line in server.stdout:
            printed += line
            match = re.search(r"http://\S+", line)
            if match:
                break
        else:
            pytest.fail(f"no link was printed: {printed}")
        yield match.group()
        server.terminate()


@pytest.fixture(scope="module")
def session(chromium: Browser, served: str) -> Iterator[BrowserContext]:
    """Return a browser session that has opened the link."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(served)
    page.close()
    yield context
    context.close()


@pytest.fixture
def page(session: BrowserContext, served: str) -> Iterator[Page]:
    """Return a page; a test fails if anything is logged to the console."""
    page = session.new_page()
    text: list[str] = []
    page.on("pageerror", lambda error: text.append(str(error)))

    def listen(message: ConsoleMessage) -> None:
        if message.type == "error":
            text.append(message.text)

    page.on("console", listen)
    page.goto(served.split("/?", maxsplit=1)[0] + "/api/reports")
    yield page
    page.close()
    assert text == []


def poll(page: Page, expression: str, wanted: Any = True) -> Any:
    """Return the value of an expression once it is the expected one; the page forbids ``eval``."""
    value = None
    until = time.monotonic() + 15
    while time.monotonic() < until:
        value = page.evaluate(expression)
        if value == wanted or (wanted is True and value):
            return value
        page.wait_for_timeout(30)
    pytest.fail(f"{expression} stayed {value!r}")


def show(page: Page, query: str = "", report: str = "pair") -> None:
    """Open the trace of a report and wait until it is painted."""
    actual = page.request.get(urlsplit(page.url)._replace(path="/api/reports", query="").geturl())
    ids = {entry["label"].split("/")[-1]: entry["id"] for entry in actual.json()["reports"]}
    address = urlsplit(page.url)
    page.goto(f"http://{address.netloc}/trace?report={ids[report]}{query}")
    if report != "still":
        poll(page, f"{VIEWER}?.firstPaint")
        poll(page, f"{VIEWER}?.source.labels.length")


def seen(page: Page) -> tuple[int, int]:
    """Return the visible range."""
    start, end = page.evaluate(f"[{VIEWER}.target().start, {VIEWER}.target().end]")
    return round(start), round(end)


def query(page: Page) -> dict[str, str]:
    """Return the parameters of the address."""
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def wait_for(page: Page, name: str, *, present: bool = True) -> str:
    """Return a parameter once it is present in the URL, or absent."""
    poll(page, f"new URLSearchParams(location.search).has('{name}') === {str(present).lower()}")
    return query(page).get(name, "")


def point(page: Page, part: float, lane: int) -> tuple[float, float]:
    """Return a canvas position from a fraction of its width and a lane of the first group."""
    box = page.locator(".trace-canvas").bounding_box()
    assert box is not None
    middle = page.evaluate(
        f"""(() => {{
          const viewer = {VIEWER}, group = viewer.groups[0];
          const row = group.rows.find((one) => one.level === {lane - 1});
          return viewer.screenTop(group) + row.top + row.height / 2;
        }})()"""
    )
    return box["x"] + box["width"] * part, box["y"] + middle


def test_wheel_zooms_at_the_cursor_and_zero_shows_all(page: Page) -> None:
    show(page)
    full = seen(page)
    x, y = point(page, 0.25, 2)
    page.mouse.move(x, y)
    for _ in range(6):
        page.mouse.wheel(0, -200)
    poll(page, f"{VIEWER}.target().end - {VIEWER}.target().start < {(full[1] - full[0]) / 3}")
    start, end = seen(page)
    under = full[0] + 0.25 * (full[1] - full[0])
    assert abs(start + 0.25 * (end - start) - under) < (end - start) * 0.02
    assert wait_for(page, "range") == f"{start}:{end}"
    page.keyboard.press("0")
    wait_for(page, "range", present=False)
    assert seen(page) == full


def test_keys_and_dragging_pan_within_the_trace(page: Page) -> None:
    show(page, "&range=400000:500000")
    page.mouse.move(*point(page, 0.5, 3))
    page.keyboard.press("d")
    poll(page, f"{VIEWER}.range.start > 415000")
    assert seen(page) == (420_000, 520_000)
    page.keyboard.press("ArrowLeft")
    poll(page, f"{VIEWER}.goal === null && {VIEWER}.range.start < 401000")
    x, y = point(page, 0.5, 2)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 300, y, steps=4)
    page.mouse.up()
    start, end = seen(page)
    assert start < 390_000
    assert end - start == 100_000


def compute_step(page: Page) -> tuple[int, float, str]:
    """Return level, middle cycle and path of a compute step between cycles 402,000 and 438,000."""
    level, middle, name = page.evaluate(
        f"""(() => {{
          const data = {VIEWER}.best({VIEWER}.groups[0]);
          for (const lane of data.lanes) {{
            if (lane.level < 0) continue;
            for (let i = 0; i < lane.n; i += 1) {{
              const start = data.start + lane.start[i];
              const end = start + lane.duration[i];
              if (lane.kind[i] === 0 && start > 402000 && end < 438000 && end - start > 300)
                return [lane.level, (start + end) / 2, {VIEWER}.source.path(lane.name[i])];
            }}
          }}
        }})()"""
    )
    return level, middle, name


def test_a_click_selects_shows_details_and_the_link_brings_it_back(page: Page) -> None:
    show(page, "&range=400000:440000")
    level, middle, name = compute_step(page)
    page.mouse.click(*point(page, (middle - 400_000) / 40_000, level + 1))
    wait_for(page, "at")
    page.locator("#trace-details h2", has_text=name).wait_for()
    assert page.evaluate(f"{VIEWER}.selected.name") == name
    text = page.locator("#trace-details").inner_text()
    assert "Busiest tile" in text
    assert "Vertices" in text
    page.reload()
    page.locator("#trace-details h2", has_text=name).wait_for()
    poll(page, f"{VIEWER}?.selected?.name", name)
    assert seen(page) == (400_000, 440_000)
    page.keyboard.press("f")
    poll(page, f"{VIEWER}.range.end - {VIEWER}.range.start < 39000")
    page.keyboard.press("Escape")
    wait_for(page, "at", present=False)


def test_shift_drag_marks_a_range_and_the_figures_follow(page: Page) -> None:
    show(page, "&range=0:1000000")
    page.keyboard.down("Shift")
    x, y = point(page, 0.2, 2)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(*point(page, 0.6, 2), steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    start, end = (int(part) for part in wait_for(page, "mark").split(":"))
    assert end - start == pytest.approx(400_000, rel=0.02)
    page.locator("#trace-summary", has_text="selected range").wait_for()
    assert f"{end - start:,}" in page.locator("#trace-summary").inner_text()
    page.keyboard.press("f")
    poll(page, f"Math.abs({VIEWER}.range.start - {start}) < 30000 && {VIEWER}.goal === null")


def test_slash_searches_and_n_walks_through_the_matches(page: Page) -> None:
    show(page)
    page.mouse.move(*point(page, 0.5, 2))
    page.keyboard.press("/")
    page.keyboard.type("softmax")
    assert wait_for(page, "find") == "softmax"
    page.locator(".trace-note", has_text="match; N and Shift-N").wait_for()
    page.keyboard.press("Escape")
    starts = []
    for key in ("n", "n", "Shift+N"):
        before = page.evaluate(f"{VIEWER}.state.at")
        page.keyboard.press(key)
        poll(page, f"{VIEWER}.state.at !== '{before}' && {VIEWER}.selected !== null")
        poll(page, f"{VIEWER}.selected?.name.includes('softmax')")
        offset = page.evaluate(f"{VIEWER}.state.at").split(".")[-1]
        poll(page, f"String({VIEWER}.selected?.start_cycle)", offset)
        starts.append(page.evaluate(f"{VIEWER}.selected.start_cycle"))
    assert starts[0] < starts[1]
    assert starts[2] == starts[0]
    page.locator("#trace-find").fill("no such step")
    page.locator(".trace-note", has_text="No step name contains").wait_for()


def test_matches_are_numbered_and_reached_outside_of_the_window(page: Page) -> None:
    show(page, "&find=softmax&range=100:9000&ipus=1")
    box = page.locator("#trace-match")
    actual = page.request.get(
        urlsplit(page.url)
        ._replace(
            path=f"/api/trace/{query(page)['report']}/search", query="text=softmax&limit=1&ipus=1"
        )
        .geturl()
    ).json()
    n = f"{actual['n_occurrences']:,}"
    expect(box).to_have_text(f"{n} matches")
    page.locator("#trace-next").click()
    expect(box).to_have_text(re.compile(rf"Match \d+ of {n}"))
    first = int(box.inner_text().split()[1].replace(",", ""))
    for _ in range(first):
        page.keyboard.press("Shift+N")
    expect(box).to_have_text(f"Match {n} of {n}")
    poll(page, f"{VIEWER}.selected?.name.includes('softmax') && {VIEWER}.goal === null")
    low, high = seen(page)
    item = page.evaluate(f"{VIEWER}.selected")
    assert low <= item["start_cycle"] < item["end_cycle"] <= high
    assert low > 9000
    assert item["ipu_id"] == 1
    page.locator("#trace-next").click()
    expect(box).to_have_text(f"Match 1 of {n}")


def test_pinned_rows_stay_at_the_top_and_in_the_address(page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 340})
    show(page, "&tiles=3,40")
    tops = f"{VIEWER}.groups.map((row) => [row.key, Math.round({VIEWER}.screenTop(row))])"
    page.get_by_role("button", name="Pin Tile 40").click()
    assert wait_for(page, "pins") == "1.0.t40"
    page.evaluate("document.querySelector('.trace-scroller').scrollTop = 0")
    before = dict(page.evaluate(tops))
    page.evaluate("document.querySelector('.trace-scroller').scrollTop = 30")
    poll(page, f"{VIEWER}.scroller.scrollTop", 30)
    after = dict(page.evaluate(tops))
    assert after.pop("1.0.t40") == before.pop("1.0.t40")
    assert after == {key: top - 30 for key, top in before.items()}
    # By keyboard; focus stays on the pin although its row moves.
    button = page.get_by_role("button", name="Pin Tile 3", exact=True)
    button.focus()
    page.keyboard.press("Enter")
    poll(page, "new URLSearchParams(location.search).get('pins')", "1.0.t40,0.0.t3")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Pin Tile 3"
    page.reload()
    poll(page, f"{VIEWER}?.groups.filter((row) => row.isPinned).length", 2)
    pinned = page.get_by_role("button", name="Pin Tile 3", exact=True)
    expect(pinned).to_have_attribute("aria-pressed", "true")
    pinned.click()
    poll(page, "new URLSearchParams(location.search).get('pins')", "1.0.t40")


def test_enter_in_the_search_box_steps_through_the_matches(page: Page) -> None:
    show(page)
    box = page.locator("#trace-find")
    box.fill("softmax")
    starts = []
    for key in ("Enter", "Enter", "Shift+Enter"):
        before = page.evaluate(f"{VIEWER}.state.at")
        box.press(key)
        poll(page, f"{VIEWER}.state.at !== '{before}'")
        offset = page.evaluate(f"{VIEWER}.state.at").split(".")[-1]
        poll(page, f"String({VIEWER}.selected?.start_cycle)", offset)
        starts.append(int(offset))
    assert starts[0] < starts[1]
    assert starts[2] == starts[0]
    assert wait_for(page, "find") == "softmax"


def test_a_link_to_a_step_selects_its_first_execution(page: Page) -> None:
    show(page, "&at=step:700")
    offset = poll(page, f"{VIEWER}.state.at")
    poll(page, f"{VIEWER}.selected?.step_id", 700)
    poll(page, "new URLSearchParams(location.search).get('at')", offset)
    start, end = seen(page)
    evaluate = page.evaluate(f"[{VIEWER}.selected.start_cycle, {VIEWER}.selected.end_cycle]")
    assert start < evaluate[0] < evaluate[1] < end
    page.locator("#trace-details h2").wait_for()


def test_merged_slices_show_the_proportions_of_their_kinds(page: Page) -> None:
    """The shares of all bars of a lane, weighed by their cycles, are those of the trace."""
    show(page, "&view=flat")
    shares = page.evaluate(
        f"""() => {{
            const viewer = {VIEWER};
            const lane = viewer.data.get('0.0').lanes.find((one) => one.level === 0);
            const found = new Map();
            let n = 0;
            for (let i = 0; i < lane.n; i += 1) {{
                if (lane.mix[i] >= 0) n += 1;
                for (const kind of viewer.kinds) {{
                    const part = lane.mix[i] < 0 ? Number(lane.kind[i] === kind.number)
                        : lane.share[lane.mix[i] + kind.number] / 255;
                    found.set(kind.name, (found.get(kind.name) || 0) + part * lane.duration[i]);
                }}
            }}
            return [n, ...['compute', 'exchange'].map((name) => found.get(name))];
        }}"""
    )
    assert shares[0] > 0
    actual = page.request.get(
        urlsplit(page.url)
        ._replace(path=f"/api/trace/{query(page)['report']}/summary", query="ipus=0")
        .geturl()
    ).json()
    cycles = actual["ipus"][0]["cycles_by_kind"]
    assert shares[1] / shares[2] == pytest.approx(cycles["compute"] / cycles["exchange"], rel=0.1)
    page.mouse.move(*point(page, 0.5, 1))
    page.locator(".trace-tooltip", has_text="%").wait_for()


def test_flat_view_collapsed_ipus_and_merged_slices_are_described(page: Page) -> None:
    show(page)
    assert "zoom in to separate them" in page.locator(".trace-note").inner_text()
    page.get_by_role("button", name=re.compile("IPU 1")).first.click()
    assert wait_for(page, "closed") == "1"
    poll(page, f"{VIEWER}.data.get('1.0')?.lanes.length", 2)
    page.get_by_text("Flat", exact=True).click()
    assert wait_for(page, "view") == "flat"
    poll(page, f"{VIEWER}.data.get('0.0')?.lanes.length", 2)
    page.locator("#trace-rows-shown").click()
    page.locator("#trace-ipus").fill("1")
    assert wait_for(page, "ipus") == "1"
    poll(page, f"{VIEWER}.groups.map((group) => group.ipu).join()", "1")
    page.get_by_role("tab", name="Top contributors").click()
    page.locator("#trace-top table").wait_for()
    assert page.locator("#trace-top tbody tr").count() > 10


def test_overview_handles_change_the_range(page: Page) -> None:
    show(page)
    full = seen(page)
    handle = page.get_by_role("slider", name="End of the visible range")
    box = handle.bounding_box()
    strip = page.locator(".trace-overview").bounding_box()
    assert box is not None
    assert strip is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(strip["x"] + strip["width"] / 2, box["y"] + 10, steps=4)
    page.mouse.up()
    start, end = seen(page)
    assert start == full[0]
    assert end == pytest.approx(full[1] / 2, rel=0.02)
    handle.press("ArrowLeft")
    poll(page, f"{VIEWER}.range.end < {end} - 1")


def test_a_click_replaces_what_is_selected_on_all_pages(page: Page) -> None:
    show(page, "&range=400000:440000&select=tile:3")
    bar = page.locator("#selection-bar b")
    bar.filter(has_text="Tile 3").wait_for()
    level, middle, _ = compute_step(page)
    page.mouse.click(*point(page, (middle - 400_000) / 40_000, level + 1))
    bar.filter(has_text="Step ").wait_for()
    step = page.evaluate(f"{VIEWER}.selected.step_id")
    assert f"select=step:{step}" in page.url
    page.mouse.click(*point(page, 0.5, 0))  # the run itself is nothing that other pages show
    poll(page, "!location.search.includes('select=')")


def test_a_tooltip_names_the_slice_and_its_kind(page: Page) -> None:
    show(page, "&range=400000:440000")
    page.mouse.move(*point(page, 0.5, 0))
    tooltip = page.locator(".trace-tooltip")
    tooltip.wait_for()
    assert "Engine::run" in tooltip.inner_text()
    assert "[R]" in tooltip.inner_text()


def test_a_report_without_a_run_says_what_to_do(page: Page) -> None:
    show(page, report="still")
    page.locator(".trace-message", has_text="has no execution").wait_for()
    page.locator("#trace-summary", has_text="No execution recorded").wait_for()


def test_a_match_on_one_of_many_ipus_opens_its_strip_and_scrolls_into_view(page: Page) -> None:
    show(page, report="many")
    assert page.evaluate(f"{VIEWER}.groups.every((group) => group.form === 'strip')")
    shown = f"{VIEWER}.groups.at(-1).top + {VIEWER}.groups.at(-1).height"
    assert page.evaluate(f"{shown} <= {VIEWER}.scroller.clientHeight")
    page.locator("#trace-find").fill("softmax")
    page.locator(".trace-note", has_text="match; N and Shift-N").wait_for()
    row = f"{VIEWER}.rowOf({VIEWER}.selected)"
    middle = f"{VIEWER}.screenTop({row}.row) + {row}.lane.top + {row}.lane.height / 2"
    for key in ("Shift+Enter", "Shift+Enter", "Enter", "Enter"):
        before = page.evaluate(f"{VIEWER}.state.at")
        page.locator("#trace-find").press(key)
        poll(page, f"{VIEWER}.state.at !== '{before}'")
        offset = page.evaluate(f"{VIEWER}.state.at").split(".")[3]
        poll(page, f"String({VIEWER}.selected?.start_cycle)", offset)
        poll(page, f"!{VIEWER}.unseen && !{VIEWER}.goal")
        assert 24 <= page.evaluate(middle) <= page.evaluate(f"{VIEWER}.scroller.clientHeight")
    ipu = page.evaluate(f"{VIEWER}.selected.ipu_id")
    opened = "(new URLSearchParams(location.search).get('opened') || '').split(',')"
    poll(page, f"{opened}.includes('{ipu}')")
    page.reload()
    poll(page, f"{VIEWER}?.selected?.ipu_id", ipu)
    poll(page, f"!{VIEWER}.unseen && {row} !== null")
    assert 24 <= page.evaluate(middle) <= page.evaluate(f"{VIEWER}.scroller.clientHeight")


def test_rows_keep_their_height_while_zooming_and_the_line_moves_it(page: Page) -> None:
    show(page)
    heights = f"{VIEWER}.groups.map((group) => [group.height, group.rows.map((row) => row.top)])"
    before, full = page.evaluate(heights), seen(page)
    page.mouse.move(*point(page, 0.5, 2))
    for _ in range(8):
        page.keyboard.press("w")
    poll(page, f"!{VIEWER}.goal")
    assert seen(page)[1] - seen(page)[0] < (full[1] - full[0]) / 5
    page.wait_for_timeout(500)
    assert page.evaluate(heights) == before
    page.locator("#trace-splitter").focus()
    page.keyboard.press("ArrowUp")
    assert page.evaluate(heights) != before
    page.locator("#trace-splitter").dblclick()
    assert page.evaluate(heights) == before


def test_chips_name_the_kinds_of_the_report_with_their_shares(page: Page) -> None:
    show(page)
    chips = page.locator("#trace-legend button")
    expect(chips.first).to_contain_text("%")
    actual = page.request.get(
        urlsplit(page.url)._replace(path=f"/api/trace/{query(page)['report']}/summary").geturl()
    ).json()
    sums: dict[str, int] = {}
    for ipu in actual["ipus"]:
        for kind, cycles in ipu["cycles_by_kind"].items():
            sums[kind] = sums.get(kind, 0) + cycles
    sums.pop("idle")
    compute = page.get_by_role("button", name=re.compile("^Compute "))
    share = float(compute.locator(".trace-chip-share").inner_text().split()[0])
    assert share == pytest.approx(100 * sums["compute"] / sum(sums.values()), abs=1.5)
    assert chips.count() == sum(cycles > 0 for cycles in sums.values())
    compute.click(modifiers=["Alt"])
    assert "compute" not in wait_for(page, "hide").split(",")
    expect(compute).to_have_attribute("aria-pressed", "true")
    compute.click(modifiers=["Alt"])
    wait_for(page, "hide", present=False)


def test_notes_and_marks_are_kept_with_the_trace(page: Page) -> None:
    show(page, "&range=0:40000")
    page.evaluate(f"{VIEWER}.mark(2000, 9000)")
    page.keyboard.press("t")
    page.locator(".trace-dialog input").fill("slow <here>")
    page.locator(".trace-dialog input").press("Enter")
    poll(page, f"{VIEWER}.notes.length", 1)
    wait_for(page, "notes")
    place = page.evaluate(f"[{VIEWER}.notes[0].start_cycle, {VIEWER}.notes[0].end_cycle]")
    assert place[0] <= 2000
    assert place[1] >= 9000
    page.keyboard.press("m")
    page.evaluate(f"{VIEWER}.mark(10000, 30000)")
    page.keyboard.press("m")
    expect(page.locator("#trace-summary h3")).to_have_text("Kept marks")
    rows = page.locator("#trace-summary table").first.locator("tbody tr")
    expect(rows).to_have_count(2)
    page.reload()
    poll(page, f"{VIEWER}?.notes?.length", 1)
    assert page.evaluate(f"{VIEWER}.notes[0].text") == "slow <here>"
    assert page.evaluate(f"{VIEWER}.state.marks.length") == 2
    page.evaluate(f"{VIEWER}.removeNote({VIEWER}.notes[0])")
    poll(page, f"{VIEWER}.notes.length === 0")


def test_waits_have_arrows_and_the_critical_path_adds_up(page: Page) -> None:
    show(page)
    poll(page, f"{VIEWER}.waits.length > 0")
    poll(page, f"[...{VIEWER}.critical.values()].some(spans => spans.length)")
    wait = page.evaluate(f"{VIEWER}.waits[0]")
    assert wait["ipu_id"] != wait["late_ipu_id"]
    whole = page.evaluate(
        f"""[...{VIEWER}.critical].map(([id, spans]) => {{
          const run = {VIEWER}.runs.find((one) => one.run_id === id);
          const sum = spans.reduce((all, span) => all + span.end_cycle - span.start_cycle, 0);
          return [sum, run.end_cycle - run.start_cycle];
        }})"""
    )
    assert all(0.5 * run <= path <= run for path, run in whole)


def test_arrow_keys_go_from_slice_to_slice(page: Page) -> None:
    show(page)
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "trace-find"
    page.keyboard.press("Escape")
    level, cycle, _ = compute_step(page)
    page.evaluate(
        f"(() => {{ const viewer = {VIEWER};"
        f" viewer.state.at = '0.0.{level}.{int(cycle)}'; viewer.loadSelected(); }})()"
    )
    poll(page, f"{VIEWER}.selected !== null")
    first = page.evaluate(f"{VIEWER}.selected.start_cycle")
    page.evaluate(f"{VIEWER}.scroller.focus()")
    page.keyboard.press("ArrowRight")
    poll(page, f"{VIEWER}.selected.start_cycle > {first}")
    page.keyboard.press("ArrowLeft")
    poll(page, f"{VIEWER}.selected.start_cycle === {first}")
    page.keyboard.press("ArrowUp")
    poll(page, f"{VIEWER}.selected.level === {level - 1}")
    assert page.evaluate(f"{VIEWER}.selected.start_cycle") <= first
    page.keyboard.press("ArrowDown")
    poll(page, f"{VIEWER}.selected.level === {level}")
