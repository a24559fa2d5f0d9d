"""Overlapped I/O: values, time on two tracks, liveness, and rejected programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tilescope import engine
from tilescope.analyser.program.programs import node
from tilescope.analyser.summary.metrics import values
from tilescope.analyser.time.execution import execution
from tilescope.analyser.trace import extent, range_summary
from tilescope.engine import Builder, Executable, Graph, Tensor, load_machine, resolve_options
from tilescope.engine.errors import BadGraph
from tilescope.engine.execute.timeline import Timeline
from tilescope.engine.graph import ROOT, blocks
from tilescope.engine.library.poplin.convolution import matmul
from tilescope.engine.library.popops.elementwise.operations import unary
from tilescope.engine.library.popops.reduction.reduce import reduce
from tilescope.engine.program import (
    Call,
    Copy,
    Execute,
    Function,
    Overlap,
    Program,
    RemoteCopyIn,
    Repeat,
    RepeatWhile,
    Sequence,
    StreamCopyIn,
    StreamCopyOut,
)
from tilescope.reports import check_report, open_report

N_TILES, N_IO = 6, 2


@engine.codelet(
    engine.Field("x", "in"),
    engine.Field("out", "out"),
    law=lambda batch, _machine: batch.scalars["cycles"],
    code_bytes=20,
    scalars=(engine.Scalar("cycles"),),
)
def add_one(x, out, cycles):  # noqa: ARG001 - the law reads it
    for i in range(out.size):
        out[i] = x[i] + 1


@engine.codelet(
    engine.Field("x", "inout"),
    engine.Field("flag", "out"),
    law=lambda batch, _machine: 100 + batch.counts,
    code_bytes=20,
    is_data_dependent=True,
)
def count_down(x, flag):
    x[0] -= 1
    flag[0] = x[0] > 0
    return 7 * x[0]


class Small:
    """Buffers on the I/O tiles, and work of a chosen duration on tile 0."""

    def __init__(self, n_ipus: int = 1, parameters: str = "hardware") -> None:
        machine = load_machine(
            "gc200", n_ipus=n_ipus, tiles_per_ipu=N_TILES, parameter_set=parameters
        )
        self.graph = Graph(machine, n_io_tiles=N_IO)
        self.coming = self.variable("coming", self.graph.io_tiles)
        self.going = self.variable("going", self.graph.io_tiles)
        self.x = self.variable("x", None)
        self.y = self.variable("y", None)
        self.feed = StreamCopyIn("in", self.coming)
        self.fetch = StreamCopyOut(self.going, "out")
        self.take_over = Copy(self.coming, self.x, "take over")
        self.hand_over = Copy(self.y, self.going, "hand over")

    def variable(
        self, name: str, tiles: NDArray[np.int32] | None, dtype: str = "float32"
    ) -> Tensor:
        tensor = self.graph.add_variable(dtype, (8,), name)
        self.graph.map_linearly(tensor, grain=4, tiles=tiles)
        return tensor

    def work(self, cycles: int, x: Tensor | None = None, out: Tensor | None = None) -> Execute:
        x, out = x or self.x, out or self.y
        compute_set = self.graph.add_compute_set("work")
        start = np.array([0, 4])
        fields = {
            name: blocks(tensor.variable, start, [4], [1], 2)
            for name, tensor in (("x", x), ("out", out))
        }
        tile = out.variable.tile_of(start)
        self.graph.add_vertices(compute_set, add_one, tile, fields, {"cycles": cycles})
        return Execute(compute_set)

    def pipeline(self, cycles: int, n_batches: int) -> Sequence:
        compute, hand = self.work(cycles), Sequence("hand", [self.hand_over, self.take_over])
        both = Sequence("io", [self.fetch, self.feed])
        rounds = Sequence("round", [Overlap(both, compute, "beside"), hand])
        return Sequence(
            "main",
            [
                Sequence("fill", [self.feed, self.take_over, Overlap(self.feed, compute), hand]),
                Repeat(n_batches - 2, rounds, "rounds"),
                Sequence("drain", [Overlap(self.fetch, compute), self.hand_over, self.fetch]),
            ],
        )

    def compile(self, *programs: Program) -> Executable:
        return engine.compile_programs(self.graph, programs, is_checked=True)


def entries(executable: Executable, line: Timeline, name: str = "") -> list[tuple[str, int, int]]:
    """Return kind, start and end of the first round of every entry, optionally of one name."""
    steps = [executable.steps[i] for i in line.step_id]
    return [
        (step.kind, start, end)
        for step, start, end in zip(steps, line.start.tolist(), line.end.tolist(), strict=True)
        if step.name.startswith(name)
    ]


def cost_of(executable: Executable, kind: str) -> int:
    return int(next(step for step in executable.steps if step.kind == kind).cost.cycles[0])


@pytest.mark.parametrize("cycles", [1, 1_000, 100_000])
@pytest.mark.parametrize("n_ipus", [1, 2])
def test_a_pipeline_gives_every_result(cycles: int, n_ipus: int) -> None:
    small = Small(n_ipus)
    executable = small.compile(small.pipeline(cycles, 7))
    batches = np.arange(56, dtype=np.float32).reshape(7, 8)
    coming, results = iter(batches), list[Any]()
    with engine.Engine(executable, resolve_options()) as device:
        device.connect_stream("in", lambda: next(coming))
        device.connect_stream("out", results.append)
        device.run()
    assert np.array(results).tolist() == (batches + 1).tolist()


@pytest.mark.parametrize(("cycles", "longer"), [(10, "io"), (100_000, "compute")])
def test_it_takes_as_long_as_the_longer_side_and_the_other_waits(cycles: int, longer: str) -> None:
    small = Small()
    executable = small.compile(
        Sequence("main", [Overlap(small.feed, small.work(cycles), "beside")])
    )
    (line,) = engine.Engine(executable, resolve_options()).timelines()
    assert line.io is not None
    copy = sum(cost_of(executable, f"StreamCopy{part}") for part in ("Begin", "Mid", "End"))
    work = 6 * cycles  # one of six contexts has work
    assert line.n_cycles == max(copy, work)
    compute, io = entries(executable, line), entries(executable, line.io)
    assert compute[0] == ("OnTileExecute", 0, work)
    assert io[0] == ("StreamCopyBegin", 0, cost_of(executable, "StreamCopyBegin"))
    assert io[2][2] == copy
    waits = {"io": (compute[1:], work), "compute": (io[3:], copy)}
    for side, (rest, finished) in waits.items():
        assert rest == ([] if side != longer else [("Sync", finished, line.n_cycles)])


def test_phases_add_up_on_both_tracks_of_the_report(tmp_path: Path) -> None:
    small = Small(n_ipus=2)
    executable = small.compile(small.pipeline(900, 9))
    options = resolve_options(code={"autoReport.all": True, "autoReport.directory": str(tmp_path)})
    with engine.Engine(executable, options) as device:
        device.connect_stream("in", np.zeros(8))
        device.run()
        lines = device.timelines()
    assert check_report(tmp_path) == []
    with open_report(tmp_path) as report:
        actual, visited, summary = execution(report), extent(report), range_summary(report)
        metrics = values(report)
    longest = max(line.n_cycles for line in lines)
    assert sum(actual.phase_cycles.values()) == longest == metrics["cycles.total"]
    assert actual.phase_cycles["other"] == 0, "the compute track has no gaps: waiting is a sync"
    assert [(track.ipu_id, track.track) for track in visited.tracks] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    ]
    feeds = [step.step_id for step in executable.steps if step.kind == "StreamCopyMid"]
    assert actual.executions[:, feeds].sum() == 2 * 2 * 9, "two IPUs, in and out, nine batches"
    for line, row in zip(lines, summary.ipus, strict=True):
        assert sum(row.cycles_by_kind.values()) == row.cycles == line.n_cycles
        assert row.cycles_by_kind["idle"] == 0
    assert (metrics["host.bytes_in"], metrics["host.bytes_out"]) == (9 * 32, 9 * 32)


@pytest.mark.parametrize("cycles", [1, 100_000])
def test_the_program_tree_shows_the_wait_of_either_side(tmp_path: Path, cycles: int) -> None:
    """A join takes as long as the other side's lead, in every round."""
    small = Small()
    n_rounds = 5
    program = Repeat(n_rounds, Overlap(small.feed, small.work(cycles), "beside"), "rounds")
    executable = small.compile(program)
    options = resolve_options(code={"autoReport.all": True, "autoReport.directory": str(tmp_path)})
    with engine.Engine(executable, options) as device:
        device.connect_stream("in", np.zeros(8))
        device.run()
    copy = sum(cost_of(executable, f"StreamCopy{part}") for part in ("Begin", "Mid", "End"))
    work = 6 * cycles
    joins = [node.program_id for node in executable.nodes if node.name == "beside/join"]
    with open_report(tmp_path) as report:
        waits = (max(0, work - copy), max(0, copy - work))
        for join, wait in zip(joins, waits, strict=True):
            (cost,) = node(report, join).costs
            assert cost.cycles == 0
            assert cost.taken_cycles == n_rounds * wait
            assert cost.n_executions == (n_rounds if wait else 0)
        step = next(node for node in executable.nodes if node.kind == "OnTileExecute")
        (cost,) = node(report, step.program_id).costs
        assert (cost.cycles, cost.taken_cycles) == (work, n_rounds * work)


