"""Things that are built step by step and never change afterwards."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Freezable", "read_only"]

T = TypeVar("T", bound=np.generic)


class Freezable:
    """Base of classes whose instances can be frozen: no attribute is set from then on."""

    _is_frozen = False

    @property
    def is_frozen(self) -> bool:
        """Whether it can no longer change."""
        return self._is_frozen

    def freeze(self) -> None:
        """Reject changes from now on; subclasses also freeze what they hold."""
        object.__setattr__(self, "_is_frozen", True)

    def __setattr__(self, name: str, value: Any) -> None:
        if self._is_frozen:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        object.__setattr__(self, name, value)


def read_only(array: NDArray[T]) -> NDArray[T]:
    """Return a view of an array that cannot be written through."""
    if not array.flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view
