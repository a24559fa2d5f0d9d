"""libpva programs on the small report."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.analyser.small_report import Shape, write_small_report

import pva
from tilescope.reports.schema import SCHEMA_VERSION


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_report(tmp_path_factory.mktemp("pva"))


@pytest.fixture(scope="module")
def report(path: Path) -> Iterator[pva.Report]:
    with pva.openReport(str(path)) as opened:
        yield opened


def test_target(report: pva.Report) -> None:
    target = report.compilation.target
    assert target.type is pva.Target.Type.IpuModel
    assert target.architecture is pva.IPU.Architecture.Ipu2
    assert (target.numIPUs, target.numTiles, target.tilesPerIpu) == (2, 8, 4)
    assert (target.bytesPerTile, target.bytesPerIPU, target.totalMemory) == (1000, 4000, 8000)
    assert target.clockFrequency == 1e9
    assert (target.numReplicas, target.ipusPerReplica, target.tilesPerReplica) == (1, 2, 8)


def test_graph(report: pva.Report) -> None:
    graph = report.compilation.graph
    assert (graph.numComputeSets, graph.numVertices, graph.numEdges) == (2, 14, 34)


def test_memory_of_tiles(report: pva.Report) -> None:
    tiles = report.compilation.tiles
    assert len(tiles) == 8
    assert sum(tile.memory.total.excludingGaps for tile in tiles) == 1776
    assert max(tile.memory.total.includingGaps for tile in tiles) == 288
    memory = tiles[0].memory
    assert memory.category.vertexCode.total == 160
    assert memory.category.constant.interleaved.nonOverlapped == 40
    assert memory.category.message.nonInterleaved.overlapped == 16
    assert memory.category.stack.total == 0
    assert (memory.alwaysLiveBytes, memory.notAlwaysLiveBytes) == (232, 32)
    assert memory.overflowed.includingGaps == 0
    assert [len(ipu.tiles) for ipu in report.compilation.ipus] == [4, 4]
    assert report.compilation.ipus[1].tiles[0].memory.total.includingGaps == 252
    assert not hasattr(memory, "used")


def test_peak_as_clients_compute_it(report: pva.Report) -> None:
    compilation = report.compilation
    always = sum(tile.memory.alwaysLiveBytes for tile in compilation.tiles)
    steps = compilation.livenessProgramSteps
    assert always + max(step.notAlwaysLiveMemory.bytes for step in steps) == 1616 + 128


def test_liveness(report: pva.Report) -> None:
    steps = report.compilation.livenessProgramSteps
    assert len(steps) == 7
    step = steps[2]
    assert step.program.name == "layer1/conv/exchange"
    assert step.notAlwaysLiveMemory.variables == [
        pva.Variable("in", 64),
        pva.Variable("layer1/conv/exchange", 32),
    ]
    assert step.notAlwaysLiveMemoryForIpu(1).bytes == 16
    assert step.notAlwaysLiveMemoryForTile(0).bytes == 32
    always = report.compilation.alwaysLiveVariables
    assert pva.Variable("vertexCode", 1040) in set(always)
    assert pva.Variable("weights", 40) in report.compilation.alwaysLiveVariablesForTile(7)


def test_lowered_variables(report: pva.Report) -> None:
    parts = report.compilation.loweredVariables.forTile(0)
    assert [(part.name, part.bytes, part.alwaysLive) for part in parts] == [
        ("in", 16, False),
        ("act", 16, False),
        ("layer1/conv/exchange", 16, False),
        ("weights", 40, True),
    ]
    assert parts[0].hasUnloweredVar
    assert parts[0].unloweredVar == pva.Variable("in", 16)


def test_programs(report: pva.Report) -> None:
    programs = report.compilation.programs
    assert len({program._id for program in programs}) == len(programs) == 10
    loop = next(program for program in programs if program.type is pva.Program.Type.Repeat)
    assert [child.type.name for child in loop.children] == ["DoExchange", "OnTileExecute"]
    run_relu = loop.children[1]
    assert type(run_relu).__name__ == "OnTileExecuteProgram"
    assert isinstance(run_relu, pva.Program)
    vertex = getattr(run_relu, "computeset").vertices[0]  # noqa: B009 - of one subclass only
    assert (vertex.type.name, vertex.type.size, vertex.count) == ("relu<half>", 6, 8)
    assert run_relu.estimatedCyclesByTile == [30] * 8
    assert programs[0].estimatedCyclesByTile == []
    assert run_relu == programs[7]
    assert len({run_relu, programs[7]}) == 1


def test_operations_as_clients_walk_them(report: pva.Report) -> None:
    layer, conv = pva.OperationAnalysis(report).operations
    assert (layer.name, conv.name) == ("layer1", "layer1/conv")
    assert [program.name for program in conv.programs()] == ["layer1/conv", "layer1/relu"]
    assert [program._id for program in layer.programs()] == [
        program._id for program in conv.programs()
    ]
    assert (layer.firstStepIndex, layer.lastStepIndex) == (3, 5)
    assert json.loads(conv.debugContext.json) == {
        "stride": 1, "layer": "library", "opName": "layer1/conv", "opType": "poplin.convolution",
        "op_name": "layer1/conv", "op_type": "poplin.convolution",
    }  # fmt: skip
    assert json.loads(conv.debugContext.layer) == {"layer": "library"}
    assert conv.debugContext.parents == [layer.debugContext]
    assert layer.debugContext.parents == []
    ran = conv.programs()[0]
    assert ran.debugContext == conv.debugContext
    assert report.compilation.programs[0].debugContext is None


def test_compute_sets(report: pva.Report) -> None:
    sets = report.compilation.computeSets
    assert [compute_set.name for compute_set in sets] == ["layer1/conv", "layer1/relu"]
    assert sets[0].estimatedCyclesByTile == [200, 150, 100, 50, 150, 150, 0, 0]


def test_visitor(report: pva.Report) -> None:
    class Visitor(pva.ProgramVisitor):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[str] = []

        def visitOnTileExecute(self, program: pva.Program) -> None:  # noqa: N802
            self.seen.append(program.name)

        def visitStreamCopyEnd(self, program: pva.Program) -> None:  # noqa: N802
            self.seen.append(program.name)

    visitor = Visitor()
    for program in report.compilation.programs:
        program.accept(visitor)
    assert visitor.seen == ["layer1/conv", "layer1/relu", "out_100%"]


def test_execution(report: pva.Report) -> None:
    execution = report.execution
    assert execution.totalCycles.total == 970
    assert [run.name for run in execution.runs] == ["run 0", "run 1"]
    assert execution.runs[0].cyclesByIpu == [485, 440]
    assert len(execution.steps) == 22
    assert sum(step.ipus[0].cycles for step in execution.runs[1].steps) == 485
    assert sum(step.ipus[1].cycles for step in execution.runs[1].steps) == 440
    conv = execution.steps[11 + 3]
    assert conv.program.name == "layer1/conv"
    assert conv.cyclesByTile == [200, 150, 100, 50, 150, 150, 0, 0]
    ipu = conv.ipus[0]
    assert (ipu.activeCycles.cyclesFrom.min, ipu.activeCycles.cyclesTo.max) == (615, 815)
    assert ipu.activeCycles.cyclesTo.min == 615 + 50
    assert ipu.tileBalance == 500 / 800
    assert conv.ipus[1].activeTileBalance == 1.0
    assert conv.computeSets[0].name == "layer1/conv"
    assert execution.steps[0].ipus[0].dataIn == 64
    assert execution.steps[-1].ipus[1].dataOut == 40
    assert execution.steps[1].computeSets == []
    assert execution.steps[1].ipus[0].cyclesByTile == [10] * 4, "a sync occupies every tile"
    assert execution.steps[1].ipus[0].tileBalance == 1.0


def test_versions_and_settings(report: pva.Report) -> None:
    assert report.poplarVersion.string == "TileScope 0.1.0"
    assert (report.poplarVersion.major, report.poplarVersion.minor) == (0, 1)
    assert report.version.major == SCHEMA_VERSION
    assert not report.version.isUnstableFormat
    assert report.instrumentationSettings.compute is pva.ComputeInstrumentationLevel.Tile


def test_a_report_without_runs(tmp_path: Path) -> None:
    with pva.openReport(write_small_report(tmp_path, Shape(n_runs=0))) as report:
        assert report.execution.totalCycles.total == 0
        assert len(report.execution.steps) == 0
        assert list(report.execution.runs) == []
        assert report.instrumentationSettings.compute is pva.ComputeInstrumentationLevel.Off


def test_lists(report: pva.Report) -> None:
    steps = report.execution.steps
    assert [step.program.name for step in steps[3:6]] == [steps[i].program.name for i in (3, 4, 5)]
    assert steps[-1].program.name == "out_100%"
    with pytest.raises(IndexError, match="22"):
        steps[22]
    report.listPrintLength(2)
    assert repr(report.compilation.programs).count("Program") == 2
    report.listPrintLength(10)


def test_a_wrong_name_is_an_ordinary_error(report: pva.Report) -> None:
    with pytest.raises(AttributeError, match="no attribute 'compilatoin'"):
        getattr(report, "compilatoin")  # noqa: B009 - a typing error of a client


def test_a_report_that_is_let_go_of_is_closed(path: Path) -> None:
    files = Path("/proc/self/fd")
    if not files.exists():
        pytest.skip("open files can be listed on Linux only")

    def n_open() -> int:
        return sum(os.path.realpath(link) == str(path.resolve()) for link in files.iterdir())

    before = n_open()
    opened = pva.openReport(path)
    assert len(opened.compilation.programs) == 10
    assert n_open() > before
    del opened
    gc.collect()
    assert n_open() == before


def test_no_report(tmp_path: Path) -> None:
    from tilescope.reports import ReportNotFound

    with pytest.raises(ReportNotFound):
        pva.openReport(tmp_path / "nothing.pop")
