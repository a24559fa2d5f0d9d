"""How much of a tile's memory one operation may take for the time it runs."""

from __future__ import annotations

from dataclasses import dataclass

from tilescope.engine.errors import BadOption
from tilescope.engine.options.catalogue import (
    AVAILABLE_MEMORY_PROPORTION,
    CONVOLUTION_MEMORY,
    MATMUL_MEMORY,
)
from tilescope.engine.options.precedence import EngineOptions

__all__ = ["AvailableMemory", "is_proportion"]


def is_proportion(value: float) -> bool:
    """Whether a number may be a share of a tile's memory: above 0, up to 1."""
    return 0 < value <= 1


@dataclass(frozen=True)
class AvailableMemory:
    """Largest share of a tile's memory for temporary data, by kind of operation, 0 to 1.

    An operation may have a share of its own, which then holds for it.

    Raises
    ------
    BadOption
        When a share is not above 0 and up to 1.
    """

    convolution: float = AVAILABLE_MEMORY_PROPORTION
    matmul: float = AVAILABLE_MEMORY_PROPORTION

    def __post_init__(self) -> None:
        for kind, share in (("convolution", self.convolution), ("matmul", self.matmul)):
            if not is_proportion(share):
                raise BadOption(
                    f"The available memory proportion of {kind} must be above 0 and at most 1,"
                    f" got {share}"
                )

    def with_own(self, share: float | None) -> AvailableMemory:
        """Return what holds for an operation that has a share of its own, or None.

        Raises
        ------
        BadOption
            When the share is not above 0 and up to 1.
        """
        return self if share is None else AvailableMemory(share, share)

    @classmethod
    def of(cls, options: EngineOptions) -> AvailableMemory:
        """Return what engine options say."""
        return cls(options.real(CONVOLUTION_MEMORY), options.real(MATMUL_MEMORY))
