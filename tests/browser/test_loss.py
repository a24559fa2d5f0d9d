"""The chart of the loss in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

Visit = Callable[..., Page]


def test_the_loss_of_many_steps_is_drawn_and_a_range_is_opened(visit: Visit) -> None:
    page = visit("/summary", "trained")
    plot = page.locator("#summary-loss")
    expect(plot).to_have_attribute("data-drawn", "true", timeout=30_000)
    expect(plot).to_have_attribute("data-steps", "100000")
    label = re.compile(r"^Loss by step\. 100,000 steps; first 4\.3 in step 0, last ")
    expect(plot.locator("canvas")).to_have_attribute("aria-label", label)
    expect(plot.locator(".chart-note")).to_contain_text("crosses: the loss is not finite")
    box = plot.locator(".loss-box").bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.5, middle)
    expect(plot.locator(".chart-tooltip")).to_contain_text(re.compile(r"step \d+,\d+ · epoch 9"))
    with page.expect_response(re.compile(r"/loss\?.*start=\d+")) as answer:
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.6, middle, steps=4)
        page.mouse.up()
    (side, _) = answer.value.json()["sides"]
    assert 40_000 < side["place"][0] < side["place"][-1] < 70_000
    with page.expect_response(re.compile("/loss")):
        plot.get_by_role("button", name="All steps").click()
    plot.get_by_role("button", name="Log scale").click()


def test_a_report_of_inference_has_no_loss(visit: Visit) -> None:
    page = visit("/summary", "pair")
    expect(page.locator("#summary-body .facts td").first).to_be_visible(timeout=30_000)
    expect(page.locator("#summary-loss-card")).to_be_hidden()
