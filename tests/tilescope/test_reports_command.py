"""``tilescope reports``: folders, all that is known, filters, orders, and answers for scripts."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from tests.generated_report import generate_report

from tilescope.analyser.summary.overview import report_overview
from tilescope.main import main
from tilescope.reports import open_report

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _own_catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILESCOPE_CATALOGUE_DIR", str(tmp_path / "catalogue"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "runs"
    generate_report(root / "short", n_tiles=8, n_steps=24, n_variables=5, seed=1)
    generate_report(root / "long", n_tiles=8, n_steps=200, n_variables=5, seed=2)
    generate_report(root / "pair", n_tiles=8, n_ipus=2, n_steps=40, n_variables=5, seed=3)
    shutil.copytree(root / "short", root / "broken")
    os.truncate(root / "broken/profile.pop", 5000)
    for second, name in enumerate(("short", "long", "pair", "broken")):
        os.utime(root / name / "profile.pop", (1_700_000_000 + second,) * 2)
    return root


def _json(capsys: Capture, *arguments: str) -> dict[str, list[dict[str, object]]]:
    assert main(["reports", *arguments, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert isinstance(answer, dict)
    return answer


def _names(answer: dict[str, list[dict[str, object]]]) -> list[str]:
    return [Path(str(row["path"])).parent.name for row in answer["reports"]]


def test_rows_are_those_of_the_reports(folder: Path, capsys: Capture) -> None:
    answer = _json(capsys, str(folder))
    assert _names(answer) == ["broken", "pair", "long", "short"]
    row = answer["reports"][1]
    with open_report(folder / "pair") as report:
        overview = report_overview(report)
    assert {name: row[name] for name in vars(overview)} == vars(overview)
    assert row["state"] == "complete"
    assert row["size_bytes"] == (folder / "pair/profile.pop").stat().st_size
    assert row["modified_s"] == 1_700_000_002
    broken = answer["reports"][0]
    assert (broken["state"], broken["model"], broken["cycles"]) == ("damaged", None, None)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["--search", "LONG"], ["long"]),
        (["--search", "gc200 runs"], ["pair", "long", "short"]),
        (["--search", "nothing"], []),
        (["--state", "damaged"], ["broken"]),
        (["--sort", "name"], ["broken", "long", "pair", "short"]),
        (["--sort", "cycles"], None),
        (["--sort", "size"], None),
    ],
)
def test_filters_and_orders(
    folder: Path, capsys: Capture, arguments: list[str], names: list[str] | None
) -> None:
    answer = _json(capsys, str(folder), *arguments)
    if names is not None:
        assert _names(answer) == names
        return
    key = {"cycles": "cycles", "size": "size_bytes"}[arguments[1]]
    values = [row[key] for row in answer["reports"]]
    numbers = [value for value in values if isinstance(value, int)]
    assert numbers == sorted(numbers, reverse=True)
    assert values == [*numbers, *[None] * (4 - len(numbers))]  # what has no value comes last


def test_all_lists_what_was_ever_read(
    folder: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    assert _json(capsys, "--all")["reports"] == []
    _json(capsys, str(folder))
    monkeypatch.chdir(tmp_path)
    assert sorted(_names(_json(capsys, "--all"))) == ["broken", "long", "pair", "short"]
    shutil.rmtree(folder / "long")
    for _ in range(2):  # it is forgotten
        assert sorted(_names(_json(capsys, "--all"))) == ["broken", "pair", "short"]


def test_people_read_a_table(folder: Path, capsys: Capture) -> None:
    assert main(["reports", str(folder), "--top", "2", "--sort", "name"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"4 reports below {folder}\n")
    assert "2023-11-14 22:13:21" in out
    assert "gc200" in out
    assert "2 more; --top N shows more" in out


def test_an_empty_folder_and_wrong_paths(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["reports"]) == 0
    assert "No report below ." in capsys.readouterr().out
    assert main(["reports", "missing"]) == 2
    assert "missing does not exist" in capsys.readouterr().err
    assert main(["reports", ".", "--all"]) == 2
    assert "give no PATHS with it" in capsys.readouterr().err
