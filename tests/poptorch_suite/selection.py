"""A pytest plugin: some tests of a file, evenly spaced, for a limited time; and why they fail.

Outcomes are those of `tests.popart_suite.outcomes`, and: ``hardware`` is needed; a ``package`` is
missing; ``text`` of PopART's log or its graph is looked for; ``left out`` of the selection.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

#: Tests of a file at most, and seconds that one may take; 0 is all, and any time.
_MOST, _SECONDS = "TILESCOPE_POPTORCH_MOST", "TILESCOPE_POPTORCH_SECONDS"

#: Words of errors where a package or its download is missing.
_PACKAGES = ("No module named", "couldn't connect to", "ConnectionError")

#: Functions of PopTorch's tests that look for lines in the log.
_OF_LOGS = (
    "findNext",
    "findAll",
    "assert_contains",
    "assert_contains_after",
    "assert_matches",
    "assert_not_contains",
    "assert_no_matches",
    "assert_isEmpty",
)

_Item = TypeVar("_Item")


class TookTooLongError(Exception):
    """A test took longer than the run allows."""


def evenly_spaced(items: Sequence[_Item], most: int) -> list[_Item]:
    """Return as many items of a sequence, evenly spaced from the first on.

    Parameters
    ----------
    items
        The sequence.
    most
        How many at most; 0 for all.
    """
    if not most or len(items) <= most:
        return list(items)
    return [items[index * len(items) // most] for index in range(most)]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the selection, and write how many the file has."""
    chosen = evenly_spaced(items, int(os.environ.get(_MOST, "0")))
    kept = {id(item) for item in chosen}
    left_out = [item for item in items if id(item) not in kept]
    config.hook.pytest_deselected(items=left_out)
    for item in left_out:
        _write({"test": item.nodeid, "outcome": "left out", "error": ""})
    items[:] = chosen


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Write which tests need hardware."""
    for item in items:
        if any(item.iter_markers("ipuHardwareRequired")):
            _write({"test": item.nodeid, "outcome": "hardware", "error": ""})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[Any],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tell what a test that failed looked for, if it is nothing that a program can see."""
    report = yield
    error = call.excinfo
    if error is not None and report.failed:
        text = f"{error.typename}: {error.value}"
        if any(words in text for words in _PACKAGES):
            vars(report)["told"] = "package"
        elif "_debugGetPopartIR" in text or any(
            Path(str(entry.path)).name == "helpers.py" and entry.name in _OF_LOGS
            for entry in error.traceback
        ):
            vars(report)["told"] = "text"
    return report


def _write(line: dict[str, Any]) -> None:
    with Path(os.environ["TILESCOPE_POPART_OUTCOMES"]).open("a") as file:
        file.write(json.dumps(line) + "\n")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """End a test that takes too long."""
    seconds = int(os.environ.get(_SECONDS, "0"))

    def stop(*_: Any) -> None:
        raise TookTooLongError(f"{item.name} took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        return (yield)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
