"""A module for programs written against libpva, over the analyser.

Names and types are libpva's. What a report does not hold yet raises ``NotHeld``, an
``AttributeError`` that says so.
"""

from __future__ import annotations

from typing import NoReturn

from pva.absent import NotHeld
from pva.compilation import CompilationReport, LivenessProgramStep, Tile
from pva.compute_set import ComputeSet, ComputeSetVertex, VertexType
from pva.context import DebugContext
from pva.execution import ExecutionReport, ExecutionStep, IpuStep, Run
from pva.operations import Operation, OperationAnalysis
from pva.program import Program, ProgramVisitor
from pva.report import (
    ComputeInstrumentationLevel,
    ExternalExchangeInstrumentationLevel,
    Report,
    openReport,
)
from pva.target import IPU, Target
from pva.variable import LoweredVariable, Variable

__all__ = [
    "ABSENT",
    "IPU",
    "CompilationReport",
    "ComputeInstrumentationLevel",
    "ComputeSet",
    "ComputeSetVertex",
    "DebugContext",
    "ExecutionReport",
    "ExecutionStep",
    "ExternalExchangeInstrumentationLevel",
    "IpuStep",
    "LivenessProgramStep",
    "LoweredVariable",
    "NotHeld",
    "Operation",
    "OperationAnalysis",
    "Program",
    "ProgramVisitor",
    "Report",
    "Run",
    "Target",
    "Tile",
    "Variable",
    "VertexType",
    "openReport",
]

#: Names of libpva that are not supported, and what TileScope would need for them.
ABSENT = {
    "openTrace": "host traces",
    "Event": "host traces",
    "preview": "the preview interface",
}


def __getattr__(name: str) -> NoReturn:
    if name in ABSENT:
        raise NotHeld(f"pva.{name} is not supported yet: TileScope has no {ABSENT[name]} so far")
    raise AttributeError(f"module 'pva' has no attribute {name!r}")
