"""All names of this package; libpva keeps them in an extension module of this name."""

from __future__ import annotations

from pva.block import Block
from pva.compilation import CompilationReport
from pva.compute_set import ComputeSet
from pva.context import DebugContext, Location
from pva.execution import ExecutionReport, ExecutionStep, IpuStep, Run
from pva.liveness import LivenessProgramStep
from pva.lowered import LoweredVariables
from pva.memory import Tile
from pva.operations import Operation, OperationAnalysis
from pva.program import (
    DoExchangeProgram,
    GlobalExchangeProgram,
    OnTileExecuteProgram,
    Program,
    StreamCopyBeginProgram,
    StreamCopyEndProgram,
    StreamCopyMidProgram,
)
from pva.report import (
    ComputeInstrumentationLevel,
    ExternalExchangeInstrumentationLevel,
    InstrumentationSettings,
    PoplarVersion,
    ProfileReportVersion,
    Report,
    getReport,
    openReport,
)
from pva.state import ReportStateWarning
from pva.target import IPU, Target
from pva.trace import Event, Trace, TraceNotSupported, openTrace
from pva.variable import BriefVariable, LoweredVariable, Variable
from pva.vertex import ComputeSetVertex, TileVertex, VertexType
from pva.visitor import ProgramVisitor

__all__ = [
    "IPU",
    "Block",
    "BriefVariable",
    "CompilationReport",
    "ComputeInstrumentationLevel",
    "ComputeSet",
    "ComputeSetVertex",
    "DebugContext",
    "DoExchangeProgram",
    "Event",
    "ExecutionReport",
    "ExecutionStep",
    "ExternalExchangeInstrumentationLevel",
    "GlobalExchangeProgram",
    "InstrumentationSettings",
    "IpuStep",
    "LivenessProgramStep",
    "Location",
    "LoweredVariable",
    "LoweredVariables",
    "OnTileExecuteProgram",
    "Operation",
    "OperationAnalysis",
    "PoplarVersion",
    "ProfileReportVersion",
    "Program",
    "ProgramVisitor",
    "Report",
    "ReportStateWarning",
    "Run",
    "StreamCopyBeginProgram",
    "StreamCopyEndProgram",
    "StreamCopyMidProgram",
    "Target",
    "Tile",
    "TileVertex",
    "Trace",
    "TraceNotSupported",
    "Variable",
    "VertexType",
    "getReport",
    "openReport",
    "openTrace",
]
