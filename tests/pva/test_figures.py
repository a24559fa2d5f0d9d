"""Figures that scripts written against libpva compute are those of ``tilescope summary``."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import cbor2
import numpy as np
import pytest
from tests.golden.recipe import GOLDEN, network
from tests.pva import clients
from tests.pva_clients.reports import Case, all_cases
from tests.training_report import training_report

import pva
from tilescope import analyser, engine
from tilescope.analyser.summary.metrics import ipu_values
from tilescope.analyser.time.execution import PHASES
from tilescope.engine import Builder, compile_model, compile_programs, load_machine
from tilescope.engine.graph import ROOT
from tilescope.engine.library.popops.elementwise.operations import unary
from tilescope.engine.program import (
    Block,
    Overlap,
    Repeat,
    Sequence,
    StreamCopyIn,
    StreamCopyOut,
)
from tilescope.main import main

Client = Callable[[pva.Report], dict[str, int]]
CLIENTS = (
    clients.by_busiest_tile,
    clients.by_ipu_cycles,
    clients.by_intervals,
    clients.by_visitor,
)


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    """Reports of a function called thrice, of a pipeline on two IPUs, and of a network."""
    return {case.kind: case for case in all_cases(tmp_path_factory.mktemp("cases"))}


def summary(path: Path) -> dict[str, Any]:
    """Return what ``tilescope summary --json`` prints."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        assert main(["summary", str(path), "--json"]) == 0
    results: dict[str, Any] = json.loads(printed.getvalue())
    return results


def options(directory: Path) -> engine.EngineOptions:
    return engine.resolve_options(
        code={"autoReport.all": True, "autoReport.directory": str(directory)}
    )


@pytest.fixture(scope="module")
def network_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network on one IPU of eight tiles, run twice."""
    directory = tmp_path_factory.mktemp("network")
    compiled = compile_model(network(), load_machine("gc200", tiles_per_ipu=8))
    with engine.Engine(compiled.executable, options(directory)) as device:
        for _ in range(2):
            compiled.run(device, compiled.random_inputs(0))
    return directory / "profile.pop"


@pytest.fixture(scope="module")
def loop_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with a loop, blocks and stream copies on one IPU of four tiles."""
    directory = tmp_path_factory.mktemp("loop")
    graph = engine.Graph(load_machine("gc200", tiles_per_ipu=4))
    x = graph.add_variable("float32", (4096,), "x")
    graph.map_linearly(x)
    inner = Sequence("inner")
    y = unary(Builder(graph, inner, ROOT), "exp", x)
    round_ = Block("round", Repeat(2, inner))
    program = Sequence("main", [StreamCopyIn("in", x), Repeat(3, round_), StreamCopyOut(y, "out")])
    executable = compile_programs(graph, [program])
    with engine.Engine(executable, options(directory)) as device:
        device.connect_stream("in", lambda: np.zeros(4096, np.float32))
        device.connect_stream("out", lambda _: None)
        device.run()
    return directory / "profile.pop"


@pytest.fixture(params=["network_report", "loop_report"])
def one_ipu(request: pytest.FixtureRequest) -> Path:
    path: Path = request.getfixturevalue(request.param)
    return path


@pytest.mark.parametrize("client", CLIENTS)
def test_every_way_of_adding_cycles_up_gives_the_summary(one_ipu: Path, client: Client) -> None:
    rows = summary(one_ipu)["execution"]
    with pva.openReport(one_ipu) as report:
        cycles = client(report)
        total = report.execution.totalCycles.total
    assert total == rows["total_cycles"]
    assert sum(cycles.values()) == total
    assert cycles["StreamCopyMid"] > 0
    for phase in set(clients.PHASES.values()):
        expected = rows[f"{phase}_cycles"]
        actual = sum(cycles.get(kind, 0) for kind, of in clients.PHASES.items() if of == phase)
        assert actual == expected, phase
        assert clients.shares(cycles).get(phase, 0) == pytest.approx(expected / total)


