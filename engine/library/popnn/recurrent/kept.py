"""What the forward pass of a recurrent layer keeps of every step for its gradients.

A unit is kept as its value where the slope of its non-linearity follows from that, and as the sum
before the non-linearity where it does not, or where sums are limited. Source of the idea:
graphcore/poplibs sdk-release-3.4, lib/popnn/Lstm.cpp, LstmInternalState; PopLibs keeps values, and
tanh of the cell state, which is computed again here (its option ``recomputationMode``:
``cellAndTanh``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilescope.engine.codelets.popops.elementwise.expression import Expression, call, operand
from tilescope.engine.library.popops.elementwise.derivative import derivative, substituted
from tilescope.engine.library.recurrent_options import RecurrentOptions

__all__ = [
    "BEFORE",
    "STATES",
    "Unit",
    "are_sums_kept",
    "function_of",
    "gru_kept",
    "is_by_value",
    "lstm_kept",
    "rnn_kept",
]

#: Name of the states before a step: the cell state of an LSTM, the output of a GRU.
STATES = "states"
#: Name of the outputs before a step, where lengths differ: those of an RNN and of an LSTM.
BEFORE = "outputsBefore"

_X = operand(0)
#: Non-linearities by name, as expressions.
_FUNCTIONS: Mapping[str, Expression] = {
    "hard_sigmoid": call("clamp", _X * 0.2 + 0.5, 0, 1),
    "relu": call("relu", _X),
    "sigmoid": call("sigmoid", _X),
    "tanh": call("tanh", _X),
}
#: Those whose slope follows from their value: the gradient is operand 0, the value operand 1.
_BY_VALUE: Mapping[str, Expression] = {
    "relu": call("select", operand(0), 0.0, call("greater", operand(1), 0.0)),
    "sigmoid": operand(0) * operand(1) * (1.0 - operand(1)),
    "tanh": operand(0) * (1.0 - operand(1) * operand(1)),
}

Kind = str | Expression


def function_of(kind: Kind, x: Expression) -> Expression:
    """Return a non-linearity of an expression."""
    return substituted(kind if isinstance(kind, Expression) else _FUNCTIONS[kind], [x])


def are_sums_kept(options: RecurrentOptions) -> bool:
    """Return whether units are kept as the sums before their non-linearities."""
    kinds = (options.activation, options.recurrent_activation)
    return options.clip is not None or not all(map(is_by_value, kinds))


@dataclass(frozen=True)
class Unit:
    """The result of a non-linearity, or what it is the result of: an operand of expressions.

    Parameters
    ----------
    kind
        The non-linearity.
    index
        Position among the operands.
    is_sum
        Whether the operand is the sum before the non-linearity instead of its value.
    clip
        What sums are limited by.
    """

    kind: Kind
    index: int
    is_sum: bool
    clip: float | None = None

    @classmethod
    def kept(cls, kind: Kind, index: int, options: RecurrentOptions) -> Unit:
        """Return a unit as a layer keeps it."""
        return cls(kind, index, are_sums_kept(options), options.clip)

    @property
    def value(self) -> Expression:
        """Its value."""
        given = operand(self.index)
        return function_of(self.kind, given) if self.is_sum else given

    def sum_gradient(self, gradient: Expression) -> Expression:
        """Return the gradient of the sum before the non-linearity, from that of the value."""
        given = operand(self.index)
        if not self.is_sum:
            assert isinstance(self.kind, str)
            return substituted(_BY_VALUE[self.kind], [gradient, given])
        found = derivative(function_of(self.kind, given), self.index, gradient)
        if found is None:
            found = gradient * 0.0 + given * 0.0
        if self.clip is None:
            return found
        return call("select", found, 0.0, call("less", call("absolute", given), self.clip))


def is_by_value(kind: Kind) -> bool:
    """Return whether the slope of a non-linearity follows from its value."""
    return isinstance(kind, str) and kind in _BY_VALUE


def lstm_kept(*, has_peepholes: bool, has_lengths: bool) -> dict[str, int]:
    """Return the names and numbers of what an LSTM keeps of a step."""
    units = {"gates": 2, "output": 1, "candidate": 1} if has_peepholes else {"units": 4}
    return {**units, STATES: 1, **({BEFORE: 1} if has_lengths else {})}


def gru_kept(*, reset_after: bool) -> dict[str, int]:
    """Return the names and numbers of what a GRU keeps of a step."""
    return {"gates": 2, "candidate": 1, STATES: 1, **({"hidden": 1} if reset_after else {})}


def rnn_kept(options: RecurrentOptions, *, has_lengths: bool) -> dict[str, int]:
    """Return the names and numbers of what a layer of plain cells keeps of a step."""
    sums = {"units": 1} if are_sums_kept(options) else {}
    return {**sums, **({BEFORE: 1} if has_lengths else {})}
