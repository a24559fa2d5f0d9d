"""The engine: threads, half precision, insufficient memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tilescope.engine import Builder, Engine, Graph, compile_programs, load_machine, resolve_options
from tilescope.engine.errors import OutOfTileMemory
from tilescope.engine.execute import threads
from tilescope.engine.execute.host_arenas import HostMemory
from tilescope.engine.graph import ROOT, GraphCopy
from tilescope.engine.library.poplin.convolution import matmul
from tilescope.engine.library.popops.elementwise.operations import unary
from tilescope.engine.program import Copy, Repeat, Sequence
from tilescope.reports import check_report
from tilescope.reports.schema import notice


def new(n_tiles: int = 4) -> tuple[Graph, Builder]:
    graph = Graph(load_machine("gc200", tiles_per_ipu=n_tiles))
    return graph, Builder(graph, Sequence("program"), ROOT)


@pytest.mark.parametrize("n_threads", [1, 2, 3, 5])
def test_threads_share_the_vertices_of_a_large_batch(
    n_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every vertex runs once, however vertices are distributed to threads."""
    monkeypatch.setattr("tilescope.engine.execute.threads._WAKE_ABOVE", 0)
    monkeypatch.setattr(
        "tilescope.engine.execute.device.thread_pool", lambda: threads.Threads(n_threads)
    )
    graph, builder = new(64)
    a = graph.add_variable("float32", (1, 1024, 256), "a")
    graph.map_linearly(a)
    random = np.random.default_rng(0)
    left = random.standard_normal((1, 1024, 256)).astype(np.float32)
    right = random.standard_normal((1, 256, 64)).astype(np.float32)
    out = matmul(builder, a, right)
    with Engine(compile_programs(graph, [builder.sequence])) as engine:
        engine.write_tensor(a, left)
        (replica,) = engine._replicas
        launches = [launch for step in replica.plan.by_step.values() for launch in step]
        assert max(launch.work for launch in launches) > 1 << 15, "large enough to be shared"
        engine.run()
        np.testing.assert_allclose(engine.read_tensor(out), left @ right, rtol=1e-4, atol=1e-4)


def test_every_replica_has_values_of_its_own() -> None:
    graph, _ = new()
    x = graph.add_variable("float32", (4,), "x")
    graph.map_linearly(x)
    constant = graph.add_constant(np.arange(4, dtype=np.float32), "constant")
    graph.map_linearly(constant)
    image = GraphCopy(graph).freeze()
    first, second = (HostMemory(image, replica=number) for number in range(2))
    first.write(x, np.ones(4), "x")
    second.write(x, np.full(4, 2.0), "x")
    assert first.read(x).tolist() == [1, 1, 1, 1]
    assert second.read(x).tolist() == [2, 2, 2, 2]
    assert second.read(constant).tolist() == [0, 1, 2, 3]


def test_half_precision_takes_half_the_memory_and_rounds_to_its_grid() -> None:
    graph, builder = new()
    x = graph.add_variable("float16", (64,), "x")
    graph.map_linearly(x)
    out = unary(builder, "exp", x)
    executable = compile_programs(graph, [builder.sequence])
    assert executable.memory.categories["variable"].sum() == 2 * 64 * 2, "two bytes an element"
    values = np.linspace(-3, 3, 64)
    with Engine(executable, resolve_options()) as engine:
        engine.write_tensor(x, values)
        engine.run()
        result = engine.read_tensor(out)
    assert result.dtype == np.float16
    exact = np.exp(values.astype(np.float16).astype(np.float64))
    spacing = np.spacing(exact.astype(np.float16)).astype(np.float64)
    assert (np.abs(result - exact) <= 0.51 * spacing).all(), "the nearest half, or a tie"


def overfull() -> tuple[Graph, Builder]:
    graph, builder = new(2)
    x = graph.add_variable("float32", (100_000,), "much")
    graph.set_tile_mapping(x, [0], [1])
    unary(builder, "relu", x)
    return graph, builder


