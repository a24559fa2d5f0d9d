"""The operator graph every front end builds: values, operations, attributes."""

from tilescope.engine.ir.builder import IrBuilder
from tilescope.engine.ir.check import check_model
from tilescope.engine.ir.graph import Model, Operation, Value
from tilescope.engine.ir.operators import OPERATORS, OperatorSpec

__all__ = [
    "OPERATORS",
    "IrBuilder",
    "Model",
    "Operation",
    "OperatorSpec",
    "Value",
    "check_model",
]
