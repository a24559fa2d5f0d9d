"""The operators: one file per family holds everything the engine knows of each of them."""

from tilescope.engine.ir.standard import use_standard
from tilescope.engine.operators.onnx_standard import OnnxStandard
from tilescope.engine.operators.table import FAMILIES, OPERATORS, operator, supported_operators

__all__ = ["FAMILIES", "OPERATORS", "operator", "supported_operators"]

use_standard(OnnxStandard())
