"""A hyperparameter, and its values by tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from popart.arguments import BOOL, FLOAT
from popart.errors import popart_exception

__all__ = ["OptimizerValue", "OptimizerValueMap", "shown"]


class OptimizerValue:
    """A number of single precision, and whether it stays as it is for the whole training.

    ``OptimizerValue(0.1)`` is constant, ``OptimizerValue(0.1, False)`` may be replaced.
    """

    def __init__(self, val: Any = 0.0, isConst: Any = True) -> None:
        if isinstance(val, tuple):
            number, is_const = val
        else:
            number, is_const = val, isConst
        self._val = float(np.float32(FLOAT.convert(number)))
        self._is_const: bool = BOOL.convert(is_const)

    def val(self) -> float:
        """Return the number, rounded to single precision."""
        return self._val

    def isConst(self) -> bool:
        """Whether the number is part of the program."""
        return self._is_const

    def validReplacement(self, other: OptimizerValue) -> None:
        """Refuse a value that cannot replace this one in a compiled program."""
        if self._is_const != other._is_const:
            raise popart_exception("Can not replace a constant value with a non constant value.")
        if self._is_const and self._val != other._val:
            raise popart_exception("Values are constant but do not match.")

    def __eq__(self, other: object) -> bool:
        """Compare as parts of a program: values that may be replaced are equal."""
        if not isinstance(other, OptimizerValue):
            return NotImplemented
        return self._is_const == other._is_const and (not self._is_const or self._val == other._val)

    def __hash__(self) -> int:
        return hash((self._is_const, self._val if self._is_const else None))

    def __repr__(self) -> str:
        return f"OptimizerValue({shown(self)}, {self._is_const})"


def shown(value: OptimizerValue) -> str:
    """Return the shortest decimal of a number of single precision."""
    text = str(np.float32(value.val()))
    return text.removesuffix(".0")


class OptimizerValueMap:
    """A hyperparameter: its default, and the values of tensors that have their own."""

    def __init__(self, default: OptimizerValue) -> None:
        self._default = default
        self._specific: dict[str, OptimizerValue] = {}

    def getDefault(self) -> OptimizerValue:
        """Return the value of tensors without a value of their own."""
        return self._default

    def get(self, tensorId: str) -> OptimizerValue:
        """Return the value of a tensor."""
        return self._specific.get(tensorId, self._default)

    def hasSpecific(self, tensorId: str | None = None) -> bool:
        """Whether a tensor, or any tensor, has a value of its own."""
        return bool(self._specific) if tensorId is None else tensorId in self._specific

    def getSpecifics(self) -> dict[str, OptimizerValue]:
        """Return the values of tensors that have their own, by name."""
        return dict(self._specific)

    def insertSpecific(self, tensorId: str, value: OptimizerValue) -> None:
        """Give a tensor a value of its own; refuse a second one."""
        if tensorId in self._specific:
            raise popart_exception(
                f"Attempt to insert specific value for optimization Tensor {tensorId}failed as"
                f" there is already a specific value for {tensorId} present. Bailing, in case"
                " this is an error."
            )
        self._specific[tensorId] = value

    def validReplacement(self, other: OptimizerValueMap) -> None:
        """Refuse values that cannot replace these in a compiled program."""
        try:
            self._default.validReplacement(other._default)
        except popart_exception as error:
            raise popart_exception(f"Default value is not a valid replacement. {error}") from error
        if len(self._specific) != len(other._specific):
            raise popart_exception(
                "Replacement OptimizerValueMap has a different number of specific tensors."
            )
        for tensor_id, value in self._specific.items():
            if tensor_id not in other._specific:
                raise popart_exception(
                    f"Could not find tensor {tensor_id} in replacement OptimizerValueMap."
                )
            try:
                value.validReplacement(other._specific[tensor_id])
            except popart_exception as error:
                raise popart_exception(
                    f"OptimizerValue for tensor {tensor_id} is not a valid replacement.{error}"
                ) from error
