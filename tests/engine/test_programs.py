"""Control flow, functions, and data-dependent codelets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tilescope import engine
from tilescope.engine.errors import BadGraph, ProgramError
from tilescope.engine.graph import Tensor, blocks
from tilescope.engine.program import (
    Block,
    Call,
    Copy,
    ErrorProgram,
    Execute,
    Function,
    If,
    PrintTensor,
    Program,
    Repeat,
    RepeatWhile,
    Sequence,
    StreamCopyIn,
    StreamCopyOut,
    Switch,
    Sync,
)
from tilescope.reports import check_report, open_report
from tilescope.reports.schema import run


def _ten(batch: Any, _machine: Any) -> NDArray[np.int64]:
    return np.full(batch.n_vertices, 10)


@engine.codelet(engine.Field("x", "in"), engine.Field("out", "out"), law=_ten, code_bytes=20)
def add_one(x, out):
    for i in range(out.size):
        out[i] = x[i] + 1


@engine.codelet(
    engine.Field("x", "in"),
    engine.Field("out", "out"),
    law=_ten,
    code_bytes=20,
    scalars=(engine.Scalar("limit"),),
)
def is_below(x, out, limit):
    out[0] = 1 if x[0] < limit else 0


@engine.codelet(
    engine.Field("x", "in"),
    engine.Field("out", "out"),
    law=lambda batch, _machine: 5 + batch.counts,
    code_bytes=20,
    is_data_dependent=True,
)
def count_odd(x, out):
    outlier = 0
    for i in range(out.size):
        out[i] = x[i]
        outlier += x[i] % 2
    return outlier


@engine.codelet(
    engine.Field("x", "in", 2, "view"),
    engine.Field("out", "out", 2, "view"),
    law=_ten,
    code_bytes=20,
)
def double(x, out):
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = 2 * x[i, j]


class Small:
    """A graph on four tiles with a counter and operands for programs."""

    def __init__(self) -> None:
        self.graph = engine.Graph(engine.load_machine("gc200", tiles_per_ipu=4))
        self.counter = self.variable("counter", 1)
        self.next = self.variable("next", 1)
        self.flag = self.variable("flag", 1)

    def variable(self, name: str, size: int) -> Tensor:
        tensor = self.graph.add_variable("int32", (size,), name)
        self.graph.map_linearly(tensor)
        return tensor

    def vertex(self, codelet: Any, x: Tensor, out: Tensor, **scalars: int) -> Execute:
        compute_set = self.graph.add_compute_set(codelet.name)
        fields = {
            name: blocks(t.variable, t.offset, [t.n_elements], [1], 1)
            for name, t in (("x", x), ("out", out))
        }
        self.graph.add_vertices(compute_set, codelet, [0], fields, scalars)
        return Execute(compute_set)

    def increment(self) -> Sequence:
        return Sequence(
            "increment",
            [self.vertex(add_one, self.counter, self.next), Copy(self.next, self.counter)],
        )

    def run(self, program: Program, start: int, report: Path | None = None) -> tuple[int, int]:
        """Return the counter after the program, and the cycles."""
        full = Sequence(
            "main",
            [
                StreamCopyIn("counter", self.counter),
                program,
                StreamCopyOut(self.counter, "counter out"),
            ],
        )
        executable = engine.compile_programs(self.graph, [full])
        options = engine.resolve_options(
            environ={},
            code={"autoReport.all": True, "autoReport.directory": str(report)} if report else None,
        )
        with engine.Engine(executable, options) as device:
            device.connect_stream("counter", np.array([start], np.int32))
            device.run()
            return int(device.output("counter out")[0]), device.timelines()[0].n_cycles


def test_repeat_runs_its_body_so_often() -> None:
    small = Small()
    assert small.run(Repeat(7, small.increment()), 1)[0] == 8


@pytest.mark.parametrize(("start", "expected"), [(0, 5), (4, 5), (5, 5), (9, 9)])
def test_repeat_while_stops_where_the_predicate_says(
    start: int, expected: int, tmp_path: Path
) -> None:
    small = Small()
    condition = small.vertex(is_below, small.counter, small.flag, limit=5)
    loop = RepeatWhile(condition, small.flag, small.increment(), name="loop")
    result, cycles = small.run(loop, start, tmp_path)
    assert result == expected
    assert check_report(tmp_path) == []
    with open_report(tmp_path) as report:
        assert report.table(run)["is_data_dependent"] == [True]
        spans = report.array("trace.end_cycle").read() - report.array("trace.start_cycle").read()
        assert int((spans * report.array("trace.count").read()).sum()) == cycles


def test_all_rounds_of_a_loop_cost_the_same() -> None:
    cycles = []
    for start in (0, 1, 2):
        small = Small()
        condition = small.vertex(is_below, small.counter, small.flag, limit=3)
        cycles.append(small.run(RepeatWhile(condition, small.flag, small.increment()), start)[1])
    assert cycles[0] - cycles[1] == cycles[1] - cycles[2] > 0


def test_repeat_while_false_goes_on_while_the_predicate_is_zero() -> None:
    small = Small()
    condition = small.vertex(is_below, small.counter, small.flag, limit=3)
    loop = RepeatWhile(condition, small.flag, small.increment(), while_true=False)
    assert small.run(loop, 1)[0] == 1


@pytest.mark.parametrize(("start", "expected"), [(1, 2), (9, 12)])
def test_if_runs_one_branch(start: int, expected: int) -> None:
    small = Small()
    decide = small.vertex(is_below, small.counter, small.flag, limit=5)
    branch = If(small.flag, small.increment(), Repeat(3, small.increment()), name="branch")
    assert small.run(Sequence("", [decide, branch]), start)[0] == expected


@pytest.mark.parametrize(("start", "expected"), [(1, 2), (2, 4), (7, 7)])
def test_switch_runs_the_case_of_its_number(start: int, expected: int) -> None:
    small = Small()
    cases: dict[int, Program] = {1: small.increment(), 2: Repeat(2, small.increment())}
    assert small.run(Switch(small.counter, cases, Sequence("nothing")), start)[0] == expected


def test_a_function_is_compiled_once_and_called_often() -> None:
    small = Small()
    function = Function(small.increment(), "increment")
    program = Sequence(
        "", [Call(function), Block("again", Call(function)), Repeat(2, Call(function))]
    )
    executable = engine.compile_programs(
        small.graph, [Sequence("", [StreamCopyIn("counter", small.counter), program])]
    )
    assert len(executable.functions) == 1
    assert sum(step.name == "add_one" for step in executable.steps) == 1
    assert small.run(program, 0)[0] == 4


def test_a_function_that_calls_itself_is_refused() -> None:
    small = Small()
    body = Sequence("body")
    function = Function(body, "forever")
    body.add(Call(function))
    with pytest.raises(BadGraph, match="calls itself"):
        engine.compile_programs(small.graph, [Call(function)])


def test_what_lives_over_a_call_keeps_its_place() -> None:
    small = Small()
    selected = small.variable("kept", 1)
    function = Function(small.increment(), "increment")
    before = small.vertex(add_one, small.counter, selected)
    after = small.vertex(add_one, selected, small.counter)
    program = Sequence("", [before, Call(function), after])
    assert small.run(program, 10)[0] == 12
    executable = engine.compile_programs(small.graph, [program])
    start, end = executable.memory.lifetimes[selected.variable.variable_id]
    inside = [step.step_id for step in executable.steps if step.name == "add_one"]
    assert all(start <= step < end for step in inside)


def test_cycles_follow_what_the_kernel_counted(tmp_path: Path) -> None:
    totals = {}
    for outlier in (0, 3):
        graph = engine.Graph(engine.load_machine("gc200", tiles_per_ipu=2))
        x = graph.add_variable("int32", (8,), "x")
        out = graph.add_variable("int32", (8,), "out")
        for tensor in (x, out):
            graph.set_tile_mapping(tensor, [0], [1])
        compute_set = graph.add_compute_set("count")
        fields = {n: blocks(t.variable, 0, [8], [1], 1) for n, t in (("x", x), ("out", out))}
        graph.add_vertices(compute_set, count_odd, [1], fields)
        executable = engine.compile_programs(
            graph, [Sequence("", [StreamCopyIn("x", x), Execute(compute_set)])]
        )
        options = engine.resolve_options(
            environ={},
            code={"autoReport.all": True, "autoReport.directory": str(tmp_path / str(outlier))},
        )
        with engine.Engine(executable, options) as device:
            device.connect_stream("x", np.array([1] * outlier + [2] * (8 - outlier), np.int32))
            device.run()
            totals[outlier] = device.timelines()[0].n_cycles
        assert check_report(tmp_path / str(outlier)) == []
    # A worker context issues every sixth cycle.
    assert totals[3] - totals[0] == 3 * 6


def test_a_view_reaches_the_kernel_with_its_strides() -> None:
    graph = engine.Graph(engine.load_machine("gc200", tiles_per_ipu=2))
    x = graph.add_variable("float32", (3, 4), "x")
    out = graph.add_variable("float32", (4, 3), "out")
    for tensor in (x, out):
        graph.set_tile_mapping(tensor, [0], [0])
    compute_set = graph.add_compute_set("double")
    fields = {
        "x": blocks(x.variable, 0, [4, 3], [1, 4], 1),
        "out": blocks(out.variable, 0, [4, 3], [3, 1], 1),
    }
    graph.add_vertices(compute_set, double, [0], fields)
    program = Sequence("", [StreamCopyIn("x", x), Execute(compute_set), StreamCopyOut(out, "out")])
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    with engine.Engine(
        engine.compile_programs(graph, [program]), engine.resolve_options(environ={})
    ) as d:
        d.connect_stream("x", values)
        d.run()
        assert np.array_equal(d.output("out"), 2 * values.T)


def test_print_and_error_programs_show_the_tensor() -> None:
    small = Small()
    program = Sequence(
        "", [PrintTensor(small.counter, "counter"), ErrorProgram("enough", small.counter)]
    )
    full = Sequence("", [StreamCopyIn("counter", small.counter), program])
    lines: list[str] = []
    with engine.Engine(
        engine.compile_programs(small.graph, [full]), engine.resolve_options(environ={})
    ) as device:
        device.print_line = lines.append
        device.connect_stream("counter", np.array([42], np.int32))
        with pytest.raises(ProgramError, match=r"enough: \[42\]"):
            device.run()
    assert lines == ["counter: [42]"]


def test_a_decision_by_a_float_or_several_numbers_is_refused() -> None:
    graph = engine.Graph(engine.load_machine("gc200", tiles_per_ipu=2))
    several = graph.add_variable("int32", (2,), "several")
    real = graph.add_variable("float32", (1,), "real")
    for tensor in (several, real):
        with pytest.raises(BadGraph, match="one int32 or bool"):
            If(tensor, Sequence(), Sync())


def test_a_codelet_whose_arguments_are_not_its_fields_is_refused() -> None:
    with pytest.raises(BadGraph, match="takes 1 arguments"):

        @engine.codelet(engine.Field("x", "in"), engine.Field("out", "out"), law=_ten, code_bytes=1)
        def wrong(x):
            return x
