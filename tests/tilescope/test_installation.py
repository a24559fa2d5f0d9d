"""The command that adds an extra to an installation, wherever the package came from."""

from __future__ import annotations

import json
import re
from importlib.metadata import PackageNotFoundError, PathDistribution
from pathlib import Path

import pytest

from tilescope import installation

REPOSITORY = "https://example.org/someone/tilescope"
UNKNOWN = "install TileScope with its extra 'web', see docs/how-to/install.md"


def advice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, origin: object, *, is_json: bool = True
) -> str:
    """Return the advice of an installation whose origin pip recorded so, or not at all."""
    if origin is not None:
        text = json.dumps(origin) if is_json else str(origin)
        (tmp_path / "direct_url.json").write_text(text)
    monkeypatch.setattr(installation, "distribution", lambda _: PathDistribution(tmp_path))
    return installation.install_advice("web")


@pytest.mark.parametrize(
    ("origin", "arguments"),
    [
        ({"url": "file:///src/tile%20scope", "dir_info": {}}, "'/src/tile scope[web]'"),
        (
            {"url": "file:///src/tilescope", "dir_info": {"editable": True}},
            "--editable '/src/tilescope[web]'",
        ),
        (
            {"url": "file:///dist/tilescope-0.1.0-py3-none-any.whl", "archive_info": {}},
            "'/dist/tilescope-0.1.0-py3-none-any.whl[web]'",
        ),
        (
            {"url": REPOSITORY, "vcs_info": {"vcs": "git", "commit_id": "ab12"}},
            f"'tilescope[web] @ git+{REPOSITORY}@ab12'",
        ),
        (
            {
                "url": REPOSITORY,
                "vcs_info": {"vcs": "git", "commit_id": "ab12", "requested_revision": "v0.1.0"},
            },
            f"'tilescope[web] @ git+{REPOSITORY}@v0.1.0'",
        ),
        (
            {"url": f"{REPOSITORY}/tilescope.whl", "archive_info": {}},
            f"'tilescope[web] @ {REPOSITORY}/tilescope.whl'",
        ),
    ],
)
def test_the_command_installs_from_where_the_package_came(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, origin: object, arguments: str
) -> None:
    assert advice(monkeypatch, tmp_path, origin) == f"run: pip install {arguments}"


@pytest.mark.parametrize("origin", [None, [], {}, {"url": 3}, {"url": REPOSITORY, "vcs_info": {}}])
def test_an_unknown_origin_leads_to_the_readme(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, origin: object
) -> None:
    assert advice(monkeypatch, tmp_path, origin) == UNKNOWN


def test_a_damaged_record_leads_to_the_readme(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert advice(monkeypatch, tmp_path, "{", is_json=False) == UNKNOWN


def test_a_checkout_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def miss(name: str) -> PathDistribution:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(installation, "distribution", miss)
    checkout = Path(installation.__file__).resolve().parents[1]
    text = installation.install_advice("engine")
    assert text == f"run: pip install '{checkout}[engine]'"


def test_no_text_installs_from_an_index() -> None:
    """`pip install tilescope` fails until the package is in an index."""
    root = Path(__file__).parents[2]
    patterns = ("*.md", "docs/**/*.md", "*.yml", "docs/**/*.yml", "tilescope/**/*.py")
    texts = [path for pattern in patterns for path in root.glob(pattern)]
    assert len(texts) > 50
    for path in texts:
        for line in path.read_text(encoding="utf-8").splitlines():
            is_from_index = re.search(r"""["' ]tilescope(\[[a-z,]+\])?(["' ]|$)(?! ?@ )""", line)
            assert not ("pip install" in line and is_from_index), f"{path}: {line}"
