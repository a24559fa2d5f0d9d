"""The tests of a change: those called after a file first, then those that import it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.quick.choice import GOLDEN_PATH, chosen, near_tests

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("changed", "first"),
    [
        ("analyser/search.py", "tests/analyser/test_search.py"),
        ("reports/reading/side_files.py", "tests/reports/"),
        ("tests/analyser/test_search.py", "tests/analyser/test_search.py"),
        ("docs/how-to/install.md", "tests/docs"),
        ("webapp/assets/search.js", "tests/javascript/test_scripts.py"),
        ("compat/pva/__init__.py", "tests/pva"),
        ("tests/onnx_fuzz/one_node.py", "tests/onnx_fuzz/"),
        ("tests/webapp/conftest.py", "tests/webapp"),
    ],
)
def test_the_tests_of_a_change_begin_with_its_own(changed: str, first: str) -> None:
    assert near_tests([changed], ROOT)[0].startswith(first)


def test_a_file_without_tests_has_none() -> None:
    assert near_tests(["LICENSE", "webapp/assets/icons/tilescope.svg"], ROOT) == []


def test_what_does_not_fit_is_counted() -> None:
    tests = ["short", "long", "unknown"]
    assert chosen(tests, {"short": 10.0, "long": 40.0}) == (["short", "unknown"], 1)


def test_the_golden_path_is_there() -> None:
    for position in GOLDEN_PATH:
        assert (ROOT / position.partition("::")[0]).exists(), position
