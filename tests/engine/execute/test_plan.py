"""The launch plan: a program is a list of instructions, whose calls threads share."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from tests.engine.many_threads import share_all

from tilescope.engine import Engine, Field, Graph, codelet, compile_programs, load_machine
from tilescope.engine.errors import KernelFailed
from tilescope.engine.execute import threads
from tilescope.engine.execute.launch import Launch
from tilescope.engine.execute.launcher import launcher_of
from tilescope.engine.execute.plan import LaunchPlan
from tilescope.engine.execute.threads import Tasks, Threads
from tilescope.engine.graph import blocks
from tilescope.engine.program import Execute, Program, Repeat, Sequence, StreamCopyOut, Sync

compiled = pytest.mark.skipif(
    bool(vars(numba.config)["DISABLE_JIT"]), reason="plain Python runs on one thread"
)


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
    return device, device._replicas[0].plan, x


def _tasks(device: Engine) -> Tasks:
    """Return the calls of the first program."""
    device.load()
    return device._replicas[0].plan.caller(device.executable.roots[0])._tasks


def test_a_program_is_a_list_of_instructions() -> None:
    device, actual, x = _squares()
    with device:
        listing = str(actual.caller(device.executable.roots[0]).instructions)
        assert [line.split()[1] for line in listing.splitlines()] == [
            *("SET", "RUN", "AGAIN"),
            *("DO", "RUN", "END"),
        ]
        device.write_tensor(x, [2, 0.5])
        device.run()
        assert device.output("out").tolist() == [2**8, 0.5**8]
        assert device.read_tensor(x).tolist() == [2**16, 0.5**16]


def test_repeats_without_calls_are_no_loops() -> None:
    graph = Graph(load_machine("gc200", tiles_per_ipu=4))
    program = Repeat(1 << 31, Repeat(1 << 20, Sync(external=False)))
    with Engine(compile_programs(graph, [program])) as device:
        device.load()
        call = device._replicas[0].plan.caller(device.executable.roots[0])
        assert call.instructions.rows == [[0] * 5]
        device.run()


def test_a_plan_is_a_table_of_launches() -> None:
    device, actual, _ = _squares()
    with device:
        head, *rows = str(actual).splitlines()
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


@compiled
def test_a_thread_does_the_shares_of_those_that_do_not_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    share_all(monkeypatch, 3)
    graph, x, program = _doubled_and_raised(64)
    with Engine(compile_programs(graph, [program])) as device:
        assert _tasks(device).is_shared == [True]
        device._pool.shutdown()
        device.run()
        np.testing.assert_array_equal(device.read_tensor(x), 2**20 - 1)


def test_batches_of_a_compute_set_are_one_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    """They need nothing of each other; compute sets wait for the one before."""
    share_all(monkeypatch, 2)
    graph = Graph(load_machine("gc200", tiles_per_ipu=4))
    x = graph.add_variable("float32", (8,), "x")
    graph.map_linearly(x)
    both, alone = graph.add_compute_set("both"), graph.add_compute_set("alone")
    for compute_set, kernel, start in ((both, square, 0), (both, double, 4), (alone, increment, 0)):
        positions = {"x": blocks(x.variable, start + np.arange(4), [1], [1], 4)}
        graph.add_vertices(compute_set, kernel, [0, 1, 2, 3], positions)
    program = Sequence("main", [Execute(both), Execute(alone)])
    with Engine(compile_programs(graph, [program])) as device:
        device.load()
        (part,) = device._replicas[0].plan.caller(device.executable.roots[0]).instructions.parts
        names = [[launch.codelet_name for launch in stage] for stage in part.stages]
        assert names == [["square", "double"], ["increment"]]
        device.write_tensor(x, np.arange(8))
        device.run()
        assert device.read_tensor(x).tolist() == [1, 2, 5, 10, 8, 10, 12, 14]


def test_parts_have_like_work() -> None:
    """A launch with one large piece and many small ones is not cut into halves by number."""
    work = np.array([1 << 15, *[1 << 10] * 32])
    nothing = np.zeros(0, np.int64)
    launch = Launch(
        None, nothing, (), work, nothing, np.zeros(33, np.int32), nothing, "codelet", "set"
    )
    pool = Threads(2)
    cuts = pool.cuts(launch)
    parts = np.add.reduceat(work, cuts[:-1])
    pool.shutdown()
    assert cuts[[0, -1]].tolist() == [0, 33]
    assert parts[0] == 1 << 15, "the large piece is a part"
    assert parts[1:].max() <= 1 << 13


@compiled
def test_small_steps_in_a_row_are_one_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread runs them without waiting for the other ones."""
    monkeypatch.setattr(threads, "_WAKE_ABOVE", 0)
    monkeypatch.setattr(threads, "_LEAST_STAGE", 0)
    monkeypatch.setattr("tilescope.engine.execute.device.thread_pool", lambda: Threads(2))
    graph, x, program = _doubled_and_raised(64)
    with Engine(compile_programs(graph, [program])) as device:
        tasks = _tasks(device)
        assert tasks.bounds.tolist() == [[0, 2], [2, 2]]
        assert tasks.is_chain.tolist() == [True, False]
        device.run()
        np.testing.assert_array_equal(device.read_tensor(x), 2**20 - 1)


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
        launcher_of(built, ("float32",)).name
        for built in (square, codelet(Field("x", "inout"), law=square.law, code_bytes=4)(_cube))
    }
    assert len(names) == 2
