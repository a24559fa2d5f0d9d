"""The path of a model that is the same on every computer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilescope.engine.frontend.model_path import lasting_path


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with a folder of models and a linked folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "checkout/.git").mkdir(parents=True)
    (tmp_path / "checkout/models").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "checkout/models")
    (tmp_path / "checkout/models/latest.onnx").symlink_to("v3.onnx")
    return tmp_path / "checkout"


def test_it_begins_at_the_top_of_the_repository(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = {"": "models/m.onnx", "models": "../models/m.onnx", "..": "link/m.onnx"}
    for folder, path in paths.items():
        monkeypatch.chdir(checkout / folder)
        assert lasting_path(Path(path)) == "models/m.onnx"
    assert lasting_path(checkout / "models/m.onnx") == "models/m.onnx"


def test_a_linked_model_keeps_its_name(checkout: Path) -> None:
    assert lasting_path(checkout / "models/latest.onnx") == "models/latest.onnx"


def test_a_work_tree_and_an_inner_repository_are_repositories(checkout: Path) -> None:
    (checkout / "models/.git").write_text("gitdir: ../.git/worktrees/x\n")
    assert lasting_path(checkout / "models/m.onnx") == "m.onnx"


def test_elsewhere_it_begins_at_the_cache_or_the_working_directory(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = checkout.parent
    monkeypatch.chdir(outside)
    assert lasting_path(outside / "cache/tilescope/models/ab/m.onnx") == "models/ab/m.onnx"
    assert lasting_path(Path("a/m.onnx")) == "a/m.onnx"
    assert lasting_path(Path("/nowhere/m.onnx")) == "/nowhere/m.onnx"
