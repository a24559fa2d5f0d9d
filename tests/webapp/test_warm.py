"""The warm-up asks what the first pages ask, and leaves errors to them."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from tests.generated_report import generate_report

from tilescope.webapp import warm
from tilescope.webapp.library import Library


def test_the_first_report_is_warmed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    generate_report(tmp_path / "a", n_tiles=8, n_steps=24, n_variables=5)
    library = Library([tmp_path])
    with caplog.at_level(logging.DEBUG, logger=warm.__name__):
        warm.warm_in_background(library).join()
    assert caplog.records == []
    library.close()


def test_a_damaged_report_is_left_to_its_page(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = generate_report(tmp_path / "a", n_tiles=8, n_steps=24, n_variables=5)
    path.write_bytes(path.read_bytes()[:5000])
    with caplog.at_level(logging.DEBUG, logger=warm.__name__):
        warm.warm_in_background(Library([tmp_path])).join()
    assert [record.message for record in caplog.records] == ["warm-up failed"]
