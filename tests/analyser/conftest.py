"""Small reports, opened once for all query tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.analyser.small_report import Shape, write_small_report

from tilescope import analyser
from tilescope.reports import Report


@pytest.fixture(scope="session")
def small_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory for small reports."""
    return tmp_path_factory.mktemp("small")


@pytest.fixture(scope="session")
def small(small_directory: Path) -> Iterator[Report]:
    """Return the unmodified small report."""
    with analyser.open(write_small_report(small_directory / "small")) as report:
        yield report


@pytest.fixture
def variation(tmp_path: Path) -> Iterator[Callable[[Shape], Report]]:
    """Return a function that opens variations of the small report."""
    opened: list[Report] = []

    def open_variation(shape: Shape) -> Report:
        path = write_small_report(tmp_path / str(len(opened)), shape)
        opened.append(analyser.open(path))
        return opened[-1]

    yield open_variation
    for report in opened:
        report.close()
