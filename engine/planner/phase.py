"""The phases of a plan that take cycles: exchanges and vertices of stages."""

from __future__ import annotations

from dataclasses import dataclass

from tilescope.engine.graph import Stage

__all__ = ["Phase", "stage_name"]


def stage_name(stage: Stage, index: int = 0) -> str:
    """Return the label of a stage, which is also the name of its compute set within the call."""
    return f"{stage}{index}" if stage is Stage.REDUCE_STAGE else str(stage)


@dataclass(frozen=True)
class Phase:
    """The exchange or the vertices of a stage.

    Parameters
    ----------
    stage, index
        As in `tilescope.engine.graph.PlanStage`.
    is_exchange
        Whether it is the exchange before the vertices, its sync included.
    """

    stage: Stage
    index: int = 0
    is_exchange: bool = False

    @property
    def name(self) -> str:
        """Display name, also in reports; it is not parsed."""
        if not self.is_exchange:
            return stage_name(self.stage, self.index)
        if self.stage is Stage.COMPUTE:
            return "exchange"
        return f"{stage_name(self.stage, self.index)}_exchange"