def test_an_overfull_tile_and_its_contents_are_named(tmp_path: Path) -> None:
    graph, builder = overfull()
    executable = compile_programs(graph, [builder.sequence])
    assert executable.overfull_tiles.tolist() == [1]
    options = resolve_options(code={"autoReport.all": True, "autoReport.directory": str(tmp_path)})
    with Engine(executable, options) as engine, pytest.raises(OutOfTileMemory) as caught:
        engine.run()
    text = str(caught.value)
    assert "1 of 2 tiles" in text
    assert "tile 1" in text
    assert "much" in text
    assert "638,976 bytes" in text
    assert check_report(tmp_path) == [], "the compilation is in a finished report"


def test_only_who_allows_it_gets_an_engine_that_does_not_fit() -> None:
    graph, builder = overfull()
    executable = compile_programs(graph, [builder.sequence])
    with pytest.raises(OutOfTileMemory):
        Engine(executable, resolve_options(code={"debug.allowOutOfMemory": False}))
    options = resolve_options(code={"debug.allowOutOfMemory": True})
    with Engine(executable, options) as engine, pytest.raises(OutOfTileMemory):
        engine.run()


def test_values_survive_between_runs_and_engines_are_apart() -> None:
    graph, builder = new()
    x = graph.add_variable("float32", (6,), "x")
    graph.map_linearly(x)
    out = unary(builder, "square", x)
    executable = compile_programs(graph, [builder.sequence])
    with (
        Engine(executable, resolve_options()) as item,
        Engine(executable, resolve_options()) as two,
    ):
        item.write_tensor(x, np.full(6, 3.0))
        two.write_tensor(x, np.full(6, 4.0))
        for engine in (item, two, item):
            engine.run()
        assert item.read_tensor(out).tolist() == [9.0] * 6
        assert two.read_tensor(out).tolist() == [16.0] * 6


def test_what_a_tile_cannot_allocate_is_not_counted_as_room() -> None:
    """A GC2 tile has 262,144 bytes, of which the two regions are 253,952."""
    graph = Graph(load_machine("gc2", tiles_per_ipu=1))
    used = compile_programs(graph, []).memory.including_gaps[0]
    for extra, fits in ((0, True), (8, False)):
        graph = Graph(load_machine("gc2", tiles_per_ipu=1))
        n_bytes = 253_952 - int(used) + extra
        x = graph.add_constant(np.zeros(n_bytes // 4, np.float32), "x")
        graph.set_tile_mapping(x, [0], [0])
        executable = compile_programs(graph, [])
        assert (executable.overfull_tiles.size == 0) == fits
        overflowed = sum(split[2].sum() for split in executable.memory.categories.values())
        assert overflowed == extra


def test_a_report_states_that_loops_are_spread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Limit the trace to its minimal number of entries and counts to 10."""
    monkeypatch.setattr("tilescope.engine.execute.track._MOST_WRITTEN_OUT", 1)
    monkeypatch.setattr("tilescope.engine.recorder.runs._MOST_COUNT", 10)
    graph, _ = new()
    x, y = (graph.add_variable("float32", (6,), name) for name in "xy")
    for tensor in (x, y):
        graph.map_linearly(tensor)
    inner = Repeat(5, Copy(x, y))
    program = Repeat(9, Sequence("round", [inner, Copy(y.reverse(0), x)]))
    settings = {"autoReport.all": "true", "autoReport.directory": str(tmp_path)}
    executable = compile_programs(graph, [program])
    with Engine(executable, resolve_options(environ={}, code=settings)) as engine:
        engine.run()
        cycles = engine.timelines()[0].n_cycles
        with engine.get_report() as report:
            ((severity, code),) = report.rows(notice, "severity", "code")
            assert (severity, code) == ("info", "loops_spread")
            start, end = (report.array(f"trace.{side}_cycle").read() for side in ("start", "end"))
            count = report.array("trace.count").read()
            assert count.max() == 10
            assert ((end - start) * count).sum() == cycles
    assert check_report(tmp_path / "profile.pop") == []
