"""A model in numpy, operation by operation: where a value is first infinite or no number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.ir import Model, Value
from tilescope.engine.ir.standard import standard

__all__ = ["first_not_finite"]


def first_not_finite(model: Model, arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return what is first infinite or no number: an input, or what finite operands give.

    Parameters
    ----------
    model
        After all passes.
    arrays
        Inputs and held values by name.

    Returns
    -------
    str
        The input or the operation; empty if there is none, or an operation before it cannot be
        computed in numpy.
    """
    for name, array in arrays.items():
        if not _is_finite(np.asarray(array)):
            return f"{name!r}"
    values: dict[Value, NDArray[Any]] = {}

    def value_of(value: Value) -> NDArray[Any]:
        if value in values:
            return values[value]
        if value.known is not None:
            return np.asarray(value.known)
        return np.asarray(arrays[value.name]).astype(value.dtype)

    with np.errstate(all="ignore"):
        for operation in model.operations:
            try:
                operands = [None if v is None else value_of(v) for v in operation.inputs]
                evaluate = operation.operator.evaluate or standard().evaluate
                results = evaluate(operation, operands)
            except Exception:  # the reference's errors have no common base
                return ""
            for value, result in zip(operation.outputs, results, strict=False):
                if value is None:
                    continue
                array = values[value] = np.asarray(result)
                given = [array_ for array_ in operands if array_ is not None]
                if not _is_finite(array) and all(map(_is_finite, given)):
                    return str(operation)
    return ""


def _is_finite(array: NDArray[Any]) -> bool:
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())
