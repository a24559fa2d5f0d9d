"""A variable whose content nobody needs for a while lives several times, and is shown so."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.golden.recipe import GOLDEN

from tilescope import analyser, engine
from tilescope.analyser.memory.liveness import (
    curve,
    liveness_step_ids,
    step_variables,
    variable_lives,
)
from tilescope.analyser.memory.longest_lives import longest_lives
from tilescope.analyser.memory.lowered_variables import tile_variables
from tilescope.analyser.memory.variable_list import VariableFilter, list_variables
from tilescope.analyser.quantities import format_lives
from tilescope.analyser.summary.places import place_of
from tilescope.analyser.time.execution import execution
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


def test_longest_lives_are_not_always_live(
    paused: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with analyser.open(paused) as report:
        lives = longest_lives(report)
        listed = [
            row
            for row in list_variables(report, sort="lifetime").rows
            if row.n_steps and not row.is_always_live
        ]
        assert sorted(row.variable.name for row in lives.rows) == sorted(row.name for row in listed)
        assert lives.n_steps == len(curve(report))
        ran, step_ids = execution(report), liveness_step_ids(report)
        for row in lives.rows:
            at = {step for start, end in row.variable.lives for step in range(start, end)}
            assert row.share == pytest.approx(len(at) / lives.n_steps)
            assert row.byte_steps == row.variable.bytes * len(at)
            # Every step of this program is one liveness step and runs once.
            assert row.cycles == sum(int(ran.step_cycles[step_ids[step]]) for step in at)
        order = [(-row.variable.n_steps, -row.variable.bytes) for row in lives.rows]
        assert order == sorted(order)
        assert longest_lives(report, ("tile", 0), "x").rows[0].variable.name == "x"
    main(["liveness", str(paused), "--longest", "--json"])
    rows = json.loads(capsys.readouterr().out)["variables"]
    assert [row["n_steps"] for row in rows] == [row.variable.n_steps for row in lives.rows]
    main(["liveness", str(paused), "--longest", "--top", "1"])
    assert "always live are left out" in capsys.readouterr().out
    assert main(["liveness", str(paused), "--longest", "--step", "1"]) == 2