def assert_tile_cycles(path: Path) -> None:
    """Assert that a script which adds up all tiles finds the tile cycles of the summary."""
    rows = summary(path)["execution"]
    with pva.openReport(path) as report:
        cycles = clients.by_all_tiles(report)
    for phase in PHASES:
        actual = sum(cycles.get(kind, 0) for kind, of in clients.PHASES.items() if of == phase)
        assert actual == rows[f"tile_cycles_{phase}_cycles"], phase
    assert rows["tile_cycles_compute_cycles"] > 0


def test_adding_all_tiles_up_gives_the_tile_cycles_of_the_summary(one_ipu: Path) -> None:
    assert_tile_cycles(one_ipu)


def test_all_tiles_of_several_ipus_give_the_tile_cycles_of_the_summary() -> None:
    assert_tile_cycles(GOLDEN)


def test_a_step_takes_on_tiles_what_it_takes_on_its_ipu(one_ipu: Path) -> None:
    with pva.openReport(one_ipu) as report:
        for step in report.execution.steps:
            (ipu,) = step.ipus
            assert max(ipu.cyclesByTile) == ipu.cycles
            active = ipu.activeCycles
            assert active.cyclesTo.max - active.cyclesFrom.min == ipu.cycles
            assert step.cyclesByTile == ipu.cyclesByTile


def test_several_ipus_that_work_together_give_the_summary() -> None:
    rows = summary(GOLDEN)["execution"]
    with pva.openReport(GOLDEN) as report:
        cycles = clients.by_busiest_tile(report)
    assert sum(cycles.values()) == rows["total_cycles"]
    for phase in set(clients.PHASES.values()):
        actual = sum(cycles.get(kind, 0) for kind, of in clients.PHASES.items() if of == phase)
        assert actual == rows[f"{phase}_cycles"], phase


@pytest.mark.parametrize("ipu_id", [0, 1])
def test_several_ipus_have_figures_of_their_own(ipu_id: int) -> None:
    """Cycles of an IPU include what it waited for others, which steps that sync tell."""
    with pva.openReport(GOLDEN) as report, analyser.open(GOLDEN) as opened:
        expected = {name: values[ipu_id] for name, values in ipu_values(opened).items()}
        cycles = clients.by_ipu_cycles(report, ipu_id)
        assert sum(run.cyclesByIpu[ipu_id] for run in report.execution.runs) == sum(cycles.values())
        for phase in set(clients.PHASES.values()):
            actual = sum(cycles.get(kind, 0) for kind, of in clients.PHASES.items() if of == phase)
            assert actual == expected[f"cycles.{phase}"], phase
        for client in (clients.by_intervals, clients.by_visitor):
            assert client(report, ipu_id) == cycles
        waited = sum(
            ipu.cycles - max(ipu.cyclesByTile)
            for step in report.execution.steps
            for ipu in [step.ipus[ipu_id]]
        )
        assert waited == (expected["cycles.waiting"] or 0)
        tiles = report.compilation.ipus[ipu_id].tiles
        held = sum(tile.memory.total.excludingGaps for tile in tiles)
        assert held == expected["memory.total"]


def test_an_ipu_that_takes_no_part_is_all_zero() -> None:
    with pva.openReport(GOLDEN) as report:
        idle = [ipu for step in report.execution.steps for ipu in step.ipus if not ipu.cycles]
        assert idle
        for ipu in idle:
            spans = (ipu.activeCycles, ipu.allCycles)
            ends = [item for span in spans for item in (span.cyclesFrom, span.cyclesTo)]
            assert {value for end in ends for value in (end.min, end.max)} == {0}
            assert (ipu.dataIn, ipu.dataOut, ipu.tileBalance) == (0, 0, 0.0)


def test_exchanges_between_ipus_have_an_end() -> None:
    with pva.openReport(GOLDEN) as report:
        exchanges = [
            step
            for step in report.execution.steps
            if type(step.program).__name__ == "GlobalExchangeProgram"
        ]
        assert exchanges
        for step in exchanges:
            for ipu in step.ipus:
                assert ipu.activeCycles.cyclesTo.max == ipu.allCycles.cyclesTo.max > 0
                assert ipu.dataIn + ipu.dataOut > 0
        assert all(cycles > 0 for cycles in clients.pipeline_cycles(report))


