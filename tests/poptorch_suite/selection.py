"""A pytest plugin that takes evenly spaced tests of a file, and limits the time of a test."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

#: Tests of a file at most, and seconds that one may take; 0 is all, and any time.
_MOST, _SECONDS = "TILESCOPE_POPTORCH_MOST", "TILESCOPE_POPTORCH_SECONDS"

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
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    if items:
        line = {"test": items[0].nodeid.split("::")[0], "tests": len(items)}
        with Path(os.environ["TILESCOPE_POPART_OUTCOMES"]).open("a") as file:
            file.write(json.dumps(line) + "\n")
    items[:] = chosen


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Write which tests need hardware."""
    with Path(os.environ["TILESCOPE_POPART_OUTCOMES"]).open("a") as file:
        for item in items:
            if any(item.iter_markers("ipuHardwareRequired")):
                line = {"test": item.nodeid, "outcome": "hardware", "error": ""}
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
