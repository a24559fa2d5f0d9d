"""Our scripts and style sheets as one file each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tilescope.webapp import bundle

ASSETS = Path(bundle.__file__).parent / "assets"


@pytest.fixture
def document(client: TestClient, ids: dict[str, str]) -> str:
    return str(client.get(f"/summary?report={ids['baseline']}").text)


@pytest.mark.parametrize("kind", ["js", "css"])
def test_a_page_asks_for_one_file_that_holds_all(
    client: TestClient, document: str, kind: str
) -> None:
    (address,) = re.findall(rf'"(/assets/all/[^"]+\.{kind}\?[^"]+)"', document)
    answer = client.get(address)
    assert answer.headers["content-type"].startswith(
        f"text/{'javascript' if kind == 'js' else kind}"
    )
    assert "immutable" in answer.headers["cache-control"]
    used = [path for path in ASSETS.rglob(f"*.{kind}") if not re.match("theme|graph_", path.name)]
    assert len(used) > 7
    for path in used:
        assert path.read_text("utf-8") in answer.text
    ours = re.findall(rf'"/assets/([^"?]+\.{kind})', document)
    assert [name for name in ours if not name.startswith("all/")] == ["theme.js"] * (kind == "js")


def test_an_unknown_file_is_missing(client: TestClient) -> None:
    assert client.get("/assets/all/0123456789abcdef.js").status_code == 404


def test_files_keep_their_place_and_order() -> None:
    tags = (
        '<script src="/other.js"></script>\n<script src="/assets/charts.js?m=1"></script>\n'
        '<script src="/assets/axis/words.js?m=2"></script>\n<script src="/last.js"></script>\n'
    )
    findall = re.findall('src="([^"]+)"', bundle.bundled(tags, "js"))
    assert [findall[0], findall[-1], len(findall)] == ["/other.js", "/last.js", 3]
    name = findall[1].partition("?")[0].rpartition("/")[2]
    text = bundle._FILES[name].decode()
    charts, words = ((ASSETS / path).read_text("utf-8") for path in ("charts.js", "axis/words.js"))
    assert text == f"{charts}\n;\n{words}"


def test_tags_without_our_files_are_left_alone() -> None:
    assert bundle.bundled('<script src="/other.js"></script>', "js") == (
        '<script src="/other.js"></script>'
    )
