"""The documentation in the web app: every page, every link, every image, and the search."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urljoin

import pytest
from starlette.testclient import TestClient

from tilescope.webapp.components.markup import as_html
from tilescope.webapp.documentation import Documentation
from tilescope.webapp.help import help_content

PATHS = Documentation().paths


def _ids(text: str) -> set[str]:
    return set(re.findall(r' id="([^"]+)"', text))


@pytest.mark.parametrize("path", PATHS)
def test_every_page_opens_and_its_links_lead_somewhere(client: TestClient, path: str) -> None:
    answer = client.get(f"/docs/{path}")
    assert answer.status_code == 200
    assert answer.text.count("<h1") == 1
    body = answer.text.partition("<article")[2].partition("</article>")[0]
    links = re.findall(r'(?:href|src)="([^"]+)"', body)
    for link in links:
        target, _, anchor = urljoin(f"/docs/{path}", link).partition("#")
        if target.startswith(("http:", "https:")) or not target.endswith((".md", ".png", ".svg")):
            continue
        actual = client.get(target)
        assert actual.status_code == 200, link
        assert not anchor or anchor in _ids(actual.text), link


def test_the_help_leads_to_pages_that_exist(client: TestClient) -> None:
    links = re.findall(r'href="(/docs/[^"]+)"', as_html(help_content(None)))
    assert len(links) == 8
    for link in links:
        target, _, anchor = link.partition("#")
        actual = client.get(target)
        assert actual.status_code == 200
        assert not anchor or anchor in _ids(actual.text), link


def test_a_search_finds_sections_with_all_words(client: TestClient) -> None:
    text = client.get("/docs/", params={"find": "gate cycles"}).text
    assert 'href="/docs/reference/gates.md#' in text
    assert "No section" in client.get("/docs/", params={"find": "zebra crossing"}).text
    hostile = client.get("/docs/", params={"find": "<script>alert(1)</script>"}).text
    assert "<script>alert" not in hostile


@pytest.mark.parametrize(
    "path",
    ["nothing.md", "..%2fREADME.md", "images/nothing.png", "images/..%2findex.md", "generate.py"],
)
def test_nothing_else_is_served(client: TestClient, path: str) -> None:
    answer = client.get(f"/docs/{path}")
    assert answer.status_code == 404
    assert "Page not found" in answer.text


def test_headings_in_code_are_no_sections(tmp_path: Path) -> None:
    (tmp_path / "index.md").write_text("# One\n\n```sh\n# comment tile\n```\n\n## Two\n\ntile\n")
    match = Documentation(tmp_path).search("tile")
    assert [(item.section, item.anchor) for item in match] == [("One", "one"), ("Two", "two")]
