from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tilescope.engine.models import all_models
from tilescope.main import main

Captured = pytest.CaptureFixture[str]


def test_the_list_has_every_model_on_a_line_of_its_own(capsys: Captured) -> None:
    assert main(["models", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(all_models())
    assert "\x1b" not in "".join(lines)


def test_the_json_list_marks_cached_models(
    capsys: Captured, catalogue_model: Callable[[str], Path]
) -> None:
    catalogue_model("mnist-8")
    assert main(["models", "list", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["models"]}
    assert set(rows) == set(all_models())
    assert rows["mnist-8"]["is_cached"] is True
    assert rows["mnist-8"]["inputs"] == [
        {"name": "Input3", "dtype": "float32", "shape": [1, 1, 28, 28]}
    ]


def test_fetch_prints_the_path_and_nothing_else(
    capsys: Captured, catalogue_model: Callable[[str], Path]
) -> None:
    path = catalogue_model("mnist-8")
    assert main(["models", "fetch", "mnist-8"]) == 0
    assert capsys.readouterr() == (f"{path}\n", "")
    assert main(["models", "fetch", "mnist-8", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["path"] == str(path)
    assert all(Path(companion).is_file() for companion in answer["companions"].values())


def test_an_unknown_model_is_one_sentence(capsys: Captured) -> None:
    assert main(["models", "fetch", "mnist-9"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "did you mean 'mnist-8'?" in err
