"""From the operator graph to variables, compute sets and programs."""

from tilescope.engine.lower.lower import CompiledModel, compile_model, lower

__all__ = ["CompiledModel", "compile_model", "lower"]
