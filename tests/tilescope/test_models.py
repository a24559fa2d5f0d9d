from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from engine.errors import ModelNotAvailable
from engine.models import all_models
from tilescope.commands import models


@pytest.fixture
def app() -> typer.Typer:
    front_door = typer.Typer()
    models.register(front_door)
    return front_door


def test_the_list_has_every_model_and_no_escape_codes(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, ["models", "list"])
    assert result.exit_code == 0
    assert all(name in result.output for name in all_models())
    assert "\x1b" not in result.output
    assert "…" not in result.output


def test_the_list_as_json_says_what_is_here(
    app: typer.Typer, catalogue_model: Callable[[str], Path]
) -> None:
    catalogue_model("mnist-8")
    result = CliRunner().invoke(app, ["models", "list", "--json"])
    rows = {row["name"]: row for row in json.loads(result.stdout)["models"]}
    assert set(rows) == set(all_models())
    assert rows["mnist-8"]["is_cached"] is True
    assert rows["mnist-8"]["inputs"] == [
        {"name": "Input3", "dtype": "float32", "shape": [1, 1, 28, 28]}
    ]


def test_fetch_prints_the_path_and_nothing_else(
    app: typer.Typer, catalogue_model: Callable[[str], Path]
) -> None:
    path = catalogue_model("mnist-8")
    result = CliRunner().invoke(app, ["models", "fetch", "mnist-8"])
    assert result.stdout == f"{path}\n"
    assert result.stderr == ""
    as_json = json.loads(CliRunner().invoke(app, ["models", "fetch", "mnist-8", "--json"]).stdout)
    assert as_json["path"] == str(path)
    assert all(Path(companion).is_file() for companion in as_json["companions"].values())


def test_an_unknown_model_is_left_to_the_front_door(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, ["models", "fetch", "mnist-9"])
    assert isinstance(result.exception, ModelNotAvailable)
    assert result.exception.exit_code == 2
