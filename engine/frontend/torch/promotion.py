"""Types of tensors as PyTorch promotes them, by their numpy names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Value

__all__ = ["dtype_name", "promoted"]

#: numpy names of PyTorch's types that the machine has.
_NAMES = {
    "bool": "bool",
    "uint8": "uint8",
    "uint16": "uint16",
    "uint32": "uint32",
    "int8": "int8",
    "int16": "int16",
    "int32": "int32",
    "int64": "int64",
    "float16": "float16",
    "float32": "float32",
    "float64": "float64",
}


def dtype_name(dtype: Any, subject: str) -> str:
    """Return the numpy name of a type of PyTorch.

    Parameters
    ----------
    dtype
        A ``torch.dtype``.
    subject
        What has it, for messages.

    Raises
    ------
    BadModel
        When the machine does not have it.
    """
    name = str(dtype).removeprefix("torch.")
    if name not in _NAMES:
        advice = ": call .half() or .float() on the module" if name == "bfloat16" else ""
        raise BadModel(f"{subject} is {name}, which is not supported{advice}")
    return _NAMES[name]


def promoted(operands: Sequence[Any]) -> str:
    """Return the type that operands have in common, as ``torch.result_type`` does.

    Tensors with dimensions decide, unless one without, or a number, is of a higher kind.

    Parameters
    ----------
    operands
        Values, and Python numbers.
    """
    result, kind = "bool", -1
    tensors = [o for o in operands if isinstance(o, Value)]
    groups = [
        [o.dtype for o in tensors if o.shape],
        [o.dtype for o in tensors if not o.shape],
        [_of_number(o) for o in operands if not isinstance(o, Value)],
    ]
    for group in groups:
        if not group:
            continue
        joint = group[0]
        for dtype in group[1:]:
            joint = _joint(joint, dtype)
        if _kind(joint) > kind:
            result, kind = joint, _kind(joint)
    return result


def _of_number(number: Any) -> str:
    if isinstance(number, bool):
        return "bool"
    return "int64" if isinstance(number, int) else "float32"


def _kind(dtype: str) -> int:
    """Return 0 for bool, 1 for integers, 2 for floats."""
    return {"b": 0, "u": 1, "i": 1, "f": 2}[np.dtype(dtype).kind]


def _joint(a: str, b: str) -> str:
    """Return the type of two of one rank: the wider of their kind, or that of the higher kind."""
    if _kind(a) != _kind(b):
        return a if _kind(a) > _kind(b) else b
    return str(np.promote_types(a, b))
