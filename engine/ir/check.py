"""What a well-formed model is, as a check that runs in tests and after every transformation."""

from __future__ import annotations

from tilescope.engine.errors import BadModel
from tilescope.engine.ir.graph import Model, Operation, Value
from tilescope.engine.ir.operators import OPERATORS

__all__ = ["check_model"]

_PRODUCTS = ("matmul", "convolution")
#: float8 products exist in the graph API only.
_PRODUCT_TYPES = ("float16", "float32", "float64")


def check_model(model: Model) -> None:
    """Raise BadModel unless operations run in order, on what is there, with results as inferred.

    Raises
    ------
    BadModel
        Names the operation that breaks a rule.
    """
    known: set[Value] = set(model.inputs)
    for operation in model.operations:
        spec = OPERATORS.get(operation.kind)
        if spec is None:
            raise BadModel(f"{operation.name!r}: unknown operator {operation.kind!r}")
        if len(operation.inputs) != spec.n_inputs:
            raise BadModel(f"{operation.name!r} takes {spec.n_inputs} inputs")
        for value in operation.inputs:
            if value.constant is None and value not in known:
                raise BadModel(f"{operation.name!r} uses {value.name!r} before it is made")
        _check_types(operation)
        shape, dtype = spec.infer(operation.inputs, operation.attributes)
        if (tuple(shape), dtype) != (operation.output.shape, operation.output.dtype):
            raise BadModel(
                f"{operation.name!r} says {operation.output.dtype} {operation.output.shape} and"
                f" makes {dtype} {tuple(shape)}"
            )
        known.add(operation.output)
    for name, value in model.outputs:
        if value.constant is None and value not in known:
            raise BadModel(f"Output {name!r} is made by nothing")


def _check_types(operation: Operation) -> None:
    """Refuse operands that no vertex takes: without elements, or of a type without products.

    Raises
    ------
    BadModel
        Names the operation and the operand.
    """
    for value in (*operation.inputs, operation.output):
        if 0 in value.shape:
            raise BadModel(
                f"Node {operation.name!r} ({operation.source}): {value.name!r} of shape"
                f" {value.shape} has no elements, which is not supported yet"
            )
        if operation.kind in _PRODUCTS and value.dtype not in _PRODUCT_TYPES:
            raise BadModel(
                f"Node {operation.name!r} ({operation.source}): {value.name!r} is {value.dtype},"
                " and a model's products are there for floats only, of 16 bits or more"
            )
