"""The launch plan: parts of a program between decisions and copies are one call."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from tilescope.engine import Engine, Field, Graph, codelet, compile_programs, load_machine
from tilescope.engine.codelets.launcher import launcher_of
from tilescope.engine.execute import plan
from tilescope.engine.execute.launch import Threads
from tilescope.engine.execute.plan import Calls, LaunchPlan, Rounds
from tilescope.engine.graph import blocks
from tilescope.engine.program import Execute, Repeat, Sequence, StreamCopyOut


@codelet(Field("x", "inout"), law=lambda batch, _: 5 * batch.size["x"][:, 0], code_bytes=40)
def square(x: Any) -> None:
    for i in range(x.size):
        x[i] = x[i] * x[i]


def _cube(x: Any) -> None:
    for i in range(x.size):
        x[i] = x[i] * x[i] * x[i]


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


@pytest.mark.skipif(
    bool(vars(numba.config)["DISABLE_JIT"]), reason="calls are lists of compiled functions"
)
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
        *["Vertices", "Pieces", "Work", "Bytes", "Threads"],
    ]
    assert [row.split()[:5] for row in rows] == [["step", "square", "2", "2", "2"]]


@pytest.mark.parametrize(("n_threads", "n"), [(1, 5), (2, 5), (3, 100), (4, 2)])
def test_threads_take_every_piece_once(n_threads: int, n: int) -> None:
    threads, taken = Threads(n_threads), []
    threads.share(lambda first, last, table: taken.append((first, last, table)), n, 7)
    threads.shutdown()
    assert sorted(k for first, last, _ in taken for k in range(first, last)) == list(range(n))
    assert {table for *_, table in taken} == {7}


def test_a_part_that_fails_ends_the_launch() -> None:
    threads = Threads(2)

    def fails(first: int, last: int, table: int) -> None:
        raise ValueError(f"{first} to {last} of {table}")

    with pytest.raises(ValueError, match="of 7"):
        threads.share(fails, 10, 7)
    threads.shutdown()


def test_compiled_loops_have_names_of_their_own() -> None:
    """Code from the cache is found by its name, and all loops take the same types."""
    names = {
        launcher_of(made, (0,), ("float32",)).__name__
        for made in (square, codelet(Field("x", "inout"), law=square.law, code_bytes=4)(_cube))
    }
    assert len(names) == 2
