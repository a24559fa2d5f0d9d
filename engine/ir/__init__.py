"""The operator graph every front end builds: values, operations, attributes."""

from engine.ir.builder import IrBuilder
from engine.ir.check import check_model
from engine.ir.graph import Model, Operation, Value
from engine.ir.operators import OPERATORS, OperatorSpec

__all__ = [
    "OPERATORS",
    "IrBuilder",
    "Model",
    "Operation",
    "OperatorSpec",
    "Value",
    "check_model",
]
