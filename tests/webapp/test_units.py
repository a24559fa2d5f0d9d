"""Units of memory as the visitor prefers them."""

from __future__ import annotations

import json

import pytest
from starlette.testclient import TestClient
from tests.webapp.test_callbacks import Browser

from tilescope.analyser.machine.target import target
from tilescope.analyser.quantities import bytes_style, format_bytes, use_bytes_style
from tilescope.webapp.library import Library
from tilescope.webapp.units import COOKIE


@pytest.mark.parametrize(
    ("style", "text"), [("binary", "624.0 KiB"), ("si", "639.0 kB"), ("bytes", "638,976 B")]
)
def test_pages_write_memory_in_the_units_of_the_cookie(
    client: TestClient, ids: dict[str, str], library: Library, style: str, text: str
) -> None:
    with library.opened(ids["baseline"]) as report:
        assert target(report).capacity_bytes == 638_976
    client.cookies.set(COOKIE, style)
    try:
        answer = Browser(client).ask("summary", report=ids["baseline"])
        page = client.get("/summary").text
    finally:
        client.cookies.delete(COOKIE)
    label = json.dumps(answer["summary-body.children"])
    assert text in label
    assert f'data-units="{style}"' in page
    again = json.dumps(Browser(client).ask("summary", report=ids["baseline"]))
    assert "624.0 KiB" in again


@pytest.mark.parametrize("value", ["miles", ""])
def test_other_values_are_ignored(client: TestClient, value: str) -> None:
    answer = client.get("/summary", headers={"cookie": f"{COOKIE}={value}; {_cookies(client)}"})
    assert 'data-units="binary"' in answer.text


def _cookies(client: TestClient) -> str:
    return "; ".join(f"{name}={value}" for name, value in client.cookies.items())


def test_the_style_ends_with_its_block() -> None:
    with use_bytes_style("si"):
        assert format_bytes(638_976) == "639.0 kB"
        assert format_bytes(638_976, "bytes") == "638,976 B"
    assert bytes_style() == "binary"
