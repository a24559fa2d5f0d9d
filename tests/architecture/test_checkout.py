"""The checkout holds what belongs to the project: no output of a run is among its files."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = {
    ".ci", "analyser", "compat", "docker", "docs", "engine", "examples", "reports", "tests",
    "tilescope", "webapp",
}  # fmt: skip
FILES = {
    ".dockerignore", ".gitignore", ".npmrc", ".pre-commit-config.yaml", "CHANGELOG.md",
    "CONTRIBUTING.md", "Dockerfile", "LICENSE", "Makefile", "README.md", "SECURITY.md",
    "action.yml", "constraints.txt", "eslint.config.mjs", "package-lock.json", "package.json",
    "pyproject.toml", "tsconfig.json",
}  # fmt: skip


@pytest.mark.skipif(
    shutil.which("git") is None or not (ROOT / ".git").exists(),
    reason="only a checkout knows which files belong to the project",
)
def test_nothing_else_lies_at_the_top() -> None:
    command = ["git", "-C", str(ROOT), "ls-files", "-z"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    paths = [path for path in listed.split("\0") if path]
    assert {path.split("/")[0] for path in paths if "/" in path} == FOLDERS
    assert {path for path in paths if "/" not in path} == FILES
