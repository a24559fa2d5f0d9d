"""The launch plan: parts of a program between decisions and copies are one call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.engine.many_threads import share_all

from tilescope.engine import Engine, Field, Graph, codelet, compile_programs, load_machine
from tilescope.engine.codelets.launcher import launcher_of
from tilescope.engine.errors import KernelFailed
from tilescope.engine.execute import plan
from tilescope.engine.execute.plan import LaunchPlan, Rounds
from tilescope.engine.execute.threads import Calls
from tilescope.engine.graph import blocks
from tilescope.engine.program import Execute, Program, Repeat, Sequence, StreamCopyOut


@codelet(Field("x", "inout"), law=lambda batch, _: 5 * batch.size["x"][:, 0], code_bytes=40)
def square(x: Any) -> None:
    for i in range(x.size):
        x[i] = x[i] * x[i]


def _cube(x: Any) -> None:
    for i in range(x.size):
        x[i] = x[i] * x[i] * x[i]


@codelet(Field("x", "inout"), law=lambda batch, _: 5 * batch.size["x"][:, 0], code_bytes=40)
def double(x: Any) -> None:
    for i in range(x.size):
        x[i] = x[i] + x[i]


@codelet(Field("x", "inout"), law=lambda batch, _: 5 * batch.size["x"][:, 0], code_bytes=40)
def increment(x: Any) -> None:
    for i in range(x.size):
        x[i] = x[i] + 1


@codelet(Field("x", "inout"), law=lambda batch, _: 5 * batch.size["x"][:, 0], code_bytes=40)
def fails_at_fifty(x: Any) -> None:
    if x[0] == 50:
        raise ValueError("fifty")


def _squares() -> tuple[Engine, LaunchPlan, Any]:
    """Square two numbers three times, copy them to the host, and once more."""
    graph = Graph(load_machine("gc200", tiles_per_ipu=4))
    x = graph.add_variable("float32", (2,), "x")
    graph.map_linearly(x)
    step = graph.add_compute_set("step")
    graph.add_vertices(step, square, [0, 0], {"x": blocks(x.variable, np.arange(2), [1], [1], 2)})
    main = Sequence("main", [Repeat(3, Execute(step)), StreamCopyOut(x, "out"), Execute(step)])
    device = Engine(compile_programs(graph, [main]))
    device.load()
    return device, device._plan, x


def test_parts_between_host_copies_are_one_call() -> None:
    device, found, x = _squares()
    with device:
        parts = found.parts(device.executable.roots[0])
        kinds = [type(part).__name__ for part in parts]
        assert kinds == ["Calls", "Step", "Calls"]
        repeated, _, once = parts
        assert isinstance(repeated, Calls)
        assert isinstance(once, Calls)
        assert len(repeated.launches) == 3 * len(once.launches)
        device.write_tensor(x, [2, 0.5])
        device.run()
        assert device.output("out").tolist() == [2**8, 0.5**8]
        assert device.read_tensor(x).tolist() == [2**16, 0.5**16]


def test_a_long_repeat_is_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "_MOST_CALLS", 2)
    device, found, x = _squares()
    with device:
        repeated = found.parts(device.executable.roots[0])[0]
        assert isinstance(repeated, Rounds)
        assert repeated.n_rounds == 3
        device.write_tensor(x, [2, 0.5])
        device.run()
        assert device.read_tensor(x).tolist() == [2**16, 0.5**16]


def test_a_plan_is_a_table_of_launches() -> None:
    device, found, _ = _squares()
    with device:
        head, *rows = str(found).splitlines()
    assert head.split() == [
        "Compute",
        "set",
        "Codelet",
        *["Vertices", "Pieces", "Work", "Bytes", "Parts"],
    ]
    assert [row.split()[:5] for row in rows] == [["step", "square", "2", "2", "2"]]


def _doubled_and_raised(n: int) -> tuple[Graph, Any, Sequence]:
    """Take x to 2 x + 1 of numbers on n tiles, twenty times: every step needs the one before."""
    graph = Graph(load_machine("gc200", tiles_per_ipu=64))
    x = graph.add_variable("int32", (n, 8), "x")
    graph.map_linearly(x)
    tiles = np.arange(n)
    steps: list[Program] = []
    for kernel in (double, increment):
        step = graph.add_compute_set(kernel.name)
        graph.add_vertices(step, kernel, tiles, {"x": blocks(x.variable, 8 * tiles, [8], [1], n)})
        steps.append(Execute(step))
    return graph, x, Sequence("main", [Repeat(20, Sequence("round", steps))])


@pytest.mark.parametrize("n_threads", [1, 2, 3, 7])
def test_threads_run_every_piece_once_and_in_order(
    n_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More threads than processors are suspended in between; late ones find the next run."""
    share_all(monkeypatch, n_threads)
    graph, x, program = _doubled_and_raised(64)
    with Engine(compile_programs(graph, [program])) as device:
        for number in range(60):
            values = np.arange(64 * 8, dtype=np.int32).reshape(64, 8) + number
            device.write_tensor(x, values)
            device.run()
            expected = (values + 1) * 2**20 - 1
            np.testing.assert_array_equal(device.read_tensor(x), expected)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_a_part_that_fails_ends_the_run(n_threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    share_all(monkeypatch, n_threads)
    graph = Graph(load_machine("gc200", tiles_per_ipu=64))
    x = graph.add_variable("int32", (64,), "x")
    graph.map_linearly(x)
    tiles, steps = np.arange(64), list[Program]()
    for kernel in (fails_at_fifty, increment):
        step = graph.add_compute_set(kernel.name)
        graph.add_vertices(step, kernel, tiles, {"x": blocks(x.variable, tiles, [1], [1], 64)})
        steps.append(Execute(step))
    with Engine(compile_programs(graph, [Sequence("main", steps)])) as device:
        device.write_tensor(x, tiles)
        with pytest.raises(KernelFailed, match="fails_at_fifty raised ValueError: fifty"):
            device.run()
        device.write_tensor(x, np.zeros(64, np.int32))
        device.run()
        assert device.read_tensor(x).tolist() == [1] * 64, "the next run is whole"


def test_compiled_loops_have_names_of_their_own() -> None:
    """Code from the cache is found by its name, and all loops take the same types."""
    names = {
        launcher_of(made, (0,), ("float32",)).__name__
        for made in (square, codelet(Field("x", "inout"), law=square.law, code_bytes=4)(_cube))
    }
    assert len(names) == 2
