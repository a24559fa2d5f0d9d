"""Loops, branches and calls in compiled code, against a walk step by step."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.many_threads import share_all
from tests.oracle.step_walk import walk

from tilescope.engine import (
    Engine,
    Field,
    Graph,
    codelet,
    compile_programs,
    load_machine,
    resolve_options,
)
from tilescope.engine.codelets.cycle_counter import CYCLE_STAMP
from tilescope.engine.errors import BadGraph
from tilescope.engine.execute import caller, notes, replay
from tilescope.engine.execute.timeline import Timeline
from tilescope.engine.graph import Tensor, blocks
from tilescope.engine.host.jit import calls as calls_module
from tilescope.engine.program import (
    Call,
    Copy,
    Execute,
    Function,
    If,
    Overlap,
    Program,
    Repeat,
    RepeatWhile,
    Sequence,
    StreamCopyOut,
    Switch,
    Sync,
)
from tilescope.reports import Report, check_report
from tilescope.reports.schema import run_trace

compiled = pytest.mark.skipif(
    bool(vars(numba.config)["DISABLE_JIT"]), reason="plain Python makes every call by itself"
)


@codelet(Field("x", "inout"), law=lambda batch, _: 7 * batch.size["x"][:, 0], code_bytes=40)
def one_up(x: Any) -> None:
    for i in range(x.size):
        x[i] = x[i] + 1


@codelet(Field("x", "inout"), law=lambda batch, _: 9 * batch.size["x"][:, 0], code_bytes=40)
def one_down(x: Any) -> None:
    for i in range(x.size):
        x[i] = x[i] - 1


@codelet(
    *(Field("x", "in"), Field("flag", "out")),
    law=lambda batch, _: 4 + 0 * batch.size["x"][:, 0],
    code_bytes=40,
)
def is_odd(x: Any, flag: Any) -> None:
    flag[0] = x[0] % 2


@codelet(
    Field("x", "inout"),
    law=lambda batch, _: 5 + batch.counts,
    code_bytes=40,
    is_data_dependent=True,
)
def counted_up(x: Any) -> int:
    x[0] = x[0] + 1
    return int(x[0] % 5)


class Drawn:
    """Programs that loop, branch and call, on variables of one to three IPUs."""

    def __init__(self, draw: Callable[[Any], Any], n_ipus: int) -> None:
        self.draw = draw
        self.graph = Graph(load_machine("gc200", n_ipus=n_ipus, tiles_per_ipu=2))
        self.n_tiles = 2 * n_ipus
        self.values = [self.variable("int32", f"x{k}") for k in range(3)]
        self.functions: list[Function] = []
        self.kept: list[Tensor] = [*self.values]

    def variable(self, dtype: str, name: str, size: int = 1) -> Tensor:
        tensor = self.graph.add_variable(dtype, (size,), name)
        self.graph.set_tile_mapping(tensor, [0], [self.draw(st.integers(0, self.n_tiles - 1))])
        return tensor

    def execute(self, kernel: Any, **fields: Tensor) -> Program:
        compute_set = self.graph.add_compute_set(kernel.name)
        tile = self.draw(st.integers(0, self.n_tiles - 1))
        regions = {
            name: blocks(tensor.variable, 0, [tensor.n_elements], [1], 1)
            for name, tensor in fields.items()
        }
        self.graph.add_vertices(compute_set, kernel, [tile], regions)
        return Execute(compute_set)

    def leaf(self) -> Program:
        kind = self.draw(st.integers(0, 6))
        value = self.draw(st.sampled_from(self.values))
        if kind == 0:
            return Sync(external=self.draw(st.booleans()))
        if kind == 1:
            return Copy(value, self.draw(st.sampled_from(self.values)))
        if kind == 2:
            return self.execute(counted_up, x=value)
        if kind == 3:
            stamp = self.variable("uint32", "stamp", 2)
            self.kept.append(stamp)
            return self.execute(CYCLE_STAMP, out=stamp)
        if kind == 4:
            return StreamCopyOut(value, "out")
        return self.execute(one_up, x=value)

    def flag(self) -> tuple[Program, Tensor]:
        flag = self.variable(self.draw(st.sampled_from(["bool", "int32", "uint8"])), "flag")
        return self.execute(is_odd, x=self.draw(st.sampled_from(self.values)), flag=flag), flag

    def program(self, depth: int) -> Program:
        parts: list[Program] = []
        for _ in range(self.draw(st.integers(1, 3))):
            kind = self.draw(st.integers(0, 7)) if depth else 0
            if kind == 3:
                parts.append(Repeat(self.draw(st.integers(1, 3)), self.program(depth - 1)))
            elif kind == 4:
                parts.append(self.flag_if(depth))
            elif kind == 5:
                control = self.draw(st.sampled_from(self.values))
                cases = {number: self.program(depth - 1) for number in (1, 2, -1)}
                parts.append(Switch(control, cases, self.leaf()))
            elif kind == 6:
                parts.append(self.loop(depth))
            elif kind == 7:
                if not self.functions or self.draw(st.booleans()):
                    self.functions.append(Function(self.program(depth - 1), "function"))
                parts.append(Call(self.draw(st.sampled_from(self.functions))))
            else:
                parts.append(self.leaf())
        return Sequence("part", parts)

    def flag_if(self, depth: int) -> Program:
        decide, flag = self.flag()
        return Sequence("", [decide, If(flag, self.program(depth - 1), self.leaf())])

    def loop(self, depth: int) -> Program:
        """Count a variable down to 0."""
        left = self.variable("int32", "left")
        begin = [self.execute(one_up, x=left) for _ in range(self.draw(st.integers(0, 3)))]
        condition = self.leaf() if self.draw(st.booleans()) else Sequence("")
        body = Sequence("body", [self.program(depth - 1), self.execute(one_down, x=left)])
        return Sequence("", [*begin, RepeatWhile(condition, left, body)])


@st.composite
def programs(draw: st.DrawFn) -> tuple[Graph, Program, list[Tensor]]:
    drawn = Drawn(draw, draw(st.integers(1, 3)))
    program = Sequence("main", [drawn.program(3), drawn.loop(1), drawn.flag_if(1)])
    return drawn.graph, program, drawn.kept


def assert_same(actual: Timeline, expected: Timeline) -> None:
    """Compare timelines byte for byte."""
    for name in ("step_id", "start", "end", "period", "count"):
        first, second = getattr(actual, name), getattr(expected, name)
        assert (first.dtype, first.tolist()) == (second.dtype, second.tolist()), name
    assert (actual.n_cycles, actual.has_spread) == (expected.n_cycles, expected.has_spread)
    assert actual.patterns.keys() == expected.patterns.keys()
    for entry, pattern in actual.patterns.items():
        assert pattern.tolist() == expected.patterns[entry].tolist()
    assert (actual.io is None) == (expected.io is None)
    if actual.io is not None and expected.io is not None:
        assert_same(actual.io, expected.io)


@pytest.mark.parametrize("n_threads", [1, 3])
@settings(max_examples=40)
@given(drawn=programs())
def test_a_run_is_a_walk_step_by_step(
    drawn: tuple[Graph, Program, list[Tensor]], n_threads: int
) -> None:
    graph, program, tensors = drawn
    executable = compile_programs(graph, [program])
    with pytest.MonkeyPatch.context() as patch:
        share_all(patch, n_threads)
        with Engine(executable) as engine, Engine(executable) as plain:
            for _ in range(2):
                expected = walk(plain)
                plain._counters = plain._counters + np.array(
                    [line.n_cycles for line in expected], np.int64
                )
                engine.run()
                assert engine.n_cycles().tolist() == [line.n_cycles for line in expected]
                for actual, line in zip(engine.timelines(), expected, strict=True):
                    assert_same(actual, line)
                for tensor in tensors:
                    result = plain.read_tensor(tensor)
                    np.testing.assert_array_equal(engine.read_tensor(tensor), result)


def _countdown(n_passes: int, n_ipus: int = 1) -> tuple[Graph, Program, Tensor]:
    """Count up a variable while another one is counted down, in a loop with a branch."""
    drawn = Drawn(lambda _: 0, n_ipus)
    x, left = drawn.values[0], drawn.graph.add_variable("int32", (1,), "left")
    drawn.graph.set_tile_mapping(left, [0], [0])
    flag = drawn.variable("int32", "flag")
    then, otherwise = drawn.execute(one_up, x=x), drawn.execute(one_up, x=x)
    steps = [drawn.execute(is_odd, x=x, flag=flag), If(flag, then, otherwise)]
    body = Sequence("body", [*steps, drawn.execute(one_down, x=left)])
    begin = Repeat(n_passes, drawn.execute(one_up, x=left))
    return drawn.graph, Sequence("main", [begin, RepeatWhile(Sequence(""), left, body)]), x


def _counted_returns(patch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which every call of the compiled caller adds its thread."""
    calls: list[int] = []
    run = calls_module.run_calls

    def counting(thread: int, team: Any, table: int) -> None:
        calls.append(thread)
        run(thread, team, table)

    patch.setattr(caller, "run_calls", counting)
    return calls


