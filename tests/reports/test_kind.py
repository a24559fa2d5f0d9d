"""The kind of a report decides who takes it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.generated_report import generate_report

from tilescope import analyser
from tilescope.main import main
from tilescope.reports import ReportWriter, UnsupportedSchema, open_report
from tilescope.reports.errors import WrongKind
from tilescope.reports.kind import Kind, report_kind, require_kind
from tilescope.reports.schema import provenance
from tilescope.webapp.errors import describe_failure
from tilescope.webapp.library import Library


def _report(folder: Path, kind: str) -> Path:
    with ReportWriter.create(folder) as writer:
        writer.add(provenance, [{"key": "report_kind", "value": kind}])
        writer.commit("compiled")
        writer.finish()
    return folder


def test_a_report_without_a_kind_is_a_profile(tmp_path: Path) -> None:
    path = generate_report(tmp_path, n_tiles=8, n_steps=24, n_variables=5)
    with analyser.open(path) as report:
        assert report_kind(report) is Kind.PROFILE


@pytest.mark.parametrize("kind", Kind)
def test_commands_take_profiles_only(
    tmp_path: Path, kind: Kind, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _report(tmp_path / "report", kind)
    with open_report(path) as report:
        assert report_kind(report) is kind
        require_kind(report, [kind])
    code = main(["summary", str(path)])
    if kind is Kind.HOST_TRACE:
        assert code == 2
        assert "is of the kind host trace; this takes the kind" in capsys.readouterr().err
        with pytest.raises(WrongKind):
            analyser.open(path)
    else:
        analyser.open(path).close()


def test_a_kind_of_a_later_version_is_no_damage(tmp_path: Path) -> None:
    path = _report(tmp_path / "report", "video")
    with pytest.raises(UnsupportedSchema, match="of kind 'video'; this TileScope knows profile"):
        analyser.open(path)


def test_pages_say_that_a_report_is_of_another_kind(tmp_path: Path) -> None:
    _report(tmp_path / "reports" / "trace", Kind.HOST_TRACE)
    library = Library([tmp_path / "reports"])
    (entry,) = library.found()
    with pytest.raises(WrongKind) as refused, library.opened(entry.report_id):
        pass
    assert str(tmp_path) not in str(refused.value)
    with library.opened(entry.report_id, [Kind.HOST_TRACE]) as report:
        assert report_kind(report) is Kind.HOST_TRACE
    _, failure = describe_failure(refused.value)
    assert failure.code == "wrong_kind"
    library.close()
