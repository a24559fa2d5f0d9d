"""Options of LSTM, GRU and RNN layers."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

from tilescope.engine.arguments import a_count, a_kind, a_switch, a_text, shown
from tilescope.engine.codelets.popops.elementwise.expression import Expression
from tilescope.engine.errors import BadGraph

__all__ = ["ACTIVATIONS", "RECOMPUTATION_MODES", "RecurrentOptions"]

#: Non-linearities of cells.
ACTIVATIONS = ("tanh", "sigmoid", "relu", "hard_sigmoid")
#: What of the forward pass is computed again in the backward pass.
#: Source: graphcore/poplibs sdk-release-3.4, include/popnn/Lstm.hpp, recomputationMode.
RECOMPUTATION_MODES = ("none", "full")


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
        Largest share of a tile for temporary memory of products; by default, the builder's, and
        0.2 for the updates of weights.
    partials_type
        Type of partial sums of halves, ``float`` or ``half``; by default, the builder's.
    accumulators_type
        Type of the sums of weights' gradients over steps, ``float`` or ``half``
        (``weightAccumulatorsType``); by default, that of the layer.
    recomputation_mode
        ``none`` keeps what gradients need of every step, ``full`` the states before every stretch
        of steps, whose other values are computed again (``recomputationMode``).
    steps_per_checkpoint
        Steps of a stretch; by default, as many as take the least memory.
    steps_per_update
        Steps whose part of the gradients of weights is one product (``rnnStepsPerWU``); by default,
        as many as have gradients of sums in a tenth of the memory for updates.
    partial_updates
        Whether updates may be of several steps (not ``disableWUPartialInterleaving``).
    interleaves_update
        Whether updates are part of the loop of the backward pass; by default, where that takes less
        memory.
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
    accumulators_type: str | None = None
    recomputation_mode: str = "none"
    steps_per_checkpoint: int | None = None
    steps_per_update: int | None = None
    partial_updates: bool = True
    interleaves_update: bool | None = None

    def __post_init__(self) -> None:
        """Check the non-linearities and the limit.

        Raises
        ------
        BadGraph
            If a non-linearity or a mode is unknown, or a limit or a number of steps is not
            positive.
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
        self._check_storage()
        if self.clip is None:
            return
        if not a_kind("The clip of a recurrent layer", self.clip, Real, "a number") > 0:
            raise BadGraph(f"The clip of a recurrent layer is {self.clip}: expected more than 0")

    def _check_storage(self) -> None:
        """Check what is kept and when weights are updated."""
        mode = a_text("The recomputation_mode of a recurrent layer", self.recomputation_mode)
        if mode not in RECOMPUTATION_MODES:
            raise BadGraph(
                f"The recomputation_mode of a recurrent layer is {mode!r}: expected one of"
                f" {', '.join(RECOMPUTATION_MODES)}"
            )
        if self.accumulators_type not in (None, "float", "half"):
            raise BadGraph(
                "The accumulators_type of a recurrent layer is"
                f" {shown(self.accumulators_type)}: expected 'float' or 'half'"
            )
        for part in ("steps_per_checkpoint", "steps_per_update"):
            if getattr(self, part) is not None:
                a_count(f"The {part} of a recurrent layer", getattr(self, part), 1)
        a_switch("'partial_updates' of a recurrent layer", self.partial_updates)
        if self.interleaves_update is not None:
            a_switch("'interleaves_update' of a recurrent layer", self.interleaves_update)

    def detail(self) -> dict[str, Any]:
        """Return the options for a debug context."""
        names = ("couples_gates", "recomputation_mode", "partial_updates")
        usual = {n for n in names if getattr(self, n) == getattr(type(self), n)}
        return {
            name: str(value) if isinstance(value, Expression) else value
            for name, value in vars(self).items()
            if value is not None and name not in usual
        }
