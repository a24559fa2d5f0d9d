"""Models made to break their reader, through the command line."""

from __future__ import annotations

import random
from pathlib import Path

import onnx
import pytest
from tests.faults.hostile_models import HOSTILE_FILES, HOSTILE_MODELS, addition, renamed
from tests.faults.models import hostile_folder, mutated, outcome, write_hostile

from tilescope.engine import load_onnx
from tilescope.engine.errors import BadModel
from tilescope.engine.frontend.onnx.source.long_names import MOST_CHARACTERS, shorten_names
from tilescope.main import main
from tilescope.reports import check_report, open_report
from tilescope.reports.schema import variable

_RUN = ("run", "--no-report", "--quiet", "--tiles", "4")
_CHECK = ("models", "check")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    hostile_folder(tmp_path / "models")
    return tmp_path / "models"


@pytest.mark.parametrize("command", [_RUN, _CHECK], ids=["run", "check"])
@pytest.mark.parametrize("name", [*HOSTILE_FILES, *HOSTILE_MODELS])
def test_a_hostile_model_ends_in_a_sentence(
    folder: Path, command: tuple[str, ...], name: str
) -> None:
    write_hostile(name, folder / "model.onnx")
    end = outcome(command, folder / "model.onnx")
    # The first command of a process also imports the engine.
    assert end.problem in {"", "slow"}, end


@pytest.mark.parametrize("seed", range(4))
def test_a_mutated_model_ends_in_a_sentence(folder: Path, seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(40):
        (folder / "model.onnx").write_bytes(mutated(draw))
        for command in (_RUN, _CHECK):
            end = outcome(command, folder / "model.onnx")
            assert end.problem in {"", "slow"}, end


@pytest.mark.parametrize("name", ["strings", "constant of text"])
def test_text_for_the_device_is_refused_by_name(folder: Path, name: str) -> None:
    write_hostile(name, folder / "model.onnx")
    with pytest.raises(BadModel, match="'k"):
        load_onnx(folder / "model.onnx")


def test_a_model_with_long_names_runs_and_its_report_is_sound(tmp_path: Path) -> None:
    model = addition()
    for number, part in enumerate(("x", "k", "y", "node")):
        renamed(part, "n" * (1 << 20) + f"{number}")(model)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    report = tmp_path / "report"
    assert main(["run", str(tmp_path / "model.onnx"), "--tiles", "4", "--report", str(report)]) == 0
    assert not check_report(report)
    with open_report(report) as opened:
        names = opened.column(variable, "name")
    assert max(map(len, names)) < 2 * MOST_CHARACTERS


def test_a_shortened_name_is_the_same_wherever_it_stands() -> None:
    model = addition()
    HOSTILE_MODELS["name of 1 MB: k"](model)
    shorten_names(model)
    (weight,), (node,) = model.graph.initializer, model.graph.node
    assert weight.name == node.input[1]
    assert len(weight.name) < MOST_CHARACTERS
    onnx.checker.check_model(model)
    peer = addition()
    peer.graph.node[0].name = "n" * (1 << 20) + "m"
    shorten_names(peer)
    assert peer.graph.node[0].name != weight.name


@pytest.mark.parametrize("name", ["a\0b", "l" * 5_000, "l/" * 5_000], ids=["NUL", "name", "path"])
def test_a_path_that_names_no_file_is_refused(name: str) -> None:
    for command in (_RUN, _CHECK):
        end = outcome(command, Path(name))
        assert end.code == 2
        assert not end.problem, end