def test_what_either_side_holds_lives_at_the_steps_of_the_other() -> None:
    small = Small()
    inner = small.variable("inner", None)
    first, second = small.work(10, out=inner), small.work(10, x=inner)
    beside = Overlap(Sequence("io", [small.fetch, small.feed]), Sequence("c", [first, second]))
    program = Sequence(
        "main",
        [
            StreamCopyIn("x", small.x),
            StreamCopyIn("old", small.going),
            beside,
            StreamCopyOut(small.coming, "coming"),
            StreamCopyOut(small.y, "y"),
        ],
    )
    executable = small.compile(program)
    names = [f"{step.kind} {step.name}" for step in executable.steps]
    begin, middle = names.index("StreamCopyBegin out"), names.index("OnTileExecute work")
    end = names.index("StreamCopyBegin coming")  # the overlap is the steps before it

    def life(tensor: Tensor) -> tuple[int, int]:
        return executable.memory.lifetimes[tensor.variable.variable_id]

    assert life(small.x)[1] == middle + 1 > begin, "an input of compute, until it is used up"
    assert life(small.going)[1] == end, "an output that is sent while compute runs"
    assert life(small.coming) == (begin + 4, end + 2)
    assert life(small.y)[0] == begin, "compute may be done first"
    assert life(small.y)[1] == names.index("StreamCopyMid y") + 1
    assert life(inner) == (middle, middle + 2), "used up within its side"
    live = executable.memory.live.dense()
    on_io_tiles = [int(small.graph.io_tiles[0])]
    # Previous results being sent and data being received are live during all of compute.
    assert live[middle : middle + 2, on_io_tiles].tolist() == [[32], [32]]