@compiled
@pytest.mark.parametrize("n_passes", [3, 3_000])
def test_loops_and_branches_do_not_return_to_python(
    n_passes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, program, x = _countdown(n_passes)
    with Engine(compile_programs(graph, [program])) as engine:
        engine.load()
        calls = _counted_returns(monkeypatch)
        engine.run()
        assert calls == [0]
        assert engine.read_tensor(x).tolist() == [n_passes]


def test_nothing_grows_with_the_passes_of_a_run_that_is_not_recorded() -> None:
    sizes, peaks = [], []
    for n_passes in (30, 3_000):
        graph, program, _ = _countdown(n_passes)
        with Engine(compile_programs(graph, [program]), resolve_options(environ={})) as engine:
            engine.run()
            call = engine._replicas[0].plan.caller(engine.executable.roots[0])
            sizes.append((str(call.instructions).count("\n"), call._tasks.rows.shape))
            tracemalloc.start()
            engine.run()
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert sizes[0] == sizes[1]
    n_noted = 2 * 3_000  # whether the loop goes on, and the branch
    assert peaks[1] - peaks[0] < 8 * n_noted + 4_096


def test_decisions_are_dropped_unless_the_run_is_recorded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(caller, "MOST_DECISIONS", 7)
    graph, program, x = _countdown(20)
    executable = compile_programs(graph, [program])
    with Engine(executable, resolve_options(environ={})) as engine:
        expected = walk(engine)
        engine.run()
        assert engine.read_tensor(x).tolist() == [40]
        assert engine.n_cycles().tolist() == [line.n_cycles for line in expected]
        with pytest.raises(BadGraph, match="not kept: it took too many decisions"):
            engine.timelines()
    given = {"autoReport.all": "true", "autoReport.directory": str(tmp_path)}
    with Engine(executable, resolve_options(environ={}, code=given)) as engine:
        engine.run()
        for actual, line in zip(engine.timelines(), expected, strict=True):
            assert_same(actual, line)
    assert check_report(tmp_path / "profile.pop") == []


def test_measured_cycles_are_dropped_unless_the_run_is_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(notes, "_MOST_BYTES", 100)
    drawn = Drawn(lambda _: 0, 1)
    program = Repeat(20, drawn.execute(counted_up, x=drawn.values[0]))
    with Engine(compile_programs(drawn.graph, [program]), resolve_options(environ={})) as engine:
        expected = walk(engine)
        engine.run()
        assert engine.n_cycles().tolist() == [line.n_cycles for line in expected]
        with pytest.raises(BadGraph, match="not kept"):
            engine.timelines()


@compiled
@pytest.mark.parametrize("n_threads", [1, 3])
def test_a_long_loop_returns_for_interrupts(
    n_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python handles signals only between its own instructions."""
    monkeypatch.setattr(caller, "_BUDGET", 1_000)
    share_all(monkeypatch, n_threads)
    graph, program, x = _countdown(1_000)
    with Engine(compile_programs(graph, [program])) as engine:
        calls = _counted_returns(monkeypatch)
        engine.run()
        assert calls.count(0) > 10
        assert engine.read_tensor(x).tolist() == [1_000]
        monkeypatch.setattr(caller, "run_calls", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            engine.run()


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@compiled
def test_threads_stay_for_the_passes_of_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are woken once, however often the parts of a loop are shared."""
    share_all(monkeypatch, 3)
    graph, program, x = _countdown(500)
    with Engine(compile_programs(graph, [program])) as engine:
        engine.load()
        calls = _counted_returns(monkeypatch)
        engine.run()
        assert calls.count(0) < 100
        assert engine.read_tensor(x).tolist() == [500]


def test_overlaps_with_decisions_keep_their_clocks() -> None:
    """The sides of an Overlap start together; the later one ends it."""
    machine = load_machine("gc200", tiles_per_ipu=8, n_ipus=2)
    graph = Graph(machine, n_io_tiles=2)
    x = graph.add_variable("int32", (1,), "x")
    graph.set_tile_mapping(x, [0], [int(graph.compute_tiles[0])])
    y = graph.add_variable("int32", (1,), "y")
    graph.set_tile_mapping(y, [0], [int(graph.io_tiles[0])])

    def execute(tensor: Tensor, tile: int) -> Program:
        compute_set = graph.add_compute_set("up")
        regions = {"x": blocks(tensor.variable, 0, [1], [1], 1)}
        graph.add_vertices(compute_set, counted_up, [tile], regions)
        return Execute(compute_set)

    io = Sequence("io", [execute(y, int(graph.io_tiles[0])), StreamCopyOut(y, "y")])
    compute = Repeat(3, execute(x, int(graph.compute_tiles[0])))
    even = Repeat(3, Overlap(StreamCopyOut(y, "y"), Sync(external=True), "even"))
    both = Overlap(io, compute, "both")
    program = Repeat(2, Sequence("", [both, even, Sync(external=True)]))
    executable = compile_programs(graph, [program])
    with Engine(executable) as engine, Engine(executable) as stepwise:
        expected = walk(stepwise)
        engine.run()
        assert engine.n_cycles().tolist() == [line.n_cycles for line in expected]
        for actual, line in zip(engine.timelines(), expected, strict=True):
            assert_same(actual, line)


def entries(report: Report, name: str) -> list[int]:
    """Return a column of the entries of all runs of one IPU; runs that do the same share them."""
    column, rows = report.array(f"trace.{name}").read(), report.table(run_trace)
    values: list[int] = []
    for first, n, shift in zip(
        rows["first_entry"], rows["n_entries"], rows["shift_cycles"], strict=True
    ):
        moved = (shift or 0) if name == "start_cycle" else 0
        values += (column[first : first + n].astype(np.int64) + moved).tolist()
    return values


def test_runs_that_decide_alike_share_their_timelines(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The report has the entries of every run, in order."""
    replays = []
    run = replay._Replay.run

    def counting(self: Any, node: Any) -> None:
        replays.append(node.kind) if node.parent_id is None else None
        run(self, node)

    monkeypatch.setattr(replay._Replay, "run", counting)
    drawn = Drawn(lambda _: 0, 1)
    x, flag = drawn.values[0], drawn.variable("int32", "flag")
    then, otherwise = Repeat(3, drawn.execute(one_up, x=x)), drawn.execute(one_up, x=x)
    program = Sequence("", [drawn.execute(is_odd, x=x, flag=flag), If(flag, then, otherwise)])
    given = {"autoReport.all": "true", "autoReport.directory": str(tmp_path)}
    given["autoReport.executionProfileProgramRunCount"] = "100"
    executable = compile_programs(drawn.graph, [program])
    ids, starts, counts = [], [], []
    with Engine(executable, resolve_options(environ={}, code=given)) as engine:
        for value in (0, 1, 1, 0, 0, 3):
            before = engine._counters
            engine.write_tensor(x, [value])
            engine.run()
            (line,) = engine.timelines()
            ids += line.step_id.tolist()
            starts += (line.start + before[0]).tolist()
            counts += line.count.tolist()
        with engine.get_report() as report:
            assert entries(report, "step_id") == ids
            assert entries(report, "start_cycle") == starts
            assert entries(report, "count") == counts
    assert len(replays) == 2
    assert check_report(tmp_path / "profile.pop") == []