def test_microseconds_are_cycles_over_the_clock(one_ipu: Path) -> None:
    with pva.openReport(one_ipu) as report:
        clock = report.compilation.target.clockFrequency
        for run in report.execution.runs:
            time = run.microseconds.end - run.microseconds.start
            assert isinstance(time, int)
            assert time == pytest.approx(max(run.cyclesByIpu) / clock * 1e6, abs=1)
            assert time > 0


def test_syncs_are_named_by_their_reach() -> None:
    with pva.openReport(GOLDEN) as report:
        syncs = [
            program
            for program in report.compilation.programs
            if program.type is pva.Program.Type.Sync
        ]
        assert {program.name for program in syncs} == {"External", "Internal"}
        assert {type(program).__name__ for program in syncs} == {"Program"}


def test_memory_is_that_of_the_summary(one_ipu: Path) -> None:
    rows = summary(one_ipu)["memory"]
    with pva.openReport(one_ipu) as report:
        tiles = report.compilation.tiles
        held = clients.peak_memory(report)
        code = sum(tile.memory.category.vertexCode.total for tile in tiles)
        of_codelets = sum(vertices.codeBytes for tile in tiles for vertices in tile.memory.vertices)
    assert held == rows["always_live_bytes"] + rows["peak_not_always_live_bytes"]
    assert code == of_codelets == rows["vertex_code_bytes"]


def test_liveness_by_ipu_and_tile_adds_up() -> None:
    with pva.openReport(GOLDEN) as report:
        target = report.compilation.target
        for step in report.compilation.livenessProgramSteps:
            total = step.notAlwaysLiveMemory.bytes
            by_ipu = [step.notAlwaysLiveMemoryForIpu(i).bytes for i in range(target.numIPUs)]
            by_tile = [step.notAlwaysLiveMemoryForTile(i).bytes for i in range(target.numTiles)]
            assert sum(by_ipu) == sum(by_tile) == total


def test_lowered_variables_have_numbers_and_bytes_of_their_own() -> None:
    with pva.openReport(GOLDEN) as report:
        lowered = report.compilation.loweredVariables
        tiles = range(report.compilation.target.numTiles)
        every = [part for tile in tiles for part in lowered.forTile(tile)]
        brief = {variable.id: variable for variable in lowered.allBriefVars}
        assert len({part._id for part in every}) == len(every) == len(brief)
        for part in every:
            assert brief[part._id].bytes == part.bytes == part.unloweredVar.size
            assert brief[part._id].tileId == part.tileId
        constants = sum(tile.memory.category.constant.total for tile in report.compilation.tiles)
        always = {variable.name for variable in report.compilation.alwaysLiveVariables}
        assert sum(part.bytes for part in every if part.alwaysLive) >= constants > 0
        assert {part.name for part in every if part.alwaysLive} <= always


def test_live_bytes_follow_from_brief_variables() -> None:
    """A client adds up classes of parts that live at the same steps."""
    with pva.openReport(GOLDEN) as report:
        always = {
            part._id
            for tile in range(report.compilation.target.numTiles)
            for part in report.compilation.loweredVariables.forTile(tile)
            if part.alwaysLive
        }
        steps = report.compilation.livenessProgramSteps
        live = np.zeros(len(steps), dtype=np.int64)
        for variable in report.compilation.loweredVariables.allBriefVars:
            for interval in variable.equivalenceClass.steps:
                if variable.id not in always:
                    live[interval.start : interval.end] += variable.bytes
        assert live.tolist() == [step.notAlwaysLiveMemory.bytes for step in steps]


def test_code_of_programs_adds_up_to_that_of_tiles() -> None:
    with pva.openReport(GOLDEN) as report:
        programs, tiles = report.compilation.programs, report.compilation.tiles
        of_exchange = [
            program.codeBytesByTile
            for program in programs
            if isinstance(program, pva.DoExchangeProgram)
        ]
        held = [tile.memory.category.internalExchangeCode.total for tile in tiles]
        assert np.sum(of_exchange, axis=0).tolist() == held
        held = [tile.memory.category.controlCode.total for tile in tiles]
        assert programs[0].children
        assert np.sum([item.controlCodeByTile for item in programs], axis=0).tolist() == held
        childless = [item.controlCodeByTile for item in programs if not item.children]
        inside = np.sum(childless, axis=0)
        assert ((inside > 0) & (inside <= held)).all()


