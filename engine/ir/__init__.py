"""The operator graph every front end builds: values, operations, regions, operator records."""

from tilescope.engine.ir.builder import IrBuilder
from tilescope.engine.ir.check import check_model
from tilescope.engine.ir.hints import Hints
from tilescope.engine.ir.model import Count, Model
from tilescope.engine.ir.operation import (
    ENGINE_DOMAIN,
    Carries,
    Expansion,
    Node,
    Operation,
    Operator,
    Region,
    ResultType,
)
from tilescope.engine.ir.value import MOST_DIMS, Constant, NarrowConstant, Parameter, Value

__all__ = [
    "ENGINE_DOMAIN",
    "MOST_DIMS",
    "Carries",
    "Constant",
    "Count",
    "Expansion",
    "Hints",
    "IrBuilder",
    "Model",
    "NarrowConstant",
    "Node",
    "Operation",
    "Operator",
    "Parameter",
    "Region",
    "ResultType",
    "Value",
    "check_model",
]
