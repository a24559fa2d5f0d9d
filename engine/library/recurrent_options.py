"""Options of LSTM, GRU and RNN layers."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

from tilescope.engine.arguments import a_kind, a_switch, a_text
from tilescope.engine.codelets.popops.elementwise.expression import Expression
from tilescope.engine.errors import BadGraph

__all__ = ["ACTIVATIONS", "RecurrentOptions"]

#: Non-linearities of cells.
ACTIVATIONS = ("tanh", "sigmoid", "relu", "hard_sigmoid")


@dataclass(frozen=True)
class RecurrentOptions:
    """Options of LSTM, GRU and RNN.

    Parameters
    ----------
    activation, recurrent_activation
        Non-linearities of candidates and results, and of gates: ``tanh``, ``sigmoid``, ``relu`` or
        ``hard_sigmoid``, or an expression of one operand.
    cell_activation
        Non-linearity of an LSTM's cell state; by default, that of candidates.
    couples_gates
        Whether the forget gate of an LSTM is one minus its input gate.
    full_sequence
        Whether the outputs of all steps are returned instead of the last one.
    reverse
        Whether the steps run from the last to the first; outputs keep their places.
    clip
        Limit of the absolute values before non-linearities, as ONNX has it; None for no limit.
    pre_weighted
        Whether the inputs of all steps are multiplied by their weights before the loop
        (``preCalcWeights``).
    available_memory_proportion
        Largest share of a tile for temporary memory of products; by default, the builder's.
    partials_type
        Type of partial sums of halves, ``float`` or ``half``; by default, the builder's.
    """

    activation: str | Expression = "tanh"
    recurrent_activation: str | Expression = "sigmoid"
    cell_activation: str | Expression | None = None
    couples_gates: bool = False
    full_sequence: bool = True
    reverse: bool = False
    clip: float | None = None
    pre_weighted: bool = False
    available_memory_proportion: float | None = None
    partials_type: str | None = None

    def __post_init__(self) -> None:
        """Check the non-linearities and the limit.

        Raises
        ------
        BadGraph
            If a non-linearity is unknown or the limit is not positive.
        """
        for part in ("activation", "recurrent_activation", "cell_activation"):
            if getattr(self, part) is None or isinstance(getattr(self, part), Expression):
                continue
            name = a_text(f"The {part} of a recurrent layer", getattr(self, part))
            if name not in ACTIVATIONS:
                raise BadGraph(
                    f"The {part} of a recurrent layer is {name!r}: expected one of"
                    f" {', '.join(ACTIVATIONS)}"
                )
        for part in ("full_sequence", "reverse", "pre_weighted", "couples_gates"):
            a_switch(f"{part!r} of a recurrent layer", getattr(self, part))
        if self.clip is None:
            return
        if not a_kind("The clip of a recurrent layer", self.clip, Real, "a number") > 0:
            raise BadGraph(f"The clip of a recurrent layer is {self.clip}: expected more than 0")

    def detail(self) -> dict[str, Any]:
        """Return the options for a debug context."""
        return {
            name: str(value) if isinstance(value, Expression) else value
            for name, value in vars(self).items()
            if value is not None and not (name == "couples_gates" and not value)
        }
