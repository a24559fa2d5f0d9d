"""Compilation does not modify its inputs, and an executable never changes afterwards."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import pytest

from tilescope.engine import (
    Builder,
    Engine,
    Executable,
    Graph,
    Tensor,
    compile_programs,
    load_machine,
    resolve_options,
)
from tilescope.engine.codelets.popops.elementwise.fill import FILL
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import FLOAT32, INT32, blocks
from tilescope.engine.library.popops.elementwise.operations import binary
from tilescope.engine.program import Call, Copy, Function, If, Overlap, Program, Sequence
from tilescope.reports import open_report
from tilescope.reports.schema import (
    COST_COLUMNS,
    compute_set,
    memory_category,
    program,
    step,
    variable,
)


class Case:
    """A graph with two programs: A uses its state, B copies between tiles."""

    def __init__(self, n_io_tiles: int = 0) -> None:
        self.graph = Graph(load_machine("gc200", tiles_per_ipu=8), n_io_tiles=n_io_tiles)
        self.x, self.y, self.turned = (self._variable(name, 0) for name in "xyt")
        self.a = Sequence("a")
        self.z = binary(Builder(self.graph, self.a), "add", self.x, self.y)
        self.b: Program = Sequence("b", [Copy(self.y, self.turned.reverse(0), "turn")])

    def _variable(self, name: str, first: int) -> Tensor:
        tensor = self.graph.add_variable(FLOAT32, (64,), name)
        self.graph.map_linearly(tensor, grain=2, first=first)
        return tensor

    def state(self) -> list[object]:
        """Return everything that a compilation could modify."""
        graph = self.graph
        return [
            graph.n_plans,
            sorted(graph.codelets),
            list(graph.variables),
            [sorted(vars(variable)) for variable in graph.variables],
            [variable.map_tile.tolist() for variable in graph.variables],
            [variable.map_tile.flags.writeable for variable in graph.variables],
            list(graph.compute_sets),
            [list(actual.batches) for actual in graph.compute_sets],
        ]


def content(executable: Executable, directory: Path) -> list[object]:
    """Return the rows of a report that other compilations of the graph must not affect."""
    options = resolve_options(
        environ={}, code={"autoReport.all": "true", "autoReport.directory": str(directory)}
    )
    with Engine(executable, options) as engine:
        engine.run()
    with open_report(engine.recorder.path or directory) as opened:
        tables = (variable, compute_set, step, program, memory_category)
        costs = {name: opened.array(f"cost.{name}").read().tolist() for name in COST_COLUMNS}
        return [*(opened.table(table) for table in tables), costs]


def test_a_compilation_leaves_its_graph_alone() -> None:
    case = Case()
    before = case.state()
    compile_programs(case.graph, [case.a, case.b])
    assert case.state() == before


def test_two_compilations_of_a_graph_are_independent(tmp_path: Path) -> None:
    case, alone = Case(), Case()
    a, b = (compile_programs(case.graph, [program]) for program in (case.a, case.b))
    only_a = compile_programs(alone.graph, [alone.a])
    assert content(a, tmp_path / "a") == content(only_a, tmp_path / "only_a")
    peer = Case()
    only_b = compile_programs(peer.graph, [peer.b])
    assert content(b, tmp_path / "b") == content(only_b, tmp_path / "only_b")


def test_a_graph_can_change_after_it_was_compiled(tmp_path: Path) -> None:
    case, same = Case(), Case()
    executable = compile_programs(case.graph, [case.a])
    expected = content(compile_programs(same.graph, [same.a]), tmp_path / "same")
    case.graph.set_tile_mapping(case.x, [0], [7])
    first = case.graph.compute_sets[0]
    batch = first.batches[0]
    case.graph.add_vertices(first, batch.codelet, batch.tile, batch.fields, batch.scalars)
    case.a.children.clear()
    assert content(executable, tmp_path / "changed") == expected


def test_an_array_that_was_given_may_be_used_again() -> None:
    case = Case()
    filling = case.graph.add_compute_set("fill")
    tiles, starts = np.array([0], np.int32), np.array([0], np.int64)
    fields = {"out": blocks(case.x.variable, starts, [4], [1], 1)}
    case.graph.add_vertices(filling, FILL, tiles, fields, {"value": 1.0})
    starts[:], tiles[:] = 60, 3
    batch = filling.batches[0]
    assert batch.tile.tolist() == batch.fields["out"].start.tolist() == [0]


def test_tensors_of_the_graph_are_read_and_written_by_its_engine() -> None:
    case = Case()
    executable = compile_programs(case.graph, [case.a])
    late = case.graph.add_variable(FLOAT32, (4,), "late")
    with Engine(executable, resolve_options(environ={})) as engine:
        engine.write_tensor(case.x, np.arange(64))
        engine.write_tensor(case.y, np.ones(64))
        engine.run()
        assert engine.read_tensor(case.z).tolist() == (np.arange(64) + 1).tolist()
        local = executable.graph.variables[case.z.variable.variable_id]
        assert local is not case.z.variable
        for stranger in (late, Case().x):
            with pytest.raises(BadGraph, match="another graph, or was added after"):
                engine.read_tensor(stranger)


def test_nothing_of_an_executable_can_be_changed() -> None:
    case = Case()
    executable = compile_programs(case.graph, [case.a, case.b])
    image = executable.graph
    items = (image, image.variables[0], image.compute_sets[0], executable.steps[0])
    for item in (*items, executable.nodes[0], executable, executable.memory):
        with pytest.raises(FrozenInstanceError):
            item.name = "other"  # type: ignore[union-attr]
    batch = image.compute_sets[0].batches[0]
    with pytest.raises(FrozenInstanceError):
        image.compute_sets[0].add(batch)
    assert isinstance(image.compute_sets[0].batches, tuple)
    with pytest.raises(TypeError):
        batch.fields["x"] = batch.fields["out"]  # type: ignore[index]
    regions = next(iter(batch.fields.values()))
    for array in (regions.start, regions.size, batch.tile, image.variables[0].map_tile):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_a_function_called_on_both_sides_is_expanded_once_per_side() -> None:
    case = Case(n_io_tiles=2)
    flag = case.graph.add_variable(INT32, (), "flag")
    case.graph.set_tile_mapping(flag, [0], [0])
    call = Call(Function(case.b, "turn"))
    both = Sequence("main", [call, If(flag, call, Sequence("no")), call])
    n_before = len(case.graph.compute_sets)
    compiled = compile_programs(case.graph, [both])
    assert len(compiled.functions) == 1
    assert (
        len(compiled.graph.compute_sets) - n_before
        == len(compile_programs(case.graph, [case.b]).graph.compute_sets) - n_before
    )
    assert len(case.graph.compute_sets) == n_before
    with pytest.raises(BadGraph, match=r"compute side|uses tile"):
        compile_programs(case.graph, [Overlap(io=call, compute=call, name="both")])
