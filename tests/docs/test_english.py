"""The tree uses the field's terms; phrases that read as translated must not return.

Every entry is a pattern and its replacement. A space in a pattern also matches a line break, the
marks of a comment and the quotes between two parts of a string. Patterns ignore case unless they
hold a capital letter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = (
    "analyser",
    "compat",
    "docker",
    "docs",
    "engine",
    "examples",
    "reports",
    "tests",
    "tilescope",
    "webapp",
)
SUFFIXES = {"", ".css", ".html", ".js", ".json", ".md", ".py", ".sh", ".toml"}

#: Third-party code, sentences of PopART's that are quoted word for word, and this file.
EXEMPT = {
    ROOT / "CHANGELOG.md",
    ROOT / "compat/popart/node_refusals/quotation.py",
    Path(__file__),
}

REPLACEMENTS = {
    r"house is built": "architecture",
    r"obey the variables?": "honour the variable",
    r"goes before (?:it|them|that)": "takes precedence over it",
    r"wins? over": "takes precedence over",
    r"(?:is|are) not there": "is not supported, is missing, does not exist",
    r"(?:is|are) there already": "already exists",
    r"operators that are there": "supported operators",
    r"an element of \S+ several times": "the view aliases elements of 'x'",
    r"an element several times": "the view aliases elements",
    r"layouts do not divide": "strides are incompatible",
    r"give a text": "expected a string",
    r"is no tensor": "is not a tensor",
    r"of one's own": "custom",
    r"IPUs cannot be": "n_ipus must be between 1 and 64",
    r"too deep in each other": "nested too deeply",
    r"nests? too deep\b": "is nested too deeply",
    r"without a cause": "may vary between identical runs",
    r"Another (?:machine|model file|target)": "Machine changed",
    r"Other (?:options|versions)": "Options changed, Versions changed",
    r"there is no such": "unknown, does not exist",
    r"another site may not": "cross-origin request refused",
    r"know the gaps": "memory lost to gaps",
    r"live besides": "also live at the peak",
    r"[\"']Of all[\"']": "% of total",
    r"in which vertices compute": "compute cycles",
    r"what it is worth": "how accurate it is",
    r"alone is too little": "underestimates",
    r"(?:is|are|was|were|be|been|has|have) worked out": "computed",
    r"works? out": "compute",
    r"worked out": "computed",
    r"by hand": "with the graph API, manually, hand-computed",
    r"clock on the wall": "wall-clock time",
    r"percent_of_base\b": "percent_of_baseline",
}

#: What names two reports source and target, in labels, columns, classes and identifiers.
_SOURCE_AND_TARGET = re.compile(
    r"""["'](?:Source|Target)["'\s,:]"""
    r"""|\b(?:only in|from|swap|the) (?:source|target)\b"""
    r"""|\b(?:report|report-label|side)-(?:source|target)\b"""
    r"""|\b(?:SOURCE|TARGET)_COLOUR\b"""
    r"""|_column\(\s*["'](?:source|target)["']""",
)


def _compiled(pattern: str) -> re.Pattern[str]:
    """Return a pattern whose spaces match line breaks, comment marks and string joints."""
    gap = r"""(?:\s|[#*"'`]|//|(?<=["'\s])f(?=["']))+"""
    flags = 0 if re.search(r"(?<!\\)[A-Z]", pattern) else re.IGNORECASE
    return re.compile(r"(?<![\w-])" + pattern.replace(" ", gap), flags)


def _texts() -> Iterator[Path]:
    """Yield the text files of the tree."""
    yield from (path for path in ROOT.iterdir() if path.suffix in SUFFIXES and path.is_file())
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            is_ours = not {"golden", "node_modules", "__pycache__", "vendor"} & set(path.parts)
            is_ours = is_ours and not path.name.endswith(".min.js")
            if is_ours and path.is_file() and path.suffix in SUFFIXES:
                yield path


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """Return the tree's texts by path."""
    return {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8", errors="replace")
        for path in _texts()
        if path not in EXEMPT
    }


@pytest.mark.parametrize("pattern", REPLACEMENTS)
def test_phrase_is_gone(pattern: str, texts: dict[str, str]) -> None:
    compiled = _compiled(pattern)
    results = [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]!r}"
        for name, text in texts.items()
        for match in compiled.finditer(text)
    ]
    assert results == [], f"write instead: {REPLACEMENTS[pattern]}"


def test_pages_name_two_reports_baseline_and_candidate(texts: dict[str, str]) -> None:
    results = [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]!r}"
        for name, text in texts.items()
        if name.startswith("webapp/")
        for match in _SOURCE_AND_TARGET.finditer(text)
    ]
    assert results == [], "write instead: baseline, candidate"


@pytest.mark.parametrize(
    "text",
    ['html.Th("Source")', "swap source and", "report-label-target", 'bytes_column("target", "T")'],
)
def test_source_and_target_are_found(text: str) -> None:
    assert _SOURCE_AND_TARGET.search(text)


@pytest.mark.parametrize(
    "text",
    [
        "it goes before it",
        'f"it goes"\n    f" before it"',
        "# it goes\n    # before it",
        "/* Goes before\n * it */",
    ],
)
def test_a_broken_phrase_is_found(text: str) -> None:
    assert _compiled(r"goes before (?:it|them|that)").search(text)
