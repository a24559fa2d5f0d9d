"""The logic of the pages' scripts, tested with Node's test runner."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tilescope.analyser.quantities import format_bytes
from tilescope.analyser.search import DRAWN, search_words, words_fit

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BYTES = (0, 1, 999, 1023, 1024, 1075, 1536, 638_976, 2**20 - 1, 2**20, 900 * 2**20, 2**40, -2048)
TEXTS = (
    *("", "conv", "CONV 1", "1 conv", "Sync (hand over)", "(conv1)", "a → b", "→", "%", "( )"),
    *("layer/0", '"quoted"', "n…d", "x, y: z", "conv(1)", "É", "hand  over\t", DRAWN),
)
LABELS = ("Conv layer/0/conv1", "Sync hand over", "a b", "100 %", "x y z", "", "conv(1) É é")


def node() -> str:
    """Return the Node of this environment, or the one on the path."""
    of_environment = Path(sys.executable).parent / "node"
    found = str(of_environment) if of_environment.exists() else shutil.which("node")
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("Node is missing: make setup installs it")
        pytest.skip("Node is missing: make setup installs it")
    return found


@pytest.mark.parametrize("file", sorted(path.name for path in HERE.glob("*.test.js")))
def test_scripts_of_the_pages(file: str) -> None:
    texts = json.dumps([[number, format_bytes(number)] for number in BYTES])
    searches = json.dumps(
        [
            [text, label, search_words(text), words_fit(search_words(text), label)]
            for text in TEXTS
            for label in LABELS
        ]
    )
    done = subprocess.run(
        [node(), "--test", "--test-reporter=tap", HERE / file],
        cwd=ROOT,
        env={**os.environ, "BYTES_AS_TEXT": texts, "SEARCHES": searches, "FORCE_COLOR": "0"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\n# fail 0\n" in done.stdout
    assert "\n# skipped 0\n" in done.stdout


def test_the_lock_of_the_checking_tools_names_no_registry() -> None:
    tools = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))
    lock = json.loads((ROOT / "package-lock.json").read_text(encoding="utf-8"))
    wanted = tools["devDependencies"]
    assert all(version[0].isdigit() for version in wanted.values())
    found = {name: lock["packages"][f"node_modules/{name}"]["version"] for name in wanted}
    assert found == wanted
    assert [name for name, package in lock["packages"].items() if "resolved" in package] == []