def test_decisions_and_counted_work_run_on_the_compute_side() -> None:
    small = Small()
    left = small.variable("left", small.graph.compute_tiles[:1], "int32")
    flag = small.variable("flag", small.graph.compute_tiles[:1], "int32")
    compute_set = small.graph.add_compute_set("count down")
    fields = {
        name: blocks(tensor.variable, 0, [1], [1], 1)
        for name, tensor in (("x", left), ("flag", flag))
    }
    small.graph.add_vertices(compute_set, count_down, [0], fields)
    loop = RepeatWhile(Execute(compute_set), flag.slice(0, 0, 1), small.work(50), name="loop")
    beside = Overlap(small.feed, loop, "beside")
    feed_left = StreamCopyIn("left", left)
    executable = small.compile(Sequence("main", [feed_left, beside]))
    decision = next(
        s for s in executable.steps if s.name == "loop/decision" and s.code_bytes is not None
    )
    assert not decision.cost.received_bytes[small.graph.io_tiles].any()
    ends = {}
    for rounds in (1, 5):
        with engine.Engine(executable, resolve_options()) as device:
            device.connect_stream("in", np.arange(8.0))
            device.connect_stream("left", [rounds + 1] + [0] * 7)
            device.run()
            assert device.read_tensor(small.coming).tolist() == list(range(8))
            (line,) = device.timelines()
        assert line.io is not None
        assert max(line.io.end[-1], line.end[-1]) == line.n_cycles
        counted = [end - start for kind, start, end in entries(executable, line, "count down")]
        assert counted == [6 * (100 + 7 * left) for left in range(rounds, -1, -1)]
        ends[rounds] = line.n_cycles
    assert ends[1] < ends[5]


