"""Streams with callbacks and remote buffers: values, costs and errors."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tilescope.engine import Engine, Graph, Tensor, compile_programs, load_machine, resolve_options
from tilescope.engine.codelets.popops.elementwise.operations import BINARY
from tilescope.engine.errors import BadGraph, BadInput, RunFailed
from tilescope.engine.graph import blocks
from tilescope.engine.program import (
    Execute,
    Program,
    RemoteCopyIn,
    RemoteCopyOut,
    Repeat,
    Sequence,
    StreamCopyIn,
    StreamCopyOut,
)

NO_REPORT = resolve_options(environ={})


def new(n_ipus: int = 1) -> Graph:
    return Graph(load_machine("gc200", tiles_per_ipu=4, n_ipus=n_ipus))


def variable(graph: Graph, name: str, shape: tuple[int, ...], dtype: str = "float32") -> Tensor:
    tensor = graph.add_variable(dtype, shape, name)
    graph.map_linearly(tensor)
    return tensor


def engine_for(graph: Graph, *programs: Program) -> Engine:
    return Engine(compile_programs(graph, list(programs)), NO_REPORT)


def count_up(graph: Graph, row: Tensor) -> Execute:
    """Add 1 to a number on the device."""
    tensor = graph.add_constant(np.array([1], np.int32), "one")
    graph.set_tile_mapping(tensor, [0], [0])
    compute_set = graph.add_compute_set("count")
    add = BINARY["add"]
    names = [field.name for field in add.fields]
    regions = [blocks(t.variable, 0, [1], [1], 1) for t in (row, tensor, row)]
    graph.add_vertices(compute_set, add, [0], dict(zip(names, regions, strict=True)))
    return Execute(compute_set)


def test_callbacks_are_called_at_every_copy() -> None:
    graph = new()
    x = variable(graph, "x", (6,))
    body = Sequence("body", [StreamCopyIn("in", x), StreamCopyOut(x, "out")])
    with engine_for(graph, Repeat(5, body)) as device:
        values = [np.full(6, float(i)) for i in range(5)]
        coming = iter(values)
        results: list[np.ndarray] = []
        device.connect_stream("in", lambda: next(coming))
        device.connect_stream("out", results.append)
        device.run()
        assert np.array(results).tolist() == np.array(values).tolist()
        device.connect_stream("in", lambda: np.zeros(5))
        with pytest.raises(BadInput, match=r"'in' takes an array of shape \(6,\), not \(5,\)"):
            device.run()


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "bool"])
def test_rows_go_in_and_out(dtype: str) -> None:
    graph = new()
    x = variable(graph, "x", (2, 3), dtype)
    buffer = graph.add_remote_buffer("store", dtype, 6, 4)
    program = Sequence("main", [RemoteCopyIn(buffer, x, 3), RemoteCopyOut(x, buffer, 1)])
    values = np.random.default_rng(0).integers(0, 2, (4, 6)).astype(dtype)
    with engine_for(graph, program) as device:
        device.write_remote(buffer, values)
        device.run()
        expected = values.copy()
        expected[1] = expected[3]
        assert device.read_remote(buffer).dtype == np.dtype(dtype)
        assert device.read_remote(buffer).tolist() == expected.tolist()
        assert device.read_tensor(x).tolist() == values[3].reshape(2, 3).tolist()
        device.write_remote(buffer, np.zeros(6, dtype), row=3)
        assert device.read_remote(buffer, 3).tolist() == [0] * 6


def test_the_device_chooses_the_row() -> None:
    """A loop copies every row to the next one, with a row number that it increments."""
    graph = new()
    x, row = variable(graph, "x", (8,)), variable(graph, "row", (1,), "int32")
    buffer = graph.add_remote_buffer("store", "float32", 8, 5)
    body = [RemoteCopyIn(buffer, x, row), count_up(graph, row), RemoteCopyOut(x, buffer, row)]
    with engine_for(graph, Repeat(4, Sequence("body", body))) as device:
        device.write_remote(buffer, np.arange(40).reshape(5, 8))
        device.run()
        assert device.read_remote(buffer).tolist() == [list(range(8))] * 5
        assert device.read_tensor(row).tolist() == [4]
        with pytest.raises(RunFailed, match=r"row 5 of remote buffer 'store', which has rows 0 to"):
            device.run()


def test_several_rows_at_once_and_through_a_view() -> None:
    graph = new()
    x, rows = variable(graph, "x", (2, 4)), variable(graph, "rows", (2,), "int32")
    buffer = graph.add_remote_buffer("store", "float32", 4, 3)
    program = Sequence(
        "main", [RemoteCopyIn(buffer, x, rows), RemoteCopyOut(x.reverse(0), buffer, rows)]
    )
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    with engine_for(graph, program) as device:
        device.write_remote(buffer, values)
        device.write_tensor(rows, [2, 0])
        device.run()
        assert device.read_tensor(x).tolist() == values[[2, 0]].tolist()
        assert device.read_remote(buffer).tolist() == values[[2, 1, 0]].tolist()


def test_buffers_that_streaming_memory_cannot_hold() -> None:
    room_bytes = new().machine.streaming_memory_bytes
    with pytest.raises(BadGraph) as refused:
        new().add_remote_buffer("table", "float32", room_bytes // 4, 2)
    text = str(refused.value)
    assert "'table'" in text
    assert f"{2 * room_bytes:,} bytes" in text
    assert f"with 1 IPU holds {room_bytes:,} bytes." in text
    # Two IPUs have twice as much, which buffers share.
    graph = new(n_ipus=2)
    graph.add_remote_buffer("table", "float32", room_bytes // 4, 2)
    with pytest.raises(
        BadGraph, match=rf"'last' takes 2 bytes.*other buffers take {2 * room_bytes:,}\."
    ):
        graph.add_remote_buffer("last", "float16", 1)


def test_buffers_that_this_computer_cannot_hold(tmp_path: Path) -> None:
    path = tmp_path / "large.toml"
    path.write_text('base = "gc200"\n[common]\nstreaming_memory_bytes = 1125899906842624\n')
    graph = Graph(load_machine(str(path), tiles_per_ipu=4))
    graph.add_remote_buffer("table", "float32", 1 << 48)
    with pytest.raises(RunFailed, match=r"'table' takes .* more than this computer has memory"):
        engine_for(graph, Sequence("nothing"))


def test_streaming_memory_costs_its_own_rate() -> None:
    graph = new(n_ipus=2)
    machine = graph.machine
    x = graph.add_variable("float32", (30_000,), "x")
    graph.map_linearly(x)
    half = x.slice(0, 0, 15_000)  # all of it on IPU 0
    buffer = graph.add_remote_buffer("store", "float32", 15_000)
    programs = [
        RemoteCopyIn(buffer, half),
        StreamCopyIn("in", half),
        RemoteCopyOut(half, buffer),
        StreamCopyOut(half, "out"),
    ]
    executable = compile_programs(graph, [Sequence("main", programs)])
    costs = [step.cost for step in executable.steps if step.kind == "StreamCopyMid"]
    rates = [machine.streaming_bytes_per_cycle, machine.host_bytes_per_cycle] * 2
    columns = ("remote_in_bytes", "host_in_bytes", "remote_out_bytes", "host_out_bytes")
    for cost, rate, column in zip(costs, rates, columns, strict=True):
        moved = {name: getattr(cost, name).tolist() for name in columns}
        assert moved == {name: [60_000 * (name == column), 0] for name in columns}
        data = max(np.ceil(60_000 / rate), np.ceil(15_000 / machine.exchange_bytes_per_cycle))
        assert cost.cycles.tolist() == [data + machine.host_copy_cycles] * 2


def test_what_does_not_agree_is_refused() -> None:
    graph, peer = new(), new()
    x, row = variable(graph, "x", (8,)), variable(graph, "row", (1,))
    buffer = graph.add_remote_buffer("store", "float32", 8, 2)
    with pytest.raises(BadGraph, match="'store' already exists"):
        graph.add_remote_buffer("store", "int32", 1)
    with pytest.raises(BadGraph, match="0 rows of 3"):
        graph.add_remote_buffer("none", "int32", 3, 0)
    with pytest.raises(BadGraph, match="rows 0 to 1, not 2"):
        RemoteCopyIn(buffer, x, 2)
    with pytest.raises(BadGraph, match="are int32, not float32"):
        RemoteCopyOut(x, buffer, row)
    with pytest.raises(BadGraph, match=re.escape("do not match a tensor of float32 (4,)")):
        RemoteCopyIn(buffer, x.slice(0, 0, 4))
    foreign = peer.add_remote_buffer("theirs", "float32", 8)
    with pytest.raises(BadGraph, match="Remote buffer 'theirs' belongs to another graph"):
        compile_programs(graph, [RemoteCopyIn(foreign, x)])
    with engine_for(graph, RemoteCopyIn(buffer, x)) as device:
        with pytest.raises(BadGraph, match="Remote buffer 'theirs' belongs to another graph"):
            device.read_remote(foreign)
        with pytest.raises(BadInput, match="rows 0 to 1, not -1"):
            device.read_remote(buffer, -1)
        with pytest.raises(BadInput, match=re.escape("takes an array of shape (2, 8), not (8,)")):
            device.write_remote(buffer, np.zeros(8))


def test_a_buffer_begins_with_values() -> None:
    graph = new()
    x = variable(graph, "x", (3,), "float16")
    values = np.arange(6).reshape(2, 3)
    buffer = graph.add_remote_buffer("table", "float16", 3, 2, values)
    with pytest.raises(BadGraph, match=re.escape("'short' takes values of shape (2, 3), not (6,)")):
        graph.add_remote_buffer("short", "float16", 3, 2, np.arange(6))
    with engine_for(graph, RemoteCopyIn(buffer, x, 1)) as device:
        device.run()
        assert device.read_tensor(x).tolist() == [3, 4, 5]
        assert device.read_remote(buffer).tolist() == values.tolist()
