"""What the author of a model asks of the compiler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Hints"]


@dataclass(frozen=True)
class Hints:
    """What the model's author asks of the compiler for one node; None leaves it to the options.

    Parameters
    ----------
    available_memory_proportion
        Share of a tile's memory that the operation may use while it runs.
    partials_type
        ``float`` or ``half``: the type of partial sums.
    is_recomputed
        Whether the results are computed again for the backward pass, or kept for it.
    """

    available_memory_proportion: float | None = None
    partials_type: str | None = None
    is_recomputed: bool | None = None

    def stated(self) -> dict[str, Any]:
        """Return what the author asks of the planner, by the names of the library's options."""
        planned = {
            "available_memory_proportion": self.available_memory_proportion,
            "partials_type": self.partials_type,
        }
        return {name: value for name, value in planned.items() if value is not None}