def test_a_function_is_compiled_for_every_side_it_runs_on() -> None:
    small = Small()
    helper = Function(small.work(10), "helper")
    program = Sequence("main", [Call(helper), Overlap(small.feed, Call(helper), "beside")])
    executable = small.compile(program)
    assert [root.name for root in executable.functions] == ["helper", "helper"]
    (line,) = engine.Engine(executable, resolve_options()).timelines()
    assert line.n_cycles > 60


def test_operations_of_the_library_leave_the_io_tiles_alone() -> None:
    machine = load_machine("gc200", n_ipus=2, tiles_per_ipu=N_TILES)
    graph = Graph(machine, n_io_tiles=N_IO)
    assert graph.io_tiles.tolist() == [4, 5, 10, 11]
    builder = Builder(graph, Sequence("program"), ROOT)
    x = graph.add_variable("float32", (1, 24, 16), "x")
    graph.map_linearly(x)
    product = matmul(builder, x, np.ones((1, 16, 20), np.float32))
    reduce(builder, "sum", unary(builder, "relu", product), [1])
    engine.compile_programs(
        graph, [Overlap(Sequence("nothing"), builder.sequence, "beside")], is_checked=True
    )
    used = {int(tile) for v in graph.variables for tile in v.map_tile}
    assert used == set(graph.compute_tiles.tolist())


def refused(make: Callable[[Small], Program], message: str) -> None:
    small = Small()
    with pytest.raises(BadGraph, match=message):
        small.compile(make(small))


def test_what_cannot_run_at_the_same_time_is_refused() -> None:
    def to(small: Small) -> Program:
        return small.work(1)

    refused(
        lambda s: Overlap(s.feed, s.take_over, "o"),
        r"Overlap 'o': DoExchange 'take over.*' on its compute side uses tile 4; I/O tiles are 4",
    )
    refused(
        lambda s: Overlap(StreamCopyIn("in", s.x), s.work(1, s.y, s.y), "o"),
        r"StreamCopyMid 'in' on its I/O side uses tile 0",
    )
    refused(lambda s: Overlap(to(s), s.feed, "o"), r"the copy 'in' is on its compute side")
    store = "store"
    refused(
        lambda s: Overlap(
            s.feed, RemoteCopyIn(s.graph.add_remote_buffer(store, "float32", 8), s.x), "o"
        ),
        r"the copy 'store' is on its compute side",
    )
    refused(
        lambda s: Overlap(s.feed, Overlap(s.fetch, to(s), "b"), "a"), r"'b' is nested in another"
    )


def test_a_variable_of_both_sides_is_refused() -> None:
    small = Small()
    shared = small.graph.add_variable("float32", (16,), "shared")
    pool = [*small.graph.io_tiles, *small.graph.compute_tiles[:2]]
    small.graph.map_linearly(shared, grain=4, tiles=pool)
    local, peer = shared.slice(0, 0, 8), shared.slice(0, 8, 16)
    compute = Sequence("compute", [Copy(peer, small.y)])
    with pytest.raises(
        BadGraph, match=r"'o': variable 'shared' is written on one side and used on"
    ):
        small.compile(Overlap(StreamCopyIn("in", local), compute, "o"))
    small.compile(Overlap(StreamCopyOut(local, "out"), compute, "o"))  # both read


