"""Slices of the trials of `make faults`, with other seeds."""

from __future__ import annotations

import pytest
from tests.faults import interrupts, kills, races, storage


@pytest.mark.slow
def test_interrupted_programs_record_whole_runs() -> None:
    result = interrupts.run(48, seed=10_000)
    assert result["failures"] == []
    assert int(str(result["interrupted"])) > 24
    assert int(str(result["continued"])) > 4


def test_an_error_in_the_recording_thread_ends_the_report_at_a_commit() -> None:
    result = interrupts.run_in_thread(30, seed=50_000)
    assert result["failures"] == []
    assert int(str(result["lost_reports"])) > 0


def test_killed_programs_lose_no_acknowledged_run() -> None:
    result = kills.run(5, seed=20_000)
    assert result["failures"] == []
    assert int(str(result["acknowledgements"])) > 0


def test_failing_calls_of_the_storage_lose_no_acknowledged_run() -> None:
    result = storage.run_failures(12)
    assert result["failures"] == []
    assert int(str(result["calls"])) > 100


def test_full_disks_cost_no_results() -> None:
    result = storage.run_disk_full(12, seed=30_000)
    assert result["failures"] == []
    assert int(str(result["lost_reports"])) > 0


def test_a_loss_of_power_loses_no_acknowledged_run() -> None:
    result = storage.run_power_loss(25, seed=40_000)
    assert result["failures"] == []
    assert int(str(result["readable"])) > 0


def test_a_loss_of_power_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Validates the test above: with commits that are not synced, runs are gone."""
    monkeypatch.setattr(storage, "_DURABLE", "never")
    assert storage.run_power_loss(60, seed=40_000)["failures"] != []


def test_two_writers_race_for_a_directory() -> None:
    result = races.run(10)
    assert result["failures"] == []
