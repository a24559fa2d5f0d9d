"""Remote buffers: rows of elements in the streaming memory of an IPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from tilescope.engine.errors import BadGraph
from tilescope.engine.number.dtype import DType

__all__ = ["RemoteBuffer"]


@dataclass(frozen=True, eq=False)
class RemoteBuffer:
    """Rows of elements outside the tiles, accessible only by copies of whole rows.

    Parameters
    ----------
    n_elements
        Elements per row.
    repeats
        Number of rows.
    values : ndarray, shape (repeats, n_elements)
        What it holds before the first run, in the type of the host; zeros if None.
    """

    buffer_id: int
    name: str
    dtype: DType
    n_elements: int
    repeats: int
    values: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        """Check the sizes.

        Raises
        ------
        BadGraph
            When one of them is less than 1.
        """
        if self.n_elements < 1 or self.repeats < 1:
            raise BadGraph(
                f"Remote buffer {self.name!r} has {self.repeats} rows of {self.n_elements}"
                " elements: both must be at least 1"
            )

    @property
    def n_bytes(self) -> int:
        """Size of all rows, bytes."""
        return self.repeats * self.n_elements * self.dtype.n_bytes
