"""Multi-vertices: one vertex runs on all worker contexts of its tile, with a worker id."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.engine.many_threads import share_all

from tilescope import engine
from tilescope.engine.codelets.define import codelet
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.program import Execute

N_WORKERS = 6
X = engine.Field("x", "in")
OUT = engine.Field("out", "out", size_of="x")


def share_law(batch: Any, machine: Any) -> Any:
    """7 instructions, and 3 for every element of a worker: it takes every sixth one."""
    worker = np.arange(machine.n_worker_contexts)
    return 7 + 3 * -(-(batch.size["x"] - worker) // machine.n_worker_contexts)


@codelet(X, OUT, law=share_law, code_bytes=60, is_multi_vertex=True)
def add_worker(x: Any, out: Any, worker_id: int, n_workers: int) -> Any:
    for i in range(worker_id, out.size, n_workers):
        out[i] = x[i] + 100 * worker_id


def _compiled(made: Codelet, n: int, tiles: list[int], **more: Any) -> tuple[Any, Any]:
    """Return a program of vertices with `n` elements, and their results."""
    graph = engine.Graph(engine.load_machine("gc200", tiles_per_ipu=4, **more))
    x = graph.add_constant(
        np.arange(n * len(tiles)).reshape(len(tiles), n) % 50, "x", dtype="float32"
    )
    out = graph.add_variable("float32", (len(tiles), n), "out")
    for tensor in (x, out):
        graph.set_tile_mapping(tensor, np.arange(len(tiles)) * n, tiles)
    compute_set = graph.add_compute_set("add")
    rows = {
        name: [tensor.slice(0, i, i + 1).flatten() for i in range(len(tiles))]
        for name, tensor in (("x", x), ("out", out))
    }
    graph.add_vertices(compute_set, made, tiles, rows)
    return engine.compile_programs(graph, [Execute(compute_set)]), out


def _expected(n: int, n_vertices: int) -> np.ndarray:
    return np.arange(n * n_vertices).reshape(n_vertices, n) % 50 + 100.0 * (
        np.arange(n) % N_WORKERS
    )


def test_every_worker_runs_with_its_id() -> None:
    executable, out = _compiled(add_worker, 20, [0, 1, 1, 3])
    with engine.Engine(executable) as device:
        device.run()
        np.testing.assert_array_equal(device.read_tensor(out), _expected(20, 4))


@pytest.mark.parametrize("n_threads", [1, 2, 3, 7])
def test_values_do_not_depend_on_host_threads(
    n_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    share_all(monkeypatch, n_threads)
    executable, out = _compiled(add_worker, 33, [0, 1, 2, 3] * 4)
    with engine.Engine(executable) as device:
        device.run()
        np.testing.assert_array_equal(device.read_tensor(out), _expected(33, 16))


@pytest.mark.parametrize(("parameter_set", "start"), [("hardware", 98), ("ipu_model", 0)])
def test_cycles_are_those_of_the_slowest_worker_and_the_start(
    parameter_set: str, start: int
) -> None:
    """20 elements: workers 0 and 1 have 4, 7 + 3 x 4 = 19 instructions, one in six cycles."""
    executable, _ = _compiled(add_worker, 20, [0, 1, 1], parameter_set=parameter_set)
    (step,) = executable.steps
    once = start + N_WORKERS * (7 + 3 * 4)
    assert step.cost.tile_cycles.tolist() == [once, 2 * once, 0, 0]


def test_counts_are_those_of_every_worker() -> None:
    @codelet(
        X, OUT, law=lambda batch, _: 5 * batch.counts, code_bytes=60,
        is_multi_vertex=True, is_data_dependent=True,
    )  # fmt: skip
    def counted(x: Any, out: Any, worker_id: int, n_workers: int) -> Any:
        for i in range(worker_id, out.size, n_workers):
            out[i] = x[i]
        return worker_id * int(x[0] + 1)

    executable, _ = _compiled(counted, 8, [0, 2], parameter_set="ipu_model")
    with engine.Engine(executable) as device:
        device.run()
        (timeline,) = device.timelines()
    # The last worker counts 5 x (x[0] + 1): x begins at 0 and at 8.
    assert timeline.patterns[0].tolist() == [6 * 5 * 5, 0, 6 * 5 * 5 * 9, 0]


def test_a_law_says_what_every_worker_takes() -> None:
    @codelet(
        X, OUT, law=lambda batch, _: batch.size["x"][:, 0], code_bytes=60, is_multi_vertex=True
    )
    def short(x: Any, out: Any, worker_id: int, n_workers: int) -> Any:
        out[worker_id] = x[worker_id] + n_workers

    with pytest.raises(BadGraph, match=r"cycle law of short must return 1 x 6 integers, got"):
        _compiled(short, 8, [0])


def test_a_multi_vertex_is_no_supervisor_vertex() -> None:
    make = codelet(X, law=share_law, code_bytes=1, is_multi_vertex=True, is_supervisor=True)
    with pytest.raises(BadGraph, match="'both' is a multi-vertex and a supervisor vertex"):

        @make
        def both(x: Any, worker_id: int, n_workers: int) -> None:
            pass


def test_a_multi_vertex_takes_the_worker_and_their_number() -> None:
    with pytest.raises(
        BadGraph, match=r"'alone' takes 1 arguments: its fields, scalars, worker id"
    ):

        @codelet(X, law=share_law, code_bytes=1, is_multi_vertex=True)
        def alone(x: Any) -> None:
            pass
