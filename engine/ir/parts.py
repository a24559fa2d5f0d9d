"""Parts of a batch: in how many a model is computed, and what an operation does on one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from tilescope.engine.errors import BadOption
from tilescope.engine.ir.placement import Placement

__all__ = ["WHOLE_BATCH", "BatchParts", "Parts"]

#: What of a placement may differ between an operation and another one that reads its parts.
_BORDERS = ("ipu", "stage", "phase")


@dataclass(frozen=True)
class BatchParts:
    """In how many equal parts of its batch a model is computed, one after another.

    Parameters
    ----------
    n_parts
        Number of parts; 1 computes the batch whole.
    joined_between
        Any of ``ipu``, ``stage`` and ``phase``: where these differ between an operation and another
        one that reads its result, parts are joined, moved as one, and cut again.

    Raises
    ------
    BadOption
        When the number is less than 1, or a border does not exist.
    """

    n_parts: int = 1
    joined_between: tuple[str, ...] = _BORDERS

    def __post_init__(self) -> None:
        """Check number and borders."""
        if self.n_parts < 1:
            raise BadOption(f"A batch has {self.n_parts} parts: expected at least 1")
        unknown = [name for name in self.joined_between if name not in _BORDERS]
        if unknown:
            raise BadOption(
                f"Parts of a batch cannot be joined between {unknown[0]!r}: choose of"
                f" {', '.join(_BORDERS)}"
            )

    def joins(self, first: Placement, second: Placement) -> bool:
        """Return whether parts are joined on the way from one placement to another."""
        return any(getattr(first, name) != getattr(second, name) for name in self.joined_between)


WHOLE_BATCH = BatchParts()


@dataclass(frozen=True)
class Parts:
    """What an operation is on one of several equal, contiguous parts of its operands.

    Parameters
    ----------
    axes
        By result: the axis along which the results of the parts, joined in their order, are the
        result of the whole.
    attributes
        Those of a part's node that are others than the whole's.
    cut
        By position: the axis along which operands are cut that were not in parts.
    known
        By position: the content of a part's operand in place of the whole's.
    """

    axes: tuple[int, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    cut: Mapping[int, int] = field(default_factory=dict)
    known: Mapping[int, NDArray[Any]] = field(default_factory=dict)
