"""Damaged and hostile reports: what the long forms in `tests/faults` run by the thousand."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest
from tests.faults import bombs, mutants
from tests.faults.seal import reseal

import pva
from tilescope.main import main
from tilescope.reports import DamagedReport, check_report, explain_damage, open_report


def test_mutants_are_read_as_they_were_or_refused() -> None:
    failures: list[str] = []
    counts = mutants.run(n_plain=100, n_resealed=10, seed=20, tell=failures.append)
    assert failures == []
    assert counts["failures"] == 0
    assert counts["refused"] > 20
    assert counts["damaged"] > 20
    assert counts["slowest_s"] < 2


@pytest.mark.slow
def test_files_that_grow_are_refused_before_they_do() -> None:
    answers = bombs.run()
    assert len(answers) > 60
    for name, answer in answers.items():
        is_read = name == "sound" or "log" in name or "1 TiB" in name
        if is_read and not name.startswith("2 GiB"):
            assert answer["outcome"] == "read", name
        else:
            assert answer["outcome"] in ("damaged_report", "not_a_report"), name
        assert float(answer["mebibytes"]) < bombs.LIMIT_MEBIBYTES, name


@pytest.fixture
def inconsistent(small_report: Path) -> Path:
    """A report under valid digests whose programs contradict each other, and nothing checks it."""
    connection = apsw.Connection(str(small_report))
    connection.execute("UPDATE program SET n_children = n_children + 1 WHERE program_id = 0")
    reseal(connection)
    connection.close()
    return small_report


def test_an_unexpected_error_of_a_sound_report_stays(small_report: Path) -> None:
    with (
        open_report(small_report) as report,
        pytest.raises(KeyError, match="a bug"),
        explain_damage(report),
    ):
        raise KeyError("a bug")


def test_an_unexpected_error_of_an_inconsistent_report_is_about_the_report(
    inconsistent: Path,
) -> None:
    assert check_report(inconsistent)
    with (
        open_report(inconsistent) as report,
        pytest.raises(DamagedReport, match=r"is damaged: Program 0 declares") as caught,
        explain_damage(report),
    ):
        raise KeyError("a bug")
    assert isinstance(caught.value.__cause__, KeyError)


def test_an_expected_error_of_an_inconsistent_report_stays(inconsistent: Path) -> None:
    with (
        open_report(inconsistent) as report,
        pytest.raises(FileNotFoundError),
        explain_damage(report),
    ):
        raise FileNotFoundError


@pytest.mark.parametrize(("is_sound", "code"), [(True, 70), (False, 2)])
def test_a_command_ends_in_70_only_for_a_sound_report(
    inconsistent: Path,
    small_bytes: bytes,
    is_sound: bool,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object) -> None:
        raise IndexError("a bug")

    if is_sound:
        inconsistent.write_bytes(small_bytes)
    monkeypatch.setenv("XDG_STATE_HOME", str(inconsistent.parent))
    monkeypatch.setattr("tilescope.analyser.summary.summarise.summarise", fail)
    assert main(["summary", str(inconsistent)]) == code
    message = capsys.readouterr().err
    assert ("internal error" if is_sound else "Program 0 declares") in message
    assert message.count("\n") == 1


def test_pva_explains_errors_by_the_damage_of_its_report(
    inconsistent: Path, small_bytes: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise IndexError("a bug")

    monkeypatch.setattr("pva.compilation.program_of", fail)
    monkeypatch.setattr("pva.compilation.compute_sets", fail)
    with pva.openReport(inconsistent) as report:
        with pytest.raises(DamagedReport, match="Program 0 declares"):
            repr(report.compilation.computeSets)
        programs = report.compilation.programs
        with pytest.raises(DamagedReport, match="Program 0 declares"):
            programs[0]
        with pytest.raises(DamagedReport, match="Program 0 declares"):
            list(programs)
        with pytest.raises(IndexError, match="outside a list"):
            programs[len(programs)]
    inconsistent.write_bytes(small_bytes)
    with pva.openReport(inconsistent) as report, pytest.raises(IndexError, match="a bug"):
        report.compilation.programs[0]
