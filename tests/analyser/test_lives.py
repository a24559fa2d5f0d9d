"""A variable whose content nobody needs for a while lives several times, and is shown so."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.golden.recipe import GOLDEN

from tilescope import analyser, engine
from tilescope.analyser.memory.liveness import curve, step_variables, variable_lives
from tilescope.analyser.memory.lowered_variables import tile_variables
from tilescope.analyser.memory.variable_list import VariableFilter, list_variables
from tilescope.analyser.quantities import format_lives
from tilescope.analyser.summary.places import place_of
from tilescope.engine.graph import ROOT
from tilescope.engine.library.popops.elementwise.operations import unary
from tilescope.engine.program import Sequence, StreamCopyIn, StreamCopyOut
from tilescope.main import main


@pytest.fixture(scope="module")
def paused(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that reads a variable, computes something else, and writes it anew."""
    directory = tmp_path_factory.mktemp("paused")
    graph = engine.Graph(engine.load_machine("gc200", tiles_per_ipu=4))
    x, peer = (graph.add_variable("float32", (256,), name) for name in ("x", "other"))
    graph.map_linearly(x)
    graph.map_linearly(peer)
    program = Sequence("main", [StreamCopyIn("first", x)])
    builder = engine.Builder(graph, program, ROOT)
    program.add(StreamCopyOut(unary(builder, "exp", x), "one"))
    program.add(StreamCopyIn("between", peer))
    program.add(StreamCopyOut(unary(builder, "sqrt", peer), "two"))
    program.add(StreamCopyIn("again", x))
    program.add(StreamCopyOut(unary(builder, "tanh", x), "three"))
    options = {"autoReport.all": True, "autoReport.directory": str(directory)}
    executable = engine.compile_programs(graph, [program])
    with engine.Engine(executable, engine.resolve_options(code=options)) as device:
        for stream in ("first", "between", "again"):
            device.connect_stream(stream, np.ones(256, np.float32))
        for stream in ("one", "two", "three"):
            device.connect_stream(stream, np.zeros(256, np.float32))
        device.run()
    return directory / "profile.pop"


def test_a_pause_is_no_life(paused: Path) -> None:
    with analyser.open(paused) as report:
        (row,) = (row for row in list_variables(report).rows if row.name == "x")
        (first, second) = row.lives
        assert first[1] < second[0]
        assert row.n_steps == (first[1] - first[0]) + (second[1] - second[0])
        between = list_variables(report, VariableFilter(step=first[1])).rows
        assert "x" not in {row.name for row in between}
        position = place_of(report, "variable:x")
        assert f"live in steps {format_lives(row.lives)}" in position.detail
        parts = tile_variables(report, 0)
        of_x = [(int(parts.start_step[i]), int(parts.end_step[i]))
                for i, name in enumerate(parts.name) if name == "x"]  # fmt: skip
        assert sorted(of_x) == [first, second]


def test_the_command_prints_every_life(paused: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["variables", str(paused), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["variables"]
    (lives,) = (row["lives"] for row in rows if row["name"] == "x")
    assert len(lives) == 2
    assert main(["variables", str(paused), "--search", "x"]) == 0
    assert format_lives([tuple(life) for life in lives]) in capsys.readouterr().out


@pytest.mark.parametrize("name", ["paused", "golden"])
def test_lives_are_the_steps_at_which_it_is_live(name: str, request: pytest.FixtureRequest) -> None:
    path = request.getfixturevalue("paused") if name == "paused" else GOLDEN
    with analyser.open(path) as report:
        always = {row.variable_id for row in list_variables(report).rows if row.is_always_live}
        for step in range(len(curve(report))):
            live = set(step_variables(report, step).variable_id.tolist())
            expected = {
                number
                for number, lives in variable_lives(report).items()
                if any(start <= step < end for start, end in lives)
            }
            assert live == expected - always


def test_many_lives_are_counted() -> None:
    lives = [(n, n + 2) for n in range(0, 60, 10)]
    assert format_lives(lives) == "0 to 1, 10 to 11, 20 to 21, 30 to 31 and 2 more"
    assert format_lives([(3, 4)]) == "3"
    assert format_lives([]) == "–"
