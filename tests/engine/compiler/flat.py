"""All that a compiled program refers to, as a list that can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.number.dtype import DType

__all__ = ["flat"]


def flat(root: object) -> list[Any]:
    """Return all values that a record refers to, in order; one that came before by its number.

    Records that are compared by their values have none: whether they are one object says nothing.
    """
    numbers: dict[int, int] = {}
    values: list[Any] = []

    def walk(value: Any) -> None:
        if is_dataclass(value) and not isinstance(value, Codelet | DType | type):
            if id(value) in numbers:
                values.append(numbers[id(value)])
                return
            if type(value).__eq__ is object.__eq__:
                numbers[id(value)] = len(numbers)
            values.append(type(value).__name__)
            for field in fields(value):
                walk(getattr(value, field.name))
        elif isinstance(value, Mapping):
            values.append([type(value), *value])
            for item in value.values():
                walk(item)
        elif isinstance(value, list | tuple):
            values.append((type(value), len(value)))
            for item in value:
                walk(item)
        elif isinstance(value, np.ndarray):
            values.append((value.dtype.str, value.shape, value.tobytes(), value.flags.writeable))
        else:
            values.append(value)

    walk(root)
    return values
