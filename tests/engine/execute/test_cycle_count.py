"""Programs that measure themselves, against the steps of the trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.oracle.naive_codelets import NAIVE

from tilescope.engine import Builder, Engine, Executable, Graph, Tensor, compile_programs
from tilescope.engine.codelets.cycle_counter import CYCLE_COUNT, CYCLE_STAMP
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import ROOT
from tilescope.engine.library.poplin.convolution import matmul
from tilescope.engine.library.popops.cycle_count import cycle_count, cycle_stamp
from tilescope.engine.library.popops.elementwise.fill import fill
from tilescope.engine.library.popops.elementwise.in_place import binary_in_place
from tilescope.engine.library.popops.elementwise.operations import binary, unary
from tilescope.engine.machine import load_machine
from tilescope.engine.program import Repeat, RepeatWhile, Sequence, StreamCopyOut


def _graph(n_ipus: int = 1) -> tuple[Graph, Tensor]:
    graph = Graph(load_machine("gc200", tiles_per_ipu=8, n_ipus=n_ipus))
    x = graph.add_variable("float32", (32, 32), "x")
    graph.map_linearly(x)
    return graph, x


def _part(graph: Graph, x: Tensor, name: str = "part") -> Sequence:
    """Return a part with exchanges, syncs and several compute sets."""
    part = Sequence(name)
    builder = Builder(graph, part, ROOT)
    product = matmul(builder, x.reshape(1, 32, 32), x.dim_shuffle(1, 0).reshape(1, 32, 32))
    unary(builder, "exp", product)
    return part


def _number(low_and_high: np.ndarray) -> int:
    assert low_and_high.dtype == np.uint32
    return int(low_and_high[0]) + (int(low_and_high[1]) << 32)


def _moments(device: Any, executable: Executable, ipu: int = 0) -> tuple[list[int], list[int]]:
    """Return the end of every start of a measurement, and the start of every end, in the trace."""
    timeline = device.timelines()[ipu]
    names = {
        step.step_id: batch.codelet.name
        for step in executable.steps
        if step.compute_set
        for batch in step.compute_set.batches
    }
    starts, ends = [], []
    for index, step_id in enumerate(timeline.step_id.tolist()):
        turns = np.arange(int(timeline.count[index])) * int(timeline.period[index])
        if names.get(step_id) == "poplar::CycleStamp":
            starts += (turns + int(timeline.end[index])).tolist()
        if names.get(step_id) == "poplar::CycleCount":
            ends += (turns + int(timeline.start[index])).tolist()
    return sorted(starts), sorted(ends)


@pytest.mark.parametrize(
    ("n_ipus", "tile", "external"), [(1, 3, False), (2, 11, True), (2, 0, False)]
)
def test_a_count_is_the_time_of_the_part_in_the_trace(
    n_ipus: int, tile: int, external: bool
) -> None:
    graph, x = _graph(n_ipus)
    part = _part(graph, x)
    count = cycle_count(graph, part, tile, external=external)
    assert (count.dtype.name, count.shape) == ("uint32", (2,))
    assert graph.tile_mapping(count).elements_by_tile(graph.machine.n_tiles)[tile] == 2
    executable = compile_programs(graph, [Sequence("all", [_part(graph, x, "other"), part])])
    with Engine(executable) as device:
        for _ in range(2):
            device.run()
        actual = _number(device.read_tensor(count))
        (start,), (end,) = _moments(device, executable, tile // 8)
    assert actual == end - start
    # The second way: the costs of all steps between the two.
    offset = [
        i for i, step in enumerate(executable.steps) if step.name.endswith(("/start", "/end"))
    ]
    between = executable.steps[offset[0] + 1 : offset[1]]
    assert len(between) > 4
    if n_ipus == 1:
        assert actual == sum(int(step.cost.cycles.dense()[0]) for step in between)


def test_a_count_in_a_loop_is_that_of_the_last_round() -> None:
    graph, x = _graph()
    part = _part(graph, x)
    count = cycle_count(graph, part, 0)
    executable = compile_programs(graph, [Repeat(5, part)])
    with Engine(executable) as device:
        device.run()
        actual = _number(device.read_tensor(count))
        starts, ends = _moments(device, executable)
    assert (len(starts), len(ends)) == (5, 5)
    assert [end - start for start, end in zip(starts, ends, strict=True)] == [actual] * 5


def test_a_count_of_a_data_dependent_part() -> None:
    counts = []
    for rounds in (1, 4):
        graph, x = _graph()
        counter = graph.add_variable("int32", (1,), "counter")
        variable = graph.add_constant([1], "one")
        last = graph.add_constant([rounds], "rounds")
        for tensor in (counter, variable, last):
            graph.set_tile_mapping(tensor, [0], [0])
        program = Sequence("all")
        fill(Builder(graph, program, ROOT), counter, 0)
        condition, body = Sequence("condition"), _part(graph, x)
        is_left = binary(Builder(graph, condition, ROOT), "less", counter, last)
        binary_in_place(Builder(graph, body, ROOT), "add", counter, variable)
        part = Sequence("loop", [RepeatWhile(condition, is_left, body)])
        count = cycle_count(graph, part, 2)
        program.add(part, StreamCopyOut(count, "count"))
        executable = compile_programs(graph, [program])
        with Engine(executable) as device:
            device.run()
            counts.append(_number(device.output("count")))
            (start,), (end,) = _moments(device, executable)
        assert counts[-1] == end - start
    first, second = counts
    round_cycles, rest = divmod(second - first, 3)  # three more rounds
    assert rest == 0
    assert 0 < first - round_cycles < round_cycles  # the last condition is tested alone


def test_stamps_are_of_one_counter_that_goes_on_from_run_to_run() -> None:
    graph, x = _graph()
    program = Sequence("all")
    first = cycle_stamp(graph, program, 1, name="first")
    program.add(_part(graph, x))
    second = cycle_stamp(graph, program, 1, name="second")
    executable = compile_programs(graph, [program])
    visited = []
    with Engine(executable) as device:
        for _ in range(2):
            device.run()
            starts, _ = _moments(device, executable)
            stamps = [_number(device.read_tensor(stamp)) for stamp in (first, second)]
            visited.append(stamps[0])
            assert np.diff(stamps).tolist() == np.diff(starts).tolist()
        assert visited[0] == starts[0]
        assert visited[1] - visited[0] == device.timelines()[0].n_cycles


@pytest.mark.parametrize(("begin", "end"), [(0, 7), (2**32 - 50, 2**32 + 3), (2**40, 2**41 + 1)])
def test_counters_are_wider_than_32_bits(begin: int, end: int) -> None:
    start, out = np.zeros((2, 2), np.uint32)
    CYCLE_STAMP.kernel(start, begin - 45)
    assert _number(start) == begin
    CYCLE_COUNT.kernel(start, out, end)
    assert _number(out) == end - begin
    twins = [
        NAIVE["poplar::CycleStamp"]({}, {"clock": begin - 45}, (2,)),
        NAIVE["poplar::CycleCount"]({"start": start}, {"clock": end}, (2,)),
    ]
    assert [twin.tolist() for twin in twins] == [start.tolist(), out.tolist()]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g, s: cycle_count(g, s, 8), "tile 8, but the machine has tiles 0 to 7"),
        (lambda g, _: cycle_count(g, g, 0), "a program.Sequence"),
        (lambda g, s: cycle_stamp(g, s, 0, external=s), "external"),
        (lambda _, s: cycle_stamp(s, s, 0), "a graph"),
    ],
)
def test_invalid_arguments(call: Callable[[Any, Any], Any], message: str) -> None:
    graph, _ = _graph()
    with pytest.raises(BadGraph, match=message):
        call(graph, Sequence())
