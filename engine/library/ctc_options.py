"""Options of the loss of alignments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilescope.engine.arguments import a_count, a_switch

__all__ = ["CtcLossOptions"]


@dataclass(frozen=True)
class CtcLossOptions:
    """Options of the loss of alignments.

    Parameters
    ----------
    blank
        The class of no label.
    takes_logs
        Whether the scores are logarithms of probabilities, not what softmax makes these of.
    out_type
        Type of loss and gradient, float16 or float32; by default, that of the scores.
    zero_infinity
        Whether losses and gradients of labels that no alignment gives are 0.
    """

    blank: int = 0
    takes_logs: bool = False
    out_type: Any = None
    zero_infinity: bool = False

    def __post_init__(self) -> None:
        """Check blank and switches.

        Raises
        ------
        BadGraph
            If a value is of another kind.
        """
        object.__setattr__(self, "blank", a_count("blank", self.blank, 0))
        for name in ("takes_logs", "zero_infinity"):
            object.__setattr__(self, name, a_switch(name, getattr(self, name)))
