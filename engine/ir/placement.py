"""Where and when an operation runs on a machine of several IPUs."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["UNPLACED", "Placement"]


@dataclass(frozen=True)
class Placement:
    """Where and when an operation runs; None where nobody said so.

    Rewrites keep it: what an operation is taken apart into, and its gradients, run where it does.

    Parameters
    ----------
    ipu
        Number of the IPU, from 0.
    stage
        Number of the stage of a pipeline: among those of the forward pass, as the author states it;
        among all stages in a model that is scheduled.
    phase
        Number of the phase, of programs that run one after the other.
    """

    ipu: int | None = None
    stage: int | None = None
    phase: int | None = None

    @property
    def is_stated(self) -> bool:
        """Whether anything is said."""
        return self != UNPLACED

    def stated(self) -> dict[str, int]:
        """Return what is said, by name."""
        numbers = {"ipu": self.ipu, "stage": self.stage, "phase": self.phase}
        return {name: number for name, number in numbers.items() if number is not None}


UNPLACED = Placement()
