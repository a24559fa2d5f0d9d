"""The base of optimizers: a table of hyperparameters, their checks, and valid replacements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from popart.arguments import BOOL, FLOAT, Mismatch
from popart.errors import popart_exception, popart_runtime_error
from popart.optimizers.clip_norm import ClipNormSettings
from popart.optimizers.value import OptimizerValue, OptimizerValueMap, shown

__all__ = ["Hyperparameter", "Optimizer", "above_zero", "not_negative", "not_zero_forever"]

#: A check of a hyperparameter: what it raises for a value, by the name of the optimizer.
_Check = Callable[[str, OptimizerValue], None]


@dataclass(frozen=True)
class Hyperparameter:
    """A hyperparameter of an optimizer.

    Parameters
    ----------
    name
        Its name in `Optimizer.insertSpecific`.
    key
        Its name in the dict that makes an optimizer.
    unset
        Its constant value where nothing sets it.
    plural
        What a refusal of a replacement calls it; empty if any value may replace it.
    check
        Refuses values.
    """

    name: str
    key: str
    unset: float
    plural: str
    check: _Check = lambda _optimizer, _value: None


def not_negative(name: str, end: str = "") -> _Check:
    """Return a check that refuses negative values; `end` ends its sentence."""

    def check(optimizer: str, value: OptimizerValue) -> None:
        if value.val() < 0:
            raise popart_exception(
                f"Negative {name} ({shown(value)}) in {optimizer}, bailing as this might be a"
                f" user error{end}"
            )

    return check


def not_zero_forever(optimizer: str, value: OptimizerValue) -> None:
    """Refuse a negative learning rate, and one that is constant and zero."""
    not_negative("learning rate", ".")(optimizer, value)
    if value.val() == 0 and value.isConst():
        raise popart_exception(
            f"Constant, zero learning rate in {optimizer}, bailing as this might be a user error."
        )


def above_zero(name: str) -> _Check:
    """Return a check that refuses values that are not positive."""

    def check(optimizer: str, value: OptimizerValue) -> None:
        if value.val() <= 0:
            raise popart_exception(
                f"Non-positive {name} ({shown(value)}) in {optimizer} is not supported"
            )

    return check


class Optimizer:
    """Hyperparameters with defaults, and values of tensors that have their own.

    Attributes
    ----------
    values
        The hyperparameters by their names in `insertSpecific`.
    lossScaling
        The scale of the loss.
    clipNormSettings
        Groups of gradients whose norm is limited.
    """

    #: Name in messages.
    kind: ClassVar[str] = "Optimizer"
    #: The hyperparameters by tensor, in the order of PopART's messages.
    table: ClassVar[tuple[Hyperparameter, ...]] = ()
    #: Old keys of the dict that makes an optimizer, with those that replace them.
    old_keys: ClassVar[dict[str, str]] = {}

    def __init__(
        self, pairs: Mapping[str, Any], clip_norm_settings: Sequence[ClipNormSettings] = ()
    ) -> None:
        values = self._complete(_read_values(pairs))
        self.lossScaling = values["lossScaling"]
        self.clipNormSettings = list(clip_norm_settings)
        if self.lossScaling.val() == 0:
            raise popart_exception("Loss scaling cannot be 0")
        self.values = {entry.name: OptimizerValueMap(values[entry.key]) for entry in self.table}
        self._check({entry.name: values[entry.key] for entry in self.table})

    def _complete(self, pairs: dict[str, OptimizerValue]) -> dict[str, OptimizerValue]:
        values = {entry.key: OptimizerValue(entry.unset) for entry in self.table}
        values["lossScaling"] = OptimizerValue(1.0)
        for key, value in pairs.items():
            known = self.old_keys.get(key, key)
            if known not in values:
                keys = " ".join([*values, *self.old_keys])
                raise popart_exception(
                    f"Invalid {self.kind} key, {key}, the allowed keys are ( {keys} )"
                )
            values[known] = value
        return values

    def _check(self, values: Mapping[str, OptimizerValue]) -> None:
        for entry in self.table:
            entry.check(self.kind, values[entry.name])

    def insertSpecific(self, tensorId: str, values: Mapping[str, Any]) -> None:
        """Give a tensor hyperparameters of its own; those not in `values` are the defaults."""
        complete = {name: held.getDefault() for name, held in self.values.items()}
        for key, value in _read_values(values).items():
            if key not in complete:
                raise popart_exception(
                    f"Invalid key {key} in {self.kind}::insertSpecific. Permitted keys are"
                    f" ( {' '.join(complete)} )"
                )
            complete[key] = value
        for name, held in self.values.items():
            held.insertSpecific(tensorId, complete[name])
        self._check(complete)

    def hasSpecific(self, tensorId: str | None = None) -> bool:
        """Whether a tensor, or any tensor, has hyperparameters of its own."""
        return any(held.hasSpecific(tensorId) for held in self.values.values())

    def getLossScalingVal(self) -> float:
        """Return the scale of the loss."""
        return self.lossScaling.val()

    def learningRates(self) -> OptimizerValueMap:
        """Return the learning rates by tensor."""
        return self.values["learningRate"]

    def weightDecays(self) -> OptimizerValueMap:
        """Return the weight decays by tensor."""
        return self.values["weightDecay"]

    def validReplacement(self, other: Optimizer) -> None:
        """Refuse an optimizer that cannot replace this one in a compiled program.

        `popart_runtime_error` says what differs.
        """
        if len(self.clipNormSettings) != len(other.clipNormSettings):
            raise _no_replacement("Clip norm settings do not match.")
        for index, (mine, theirs) in enumerate(
            zip(self.clipNormSettings, other.clipNormSettings, strict=True)
        ):
            if mine != theirs:
                raise _no_replacement(f"Clip norm settings at index {index} do not match.")
        if self.kind != other.kind:
            raise _no_replacement(
                f"Can not replace optimizer of type {self.kind} with new optimizer of type"
                f" {other.kind}"
            )
        difference = self._difference(other)
        if difference:
            raise _no_replacement(difference)
        self._check_values("loss scaling", self.lossScaling, other.lossScaling)
        for entry in filter(lambda entry: entry.plural, self.table):
            self._check_values(entry.plural, self.values[entry.name], other.values[entry.name])

    def _difference(self, other: Any) -> str:
        """Return what, beside the hyperparameters, differs from an optimizer of this kind."""
        del other
        return ""

    @staticmethod
    def _check_values(plural: str, mine: Any, theirs: Any) -> None:
        try:
            mine.validReplacement(theirs)
        except popart_exception as error:
            raise _no_replacement(f"Problem with {plural}. {error}") from error


def _no_replacement(reason: str) -> popart_runtime_error:
    return popart_runtime_error(f"New optimizer is not a valid replacement. {reason}")


def _read_values(pairs: Mapping[str, Any]) -> dict[str, OptimizerValue]:
    """Return the values of a dict of pairs: a number, and whether it is constant."""
    if not isinstance(pairs, Mapping):
        raise TypeError(f"Expected a dict of hyperparameters, got {pairs!r}")
    values = {}
    for key, pair in pairs.items():
        if not isinstance(key, str):
            raise popart_exception(
                "A key in the optimizer map input must be a py::str (in"
                " getOptimizerValueDictionary)"
            )
        if not isinstance(pair, tuple):
            raise popart_exception(
                "A value in the optimizer map must be a py::tuple (in getOptimizerValueDictionary)"
            )
        try:
            number, is_const = pair
            values[key] = OptimizerValue(FLOAT.convert(number), BOOL.convert(is_const))
        except (Mismatch, ValueError) as error:
            raise RuntimeError(
                f"Hyperparameter {key} must be a number and whether it is constant, got {pair!r}"
            ) from error
    return values