def test_calls_of_a_function_run_the_same_programs(cases: dict[str, Case]) -> None:
    with pva.openReport(cases["function"].path) as report:
        programs, tiles = report.compilation.programs, report.compilation.tiles
        compute = [program for program in programs if isinstance(program, pva.OnTileExecuteProgram)]
        assert len(compute) == len(report.compilation.computeSets) > 0
        assert len({program._id for program in programs}) == len(programs)
        state = sum(
            vertices.type.size * vertices.count
            for program in compute
            for vertices in program.computeset.vertices
        )
        assert state == sum(tile.memory.category.vertexInstanceState.total for tile in tiles) > 0
        held = [tile.memory.category.controlCode.total for tile in tiles]
        assert np.sum([program.controlCodeByTile for program in programs], axis=0).tolist() == held
        ran = [step.program for step in report.execution.steps]
        assert sum(program in compute for program in ran) == 3 * len(compute)


def test_a_stage_of_a_pipeline_does_not_work_while_it_waits(cases: dict[str, Case]) -> None:
    """As public clients do: the time between two exchanges without external syncs."""
    with pva.openReport(cases["pipeline"].path) as report:
        steps = {step.program.name: step for step in report.execution.steps}
        works = [
            steps["stage 0"].ipus[0].cycles,
            steps["stage 1"].ipus[1].cycles + steps["hand over"].ipus[1].cycles,
        ]
        assert clients.stage_cycles(report) == works
        assert works[1] > works[0]


def test_an_exchange_between_ipus_says_how_long_it_takes(cases: dict[str, Case]) -> None:
    with pva.openReport(cases["pipeline"].path) as report:
        exchanges = [
            step
            for step in report.execution.steps
            if isinstance(step.program, pva.GlobalExchangeProgram)
        ]
        for step in exchanges:
            assert isinstance(step.program, pva.GlobalExchangeProgram)
            cycles = step.program.cyclesTo.max - step.program.cyclesFrom.max
            assert cycles == max(ipu.cycles for ipu in step.ipus) > 0
        assert len(exchanges) == 4


def test_debug_contexts_are_in_a_file_beside_the_report(cases: dict[str, Case]) -> None:
    case = cases["network"]
    content = cbor2.loads(case.debug_info.read_bytes())
    assert content["format"] == "tilescope debug contexts"
    with pva.openReport(case.path, case.debug_info) as report:
        every = [operation.debugContext for operation in pva.OperationAnalysis(report).operations]
        results = {
            operation["debug_context_id"]: operation["name"] for operation in content["contexts"]
        }
        assert results == {operation.id: operation._found.name for operation in every}


def test_vertices_by_tile_add_up() -> None:
    with pva.openReport(GOLDEN) as report:
        total = 0
        for compute_set in report.compilation.computeSets:
            for vertices in compute_set.vertices:
                assert sum(vertices.countByTile) == vertices.count
                assert len(vertices.countByTile) == len(report.compilation.tiles)
                total += vertices.count
        assert total == report.compilation.graph.numVertices
        on_tiles = sum(
            vertices.count for tile in report.compilation.tiles for vertices in tile.memory.vertices
        )
        assert on_tiles == total


def test_variables_of_programs_and_operations() -> None:
    with pva.openReport(GOLDEN) as report:
        known = {variable.id for variable in report.compilation.loweredVariables.allBriefVars}
        for program in report.compilation.programs:
            names = {part.name for part in program.vars}
            if isinstance(program, pva.OnTileExecuteProgram):
                assert names
        for operation in pva.OperationAnalysis(report).operations:
            of_programs = {part._id for variable in operation.programs() for part in variable.vars}
            assert {part._id for part in operation.vars} == of_programs <= known
            assert operation.replacedDebugContext == []


