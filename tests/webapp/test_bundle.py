"""Our scripts and style sheets as one file each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

import pytest
from dash import Dash
from starlette.testclient import TestClient

from tilescope.webapp import bundle
from tilescope.webapp.app import _set_up

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


def test_files_follow_each_other_as_sorted_folders() -> None:
    (address,) = re.findall(r'src="/assets/all/([^"?]+)', bundle.tag("js"))
    text = bundle._FILES[address].decode()
    parts = ("charts.js", "view.js", "axis/words.js", "chart/start.js", "trace/viewer.js")
    starts = [text.index((ASSETS / part).read_text("utf-8")) for part in parts]
    assert starts == sorted(starts)


def test_our_scripts_come_after_those_of_components_and_before_the_renderer(document: str) -> None:
    ours = document.index("/assets/all/")
    assert document.index("/_dash-component-suites/dash_mantine_components") < document.rindex(
        "/assets/all/"
    )
    assert ours < document.index('id="_dash-renderer"')


def test_a_dash_of_another_shape_sets_itself_up() -> None:
    class Shape:
        """Has no function that sets up."""

    _set_up(cast("Dash", Shape()))
