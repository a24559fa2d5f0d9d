"""tilescope doctor: the installation and the fidelity table."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilescope.engine.fidelity import packaged_version
from tilescope.engine.fidelity.corpus_text import as_spread
from tilescope.engine.host.jit import code_files
from tilescope.main import main


def answer_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["doctor", *arguments, "--json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_it_lists_what_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    answer = answer_of(capsys)
    assert answer["python"] == platform.python_version()
    assert answer["packages"]["numpy"] == np.__version__
    assert [machine["name"] for machine in answer["machines"]] == ["bow", "c600", "gc2", "gc200"]
    assert answer["machines"][2]["n_tiles"] == 1216
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert answer["kernel_cache"] in text
    assert np.__version__ in text
    assert "638,976" in text


@pytest.mark.parametrize("below", [".", "missing"])
def test_it_says_why_the_kernels_folder_is_not_used(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    below: str,
) -> None:
    monkeypatch.setattr(code_files, "cache_folder", lambda: tmp_path / "kernels" / below)
    assert answer_of(capsys)["kernel_cache_problem"] is None
    (tmp_path / "kernels").mkdir()
    assert answer_of(capsys)["kernel_cache_problem"] is None
    (tmp_path / "kernels").chmod(0o777)
    problem = answer_of(capsys)["kernel_cache_problem"]
    assert problem.startswith(f"{tmp_path / 'kernels'} may be written by other users; run `chmod")
    assert main(["doctor"]) == 0
    assert "Not used: " in capsys.readouterr().out


def test_without_the_engine_it_still_answers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilescope.commands.doctor.find_spec", lambda _: None)
    assert answer_of(capsys)["kernel_cache"] is None
    assert main(["doctor"]) == 0
    assert "needs tilescope[engine]" in capsys.readouterr().out


def test_fidelity_shows_published_and_simulated_figures(capsys: pytest.CaptureFixture[str]) -> None:
    answer = answer_of(capsys, "--fidelity")
    (row,) = (r for r in answer["rows"] if r["id"] == "C5")
    assert (row["published"], row["verdict"], row["counted"]) == (8488, "within", True)
    assert answer["score"]["n_counted"] == 14
    assert main(["doctor", "--fidelity"]) == 0
    text = capsys.readouterr().out
    assert f"{answer['score']['n_within']} are within all their tolerances" in text
    needs = next(r["needs"] for r in answer["rows"] if r["verdict"] == "open")
    assert f"open: needs {needs}" in text
    for line in answer["not_modelled"]:
        assert line in text


def test_fidelity_shows_expected_errors_by_kind(capsys: pytest.CaptureFixture[str]) -> None:
    answer = answer_of(capsys, "--fidelity")
    assert answer["fidelity_version"] == packaged_version()
    kinds = {(kind["kind"], kind["machine"]): kind for kind in answer["kinds"]}
    products = kinds["products", "gc200"]
    assert products["n_complete"] == 27
    assert products["cycles"] >= 1
    assert kinds["CTC loss", "gc2"]["missing"] == []
    assert kinds["octave convolutions", "gc2"]["missing"] == ["octave convolutions"]
    assert main(["doctor", "--fidelity"]) == 0
    text = capsys.readouterr().out
    assert f"Version of the table: {packaged_version()}." in text
    row = next(line for line in text.splitlines() if line.startswith("products") and "200" in line)
    assert as_spread(products["cycles"]) in row
    assert as_spread(products["memory"]) in row
    assert "27 of 27" in row
