"""The share of tile memory available to an operation while it runs."""

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

#: Smallest share that is tried for a program that does not fit.
_LEAST_SHARE = 0.05  # Source: poplin ConvPlan.cpp warns of shares below 5 percent


def is_proportion(value: float) -> bool:
    """Whether a number is a valid share of tile memory: above 0, at most 1."""
    return 0 < value <= 1


@dataclass(frozen=True)
class AvailableMemory:
    """Largest share of tile memory for temporary data, by kind of operation, 0 to 1.

    An operation's own share takes precedence.

    Raises
    ------
    BadOption
        If a share is not above 0 and at most 1.
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
        """Return the shares for an operation with its own share, or None.

        Raises
        ------
        BadOption
            If the share is not above 0 and at most 1.
        """
        return self if share is None else AvailableMemory(share, share)

    def halved(self) -> AvailableMemory | None:
        """Return half the shares; None if they would be too small to leave useful plans."""
        if min(self.convolution, self.matmul) / 2 < _LEAST_SHARE:
            return None
        return AvailableMemory(self.convolution / 2, self.matmul / 2)

    @classmethod
    def of(cls, options: EngineOptions) -> AvailableMemory:
        """Return the shares in the engine options."""
        return cls(options.real(CONVOLUTION_MEMORY), options.real(MATMUL_MEMORY))

    @classmethod
    def given(cls, options: EngineOptions) -> AvailableMemory | None:
        """Return the shares in the engine options; None if they set none."""
        is_given = options.is_given(CONVOLUTION_MEMORY) or options.is_given(MATMUL_MEMORY)
        return cls.of(options) if is_given else None