def test_inputs_in_debug_contexts_are_names() -> None:
    with pva.openReport(GOLDEN) as report:
        results = [
            json.loads(operation.debugContext.json)
            for operation in pva.OperationAnalysis(report).operations
        ]
        inputs = [text["inputs"] for text in results if text["layer"] == "onnx"]
        assert inputs
        assert all(isinstance(name, str) for names in inputs for name in names)
        assert {text["op_type"] for text in results} >= {"Conv", "Relu", "MaxPool"}


def test_blocks_last_from_their_first_step_to_their_last(loop_report: Path) -> None:
    with pva.openReport(loop_report) as report:
        blocks = report.execution.blocks(0)
        rounds = [block for block in blocks if block.isCommon()]
        assert [block.program.name for block in rounds] == ["round"] * 3
        assert {block.program.type for block in rounds} == {pva.Program.Type.Block}
        steps = [
            step.ipus[0].activeCycles
            for step in report.execution.steps
            if step.program.type is pva.Program.Type.OnTileExecute
        ]
        assert len(steps) == 6
        assert [block.cyclesTo for block in rounds] == [step.cyclesTo.max for step in steps[1::2]]
        assert all(block.cyclesFrom < block.cyclesTo for block in blocks)
        copies = [block.program.name for block in blocks if block.isStreamCopy()]
        assert copies == ["in", "out"]
        assert not any(block.isBlockFlush() or block.isOverflow() for block in blocks)
        assert report.execution.blocks(3)[0].tile == 3


def test_calls_of_the_graph_api_know_their_line(loop_report: Path) -> None:
    with pva.openReport(loop_report) as report:
        positions = {
            (where.fileName, where.lineNumber > 0)
            for operation in pva.OperationAnalysis(report).operations
            for where in [operation.debugContext.location]
        }
    assert (Path(__file__).name, True) in positions


def test_an_engine_gives_its_report_and_tracks_are_threads(tmp_path: Path) -> None:
    graph = engine.Graph(load_machine("gc200", tiles_per_ipu=8), n_io_tiles=2)
    coming = graph.add_variable("float32", (4096,), "coming")
    graph.map_linearly(coming, grain=8, tiles=graph.io_tiles)
    x = graph.add_variable("float32", (4096,), "x")
    graph.map_linearly(x, grain=8)
    compute = Sequence("compute")
    unary(Builder(graph, compute, ROOT), "exp", x)
    beside = Overlap(io=StreamCopyIn("in", coming), compute=compute, name="beside")
    executable = compile_programs(graph, [Sequence("main", [beside])])
    with engine.Engine(executable, options(tmp_path)) as device:
        device.connect_stream("in", lambda: np.zeros(4096, np.float32))
        device.run()
        with pva.getReport(device) as report:
            total = report.execution.totalCycles.total
            clock = report.compilation.target.clockFrequency / 1e6
            kinds = {program.type for program in report.compilation.programs}
    assert pva.Program.Type.Unknown in kinds, "libpva has no programs that run at the same time"
    with pva.openTrace(tmp_path) as trace:
        ((compute_thread, io_thread),) = (process.threads for process in trace.processes)
        assert (compute_thread.tid, io_thread.tid) == (0, 1)
        assert compute_thread.events[0].duration * clock == pytest.approx(total)
        assert [step.label for step in io_thread.events[0].children()] == ["in"] * 3
        labels = {step.label for step in compute_thread.events[0].children()}
        assert "in" not in labels
        assert labels


def test_debug_contexts_of_a_training_have_pass_and_origin() -> None:
    with pva.openReport(training_report()) as report:
        properties = [
            json.loads(operation.debugContext.json)
            for operation in pva.OperationAnalysis(report).operations
        ]
    (gradient,) = (item for item in properties if item["opName"] == "relu:ReluDataGrad")
    assert (gradient["pass"], gradient["origin"]) == ("data gradient", "relu")
    assert gradient["outputs"] == ["Gradient___h"]
    assert "origin" not in next(item for item in properties if item["opName"] == "Update/w1")
