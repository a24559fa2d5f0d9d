"""The logic of the pages' scripts, tested with Node's test runner."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tilescope.analyser.quantities import format_bytes
from tilescope.analyser.search import DRAWN, search_words, words_fit
from tilescope.analyser.shown_text import shown_lines

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ASSETS = ROOT / "webapp" / "assets"
BYTES = (0, 1, 999, 1023, 1024, 1075, 1536, 638_976, 2**20 - 1, 2**20, 900 * 2**20, 2**40, -2048)
TEXTS = (
    *("", "conv", "CONV 1", "1 conv", "Sync (hand over)", "(conv1)", "a → b", "→", "%", "( )"),
    *("layer/0", '"quoted"', "n…d", "x, y: z", "conv(1)", "É", "hand  over\t", DRAWN),
)
#: Lines, halves of characters, and all characters where marks that do not show are found.
RAW_TEXTS = (
    *("conv", "größe → 2", "שלום", "a\n\tb\r"),
    *("a\ud800b", "\U0001f600\u200d", "\U000e0041\U000f0000"),
    *("".join(map(chr, block)) for block in (range(0x900), range(0x1800, 0x2100))),
    "".join(map(chr, (0xE000, 0xFEFF, 0xFFF9, 0xFFFB, 0x110BD, 0x1D173))),
)
LABELS = ("Conv layer/0/conv1", "Sync hand over", "a b", "100 %", "x y z", "", "conv(1) É é")


def node() -> str:
    """Return the Node of this environment, or the one on the path."""
    of_environment = Path(sys.executable).parent / "node"
    actual = str(of_environment) if of_environment.exists() else shutil.which("node")
    if actual is None:
        if os.environ.get("CI"):
            pytest.fail("Node is missing: make setup installs it")
        pytest.skip("Node is missing: make setup installs it")
    return actual


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
    shown_texts = json.dumps([[text, shown_lines(text)] for text in RAW_TEXTS])
    process = subprocess.run(
        [node(), "--test", "--test-reporter=tap", HERE / file],
        cwd=ROOT,
        env={
            **os.environ,
            "BYTES_AS_TEXT": texts,
            "SEARCHES": searches,
            "SHOWN_TEXTS": shown_texts,
            "FORCE_COLOR": "0",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert "\n# fail 0\n" in process.stdout
    assert "\n# skipped 0\n" in process.stdout


def test_answers_are_read_in_one_place() -> None:
    """A name that disguises itself is replaced where an answer is read, see shown_text.js."""
    results = {
        str(path.relative_to(ASSETS)): re.findall(
            r"\.json\(\)|JSON\.parse\(", path.read_text("utf-8")
        )
        for path in ASSETS.rglob("*.js")
    }
    assert {name: calls for name, calls in results.items() if calls} == {
        "shown_text.js": ["JSON.parse("],
        "frame.js": ["JSON.parse("],  # what webapp/frame.py has replaced already
        "home.js": ["JSON.parse("],  # what the browser itself has stored
    }


def test_the_lock_of_the_checking_tools_names_no_registry() -> None:
    tools = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))
    lock = json.loads((ROOT / "package-lock.json").read_text(encoding="utf-8"))
    expected = tools["devDependencies"]
    assert all(version[0].isdigit() for version in expected.values())
    results = {name: lock["packages"][f"node_modules/{name}"]["version"] for name in expected}
    assert results == expected
    assert [name for name, package in lock["packages"].items() if "resolved" in package] == []
