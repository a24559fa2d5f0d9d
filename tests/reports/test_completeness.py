"""Verification in parts, and the refusal of reports from which nothing may be decided."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.analyser.small_report import Shape, write_small_report
from tests.generated_report import generate_report

from tilescope.reports import (
    DamagedReport,
    ReportIncomplete,
    State,
    open_report,
    require_complete,
)

_ZSTD = b"\x28\xb5\x2f\xfd"


def _damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[data.rindex(_ZSTD) + 6] ^= 255
    path.write_bytes(data)


def test_a_complete_report_is_accepted_and_verified_once(tmp_path: Path) -> None:
    with open_report(write_small_report(tmp_path)) as report:
        require_complete(report)
        assert report.is_verified
        report.close()
        require_complete(report)  # what was verified is not read again


def test_a_small_report_is_verified_on_request_and_a_large_one_is_not(tmp_path: Path) -> None:
    small = write_small_report(tmp_path / "small")
    large = generate_report(tmp_path / "large", n_tiles=64, n_steps=6000, n_variables=5000)
    for path, is_small in ((small, True), (large, False)):
        with open_report(path) as report:
            report.verify_if_small()
            assert report.is_verified is is_small
        _damage(path)
        with open_report(path) as report:
            report.verify_if_small()
            assert (report.state.state is State.DAMAGED) is is_small
            with pytest.raises(DamagedReport):
                require_complete(report)
            assert report.state.state is State.DAMAGED
            with pytest.raises(DamagedReport):  # once known, without reading anything
                require_complete(report)


def test_a_report_that_ended_early_is_refused(tmp_path: Path) -> None:
    path = write_small_report(tmp_path, Shape(is_finished=False))
    with open_report(tmp_path) as report, pytest.raises(ReportIncomplete) as caught:
        require_complete(report)
    message = str(caught.value)
    assert message.startswith(f"{path} ended early; its engine last wrote at ")
    assert message.endswith(": run the program again, or give the path of a complete report.")


def test_a_newer_run_counts_only_for_the_directory(tmp_path: Path) -> None:
    path = write_small_report(tmp_path)
    newer = write_small_report(tmp_path, Shape(is_finished=False))
    with open_report(path) as report:
        require_complete(report)
    with open_report(tmp_path) as report, pytest.raises(ReportIncomplete) as caught:
        require_complete(report)
    assert f"A newer run than that of {path} is {newer.name}, which ended early" in str(
        caught.value
    )


def test_verification_may_stop_in_between(tmp_path: Path) -> None:
    path = write_small_report(tmp_path)
    _damage(path)
    with open_report(path) as report:
        for number, _ in enumerate(report.verification()):
            if number == 5:
                break
        assert report.is_complete
        assert not report.is_verified
        with pytest.raises(DamagedReport):
            report.verify()
        assert not report.is_complete
