"""PopART's names of numpy's types."""

from __future__ import annotations

import numpy as np

__all__ = ["type_name"]

#: PopART's names of types that are not numpy's in capitals.
_TYPES = {"float32": "FLOAT", "float64": "DOUBLE"}


def type_name(dtype: object) -> str:
    """Return PopART's name of a type, such as ``FLOAT``."""
    name: str = np.dtype(dtype).name  # type: ignore[call-overload]
    return _TYPES.get(name, name.upper())
