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
    """

    available_memory_proportion: float | None = None
    partials_type: str | None = None

    def stated(self) -> dict[str, Any]:
        """Return the hints that the author gave, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}