def test_io_tiles_are_required() -> None:
    machine = load_machine("gc200", tiles_per_ipu=4)
    for n in (-1, 4):
        with pytest.raises(BadGraph, match=rf"n_io_tiles is {n}; it must be between 0 and 3"):
            Graph(machine, n_io_tiles=n)
    with pytest.raises(BadGraph, match=r"The number of I/O tiles is 2\.5: expected an integer"):
        Graph(machine, n_io_tiles=2.5)  # type: ignore[arg-type]
    with pytest.raises(BadGraph, match="1 I/O tiles of 4 would split the pair of tiles 2 and 3"):
        Graph(machine, n_io_tiles=1)
    graph = Graph(machine)
    with pytest.raises(BadGraph, match=r"Overlap 'o' needs I/O tiles"):
        engine.compile_programs(graph, [Overlap(Sequence(), Sequence(), "o")])


def test_the_host_lets_its_own_copies_wait_and_not_those_of_streaming_memory() -> None:
    machine = load_machine("gc200", tiles_per_ipu=2)
    graph = Graph(replace(machine, host_wait_cycles=1_000))
    x = graph.add_variable("float32", (8,), "x")
    graph.map_linearly(x)
    store = graph.add_remote_buffer("store", "float32", 8)
    executable = engine.compile_programs(
        graph, [Sequence("main", [StreamCopyIn("in", x), RemoteCopyIn(store, x)])]
    )
    assert [
        int(step.cost.cycles[0]) - machine.external_sync_cycles
        for step in executable.steps
        if step.kind != "StreamCopyMid"
    ] == [1_000, 1_000, 0, 0]


def test_the_published_program_overlaps_as_it_was_recorded() -> None:
    """One word is streamed in beside a vertex of 3,600 cycles, five times.

    Source: graphcore/tutorials, lightweight profiling, example 3, recorded on a Mk2 IPU.
    """
    machine = replace(load_machine("gc200", tiles_per_ipu=102), host_wait_cycles=80_000)
    graph = Graph(machine, n_io_tiles=2)
    coming, x = (graph.add_variable("float32", (1,), name) for name in ("in1", "in2"))
    graph.map_linearly(coming, tiles=[100])
    graph.map_linearly(x, tiles=[0])
    compute_set = graph.add_compute_set("operation")
    out = graph.add_variable("float32", (1,), "out")
    graph.map_linearly(out, tiles=[0])
    fields = {
        name: blocks(tensor.variable, 0, [1], [1], 1) for name, tensor in (("x", x), ("out", out))
    }
    graph.add_vertices(compute_set, add_one, [0], fields, {"cycles": 3_600 // 6})
    feed, take_over, operation = StreamCopyIn("in", coming), Copy(coming, x), Execute(compute_set)
    executable = engine.compile_programs(
        graph,
        [
            Sequence(
                "main",
                [
                    feed,
                    Repeat(4, Sequence("", [take_over, Overlap(feed, operation)])),
                    take_over,
                    operation,
                ],
            )
        ],
    )
    (line,) = engine.Engine(executable, resolve_options()).timelines()
    assert line.io is not None
    begin, middle, end = entries(executable, line.io)
    assert line.io.count.tolist() == [4, 4, 4]
    assert 77_330 <= begin[2] - begin[1] <= 88_338
    assert 1_491 <= middle[2] - middle[1] <= 1_771
    assert 79_556 <= end[2] - end[1] <= 84_180
    work = entries(executable, line, "operation")[0]
    assert begin[1] <= work[1] < work[2] < begin[2], "it is done before the copy has begun"
    recorded = 1_016_939_280 - 1_016_110_373
    assert line.n_cycles == pytest.approx(recorded, rel=0.03)
