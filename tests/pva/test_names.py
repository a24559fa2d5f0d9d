"""Every name of libpva is there with its spelling and type."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from docs.pages.pva_names import NAMES, Name
from tests.golden.recipe import GOLDEN

import pva
from tilescope.reports import ReportNotFound

#: What methods that need something are called with.
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "listPrintLength": (10,),
    "alwaysLiveVariablesForTile": (1,),
    "notAlwaysLiveMemoryForIpu": (1,),
    "notAlwaysLiveMemoryForTile": (1,),
    "forTile": (0,),
    "blocks": (0,),
    "openReport": (GOLDEN,),
    "openTrace": (GOLDEN,),
    "process": (0,),
    "thread": (0,),
}


class Engine:
    """What an engine has."""

    def get_report(self) -> Any:
        return pva.openReport(GOLDEN)._opened


@pytest.fixture(scope="module")
def owners() -> Iterator[dict[str, Any]]:
    """An object of every class."""
    with pva.openReport(GOLDEN) as report, pva.openTrace(GOLDEN) as trace:
        compilation, execution = report.compilation, report.execution
        programs = compilation.programs
        compute = next(
            program for program in programs if isinstance(program, pva.OnTileExecuteProgram)
        )
        exchange = next(
            program for program in programs if isinstance(program, pva.DoExchangeProgram)
        )
        between = next(
            program for program in programs if isinstance(program, pva.GlobalExchangeProgram)
        )
        memory = compilation.tiles[0].memory
        step = compilation.livenessProgramSteps[3]
        ran = next(program for program in execution.steps if program.computeSets)
        brief = compilation.loweredVariables.allBriefVars[0]
        part = compilation.loweredVariables.forTile(0)[0]
        operation = pva.OperationAnalysis(report).operations[0]
        yield {
            "pva": pva,
            "Report": report,
            "InstrumentationSettings": report.instrumentationSettings,
            "PoplarVersion": report.poplarVersion,
            "ProfileReportVersion": report.version,
            "CompilationReport": compilation,
            "Graph": compilation.graph,
            "Target": compilation.target,
            "IpuTiles": compilation.ipus[0],
            "Tile": compilation.tiles[0],
            "TileMemory": memory,
            "Gaps": memory.total,
            "Categories": memory.category,
            "CategoryMemory": memory.category.constant,
            "Overlap": memory.category.constant.interleaved,
            "TileVertex": memory.vertices[0],
            "Program": programs[0],
            "DoExchangeProgram": exchange,
            "GlobalExchangeProgram": between,
            "OnTileExecuteProgram": compute,
            "Program.Type": pva.Program.Type,
            "ProgramVisitor": pva.ProgramVisitor(),
            "ComputeSet": compute.computeset,
            "ComputeSetVertex": compute.computeset.vertices[0],
            "VertexType": compute.computeset.vertices[0].type,
            "LivenessProgramStep": step,
            "LiveMemory": step.notAlwaysLiveMemory,
            "Variable": compilation.alwaysLiveVariables[0],
            "LoweredVariables": compilation.loweredVariables,
            "LoweredVariable": part,
            "BriefVariable": brief,
            "EquivalenceClass": brief.equivalenceClass,
            "StepInterval": brief.equivalenceClass.steps[0],
            "ExecutionReport": execution,
            "TotalCycles": execution.totalCycles,
            "Run": execution.runs[0],
            "Microseconds": execution.runs[0].microseconds,
            "ExecutionStep": ran,
            "ExecutedComputeSet": ran.computeSets[0],
            "IpuStep": ran.ipus[0],
            "CycleSpan": ran.ipus[0].activeCycles,
            "CycleRange": ran.ipus[0].activeCycles.cyclesFrom,
            "Block": execution.blocks(0)[0],
            "OperationAnalysis": pva.OperationAnalysis(report),
            "Operation": operation,
            "DebugContext": operation.debugContext,
            "Location": operation.debugContext.location,
            "Trace": trace,
            "Process": trace.processes[0],
            "Thread": trace.processes[0].threads[0],
            "Event": trace.processes[0].threads[0].events[0],
        }


@pytest.mark.parametrize("name", NAMES, ids=lambda name: f"{name.owner}.{name.name}")
def test_a_name_is_there_with_its_type(owners: dict[str, Any], name: Name) -> None:
    owner, attribute = owners[name.owner], name.name.removesuffix("()")
    value = getattr(owner, attribute)
    if name.name.endswith("()"):
        arguments = ARGUMENTS.get(attribute, ())
        if attribute == "getReport":
            arguments = (Engine(),)
        elif attribute == "accept":
            arguments = (pva.ProgramVisitor(),)
        elif attribute.startswith("visit"):
            arguments = (owners["Program"],)
        value = value(*arguments)
    if name.type == "list":
        assert len(value) == sum(1 for _ in value)
        assert len(value) == 0 or value[0] == next(iter(value)) == value[-len(value)]
        assert list(value[:2]) == list(value)[:2]
    elif name.type == "module":
        assert isinstance(value, ModuleType)
    elif name.type == "type":
        assert isinstance(value, type)
    else:
        kinds = {item.__name__ for item in type(value).__mro__}
        assert name.type in kinds or (value is None and name.type == "None")


def test_modules_of_one_name_have_the_same_classes() -> None:
    for module in (pva.pva_core, pva.preview):
        for name in module.__all__:
            assert getattr(module, name) is getattr(pva, name)
    assert pva.pva_core.Program.Type.Sync is pva.Program.Type.Sync
    assert {kind.name for kind in pva.ComputeInstrumentationLevel} == set(
        pva.ComputeInstrumentationLevel.__members__
    )


def test_every_kind_of_program_has_a_visitor() -> None:
    for kind in pva.Program.Type:
        assert callable(getattr(pva.ProgramVisitor(), f"visit{kind.name}"))


def test_entries_are_made_once_and_compare_by_what_they_are(owners: dict[str, Any]) -> None:
    report = owners["Report"]
    for entries in (
        report.compilation.programs,
        report.compilation.computeSets,
        report.compilation.tiles,
        report.compilation.livenessProgramSteps,
        report.execution.runs,
        report.execution.steps,
    ):
        assert entries[0] is entries[0]
        assert len(set(entries)) == len(entries)
        assert entries == list(entries)
        assert entries == entries[:]
        assert entries != entries[1:]
        assert hash(entries) == hash(entries)
    with pva.openReport(GOLDEN) as peer:
        assert peer.compilation.programs[0] != report.compilation.programs[0]
    compute = owners["OnTileExecuteProgram"]
    assert compute.computeset in set(report.compilation.computeSets)
    assert compute in set(report.compilation.programs)


def test_a_debug_file_is_accepted(tmp_path: Path) -> None:
    debug = tmp_path / "debug.cbor"
    debug.touch()
    with pva.openReport(str(GOLDEN), str(debug)) as report:
        assert len(pva.OperationAnalysis(report).operations) > 0
    with pva.openReport(profileFilename=str(GOLDEN), debugInfoFilename=debug) as report:
        assert report.execution.totalCycles.total > 0
    with pytest.raises(FileNotFoundError, match=re.escape("missing.cbor does not exist")):
        pva.openReport(GOLDEN, tmp_path / "missing.cbor")


def test_a_trace_of_another_program_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "host.pvti").write_bytes(b"SQLite format 3\0" + bytes(200))
    with pytest.raises(pva.TraceNotSupported, match="is not a trace that TileScope wrote"):
        pva.openTrace(tmp_path / "host.pvti")
    with pytest.raises(ReportNotFound):
        pva.openTrace(tmp_path / "missing.pvti")


def test_a_trace_lasts_as_long_as_its_runs() -> None:
    with pva.openTrace(GOLDEN) as trace, pva.openReport(GOLDEN) as report:
        clock = report.compilation.target.clockFrequency / 1e6
        for ipu_id, process in enumerate(trace.processes):
            (thread,) = process.threads
            for event, run in zip(thread.events, report.execution.runs, strict=True):
                cycles = run.cyclesByIpu[ipu_id]
                assert event.label == run.name
                assert event.duration * clock == pytest.approx(cycles)
                assert sum(step.duration for step in event.children()) * clock == pytest.approx(
                    cycles
                )


def test_a_number_of_a_list_counts_from_its_end() -> None:
    with pva.openReport(GOLDEN) as report:
        brief = report.compilation.loweredVariables.allBriefVars
        assert list(brief) == [brief[index] for index in range(len(brief))]
        assert brief[-1] == brief[len(brief) - 1]
        with pytest.raises(IndexError, match=str(len(brief))):
            brief[len(brief)]


def test_a_report_may_leave_out_what_ran() -> None:
    with pva.getReport(Engine(), reportExecution=False) as report:
        assert len(report.execution.runs) == len(report.execution.steps) == 0
        assert report.execution.totalCycles.total == 0
        assert report.execution.blocks(0) == []
        assert report.instrumentationSettings.compute is pva.ComputeInstrumentationLevel.Off
        assert len(report.compilation.programs) > 0


def test_lists_are_read_in_few_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    with pva.openReport(GOLDEN) as report:
        n_queries = 0
        connection = report._opened._connection
        rows = connection.rows

        def counted(text: str, *parameters: Any) -> Any:
            nonlocal n_queries
            n_queries += "FROM chunk" not in text
            return rows(text, *parameters)

        monkeypatch.setattr(connection, "rows", counted)
        for compute_set in report.compilation.computeSets:
            assert compute_set.name
            for vertices in compute_set.vertices:
                assert sum(vertices.countByTile) == vertices.count
        for step in report.execution.steps:
            assert all(entry.name for entry in step.computeSets)
        assert n_queries <= 20
