"""Stochastic gradient descent.

Source: graphcore/popart, willow/include/popart/sgd.hpp.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from popart.arguments import FLOAT, instance
from popart.enums import SGDAccumulatorAndMomentum
from popart.errors import popart_exception
from popart.optimizers.clip_norm import ClipNormSettings
from popart.optimizers.optimizer import (
    Hyperparameter,
    Optimizer,
    above_zero,
    not_negative,
    not_zero_forever,
)
from popart.optimizers.value import OptimizerValue, OptimizerValueMap, shown
from popart.tensor_info import DataType

__all__ = ["SGD", "ConstSGD"]


class SGD(Optimizer):
    """Gradient descent with momentum, weight decay, dampening and Nesterov's rule.

    ``SGD({"defaultLearningRate": (0.1, False), "defaultMomentum": (0.9, True)})``: pairs of a
    number and whether it is constant.
    """

    kind: ClassVar[str] = "SGD"
    table: ClassVar[tuple[Hyperparameter, ...]] = (
        Hyperparameter(
            "learningRate", "defaultLearningRate", 0.1, "learning rates", not_zero_forever
        ),
        Hyperparameter(
            "weightDecay",
            "defaultWeightDecay",
            0.0,
            "weight decays",
            not_negative("weight decay"),
        ),
        Hyperparameter("momentum", "defaultMomentum", 0.0, "momentums", not_negative("momentum")),
        Hyperparameter("dampening", "defaultDampening", 0.0, "", not_negative("dampening")),
        Hyperparameter(
            "velocityScaling",
            "defaultVelocityScaling",
            1.0,
            "velocity scalings",
            above_zero("velocity scaling"),
        ),
        Hyperparameter("nesterov", "nesterov", 0.0, "nesterov"),
    )

    def __init__(
        self,
        pyd: Mapping[str, Any] | None = None,
        clip_norm_settings: Sequence[ClipNormSettings] = (),
        accumulatorAndMomentum: SGDAccumulatorAndMomentum = SGDAccumulatorAndMomentum.Combined,
        accumType: DataType = DataType.UNDEFINED,
        accl1Type: DataType = DataType.UNDEFINED,
        debugContext: Any = "sgd",
        **of_first_releases: float,
    ) -> None:
        super().__init__(
            {**({} if pyd is None else pyd), **_named(of_first_releases)}, clip_norm_settings
        )
        self.accumulatorAndMomentum = instance(SGDAccumulatorAndMomentum).convert(
            accumulatorAndMomentum
        )
        self.accumType, self.accl1Type = accumType, accl1Type
        self.debugContext = debugContext

    def _check(self, values: Mapping[str, OptimizerValue]) -> None:
        super()._check(values)
        if values["nesterov"].val() != 0 and values["dampening"].val() > 0:
            raise popart_exception(
                f"When enable nesterov momentum, dampening ({shown(values['dampening'])}) in SGD"
                " shouled be zero"
            )

    def _difference(self, other: SGD) -> str:
        if not (self.hasVelocity() and other.hasVelocity()):
            return ""
        if self.accumulatorAndMomentum is not other.accumulatorAndMomentum:
            return (
                f"this has SGDAccumulatorAndMomentum {self.accumulatorAndMomentum.name}, but"
                f" other has {other.accumulatorAndMomentum.name}"
            )
        if (self.accumType, self.accl1Type) != (other.accumType, other.accl1Type):
            return "the types of the accumulators differ"
        return ""

    def hasVelocity(self) -> bool:
        """Whether weights have a velocity: a momentum that is not 0 forever."""
        momentum = self.values["momentum"].getDefault()
        return not momentum.isConst() or momentum.val() != 0

    def momentums(self) -> OptimizerValueMap:
        """Return the momentums by tensor."""
        return self.values["momentum"]

    def dampenings(self) -> OptimizerValueMap:
        """Return the dampenings by tensor."""
        return self.values["dampening"]

    def velocityScalings(self) -> OptimizerValueMap:
        """Return the scales of the velocities by tensor."""
        return self.values["velocityScaling"]

    def nesterov(self) -> OptimizerValueMap:
        """Return whether Nesterov's rule holds, by tensor: not 0 if it does."""
        return self.values["nesterov"]


#: Names of numbers in the first releases of PopART, which took them as arguments.
_FIRST_NAMES = {
    "learning_rate": "defaultLearningRate",
    "weight_decay": "defaultWeightDecay",
    "loss_scaling": "lossScaling",
}


def _named(numbers: Mapping[str, float]) -> dict[str, tuple[float, bool]]:
    """Return numbers that may change later, by the names that they have today.

    Raises
    ------
    TypeError
        When a name does not exist, as Python does.
    """
    wrong = [name for name in numbers if name not in _FIRST_NAMES]
    if wrong:
        raise TypeError(
            f"SGD() got an unexpected keyword argument {wrong[0]!r}; give a mapping of"
            f" defaults, or {', '.join(_FIRST_NAMES)}"
        )
    return {_FIRST_NAMES[name]: (FLOAT.convert(value), False) for name, value in numbers.items()}


class ConstSGD(SGD):
    """Gradient descent whose learning rate, weight decay and loss scale are constant."""

    def __init__(
        self,
        learning_rate: float,
        weight_decay: float = 0.0,
        loss_scaling: float = 1.0,
        clip_norm_settings: Sequence[ClipNormSettings] = (),
    ) -> None:
        super().__init__(
            {
                "defaultLearningRate": (FLOAT.convert(learning_rate), True),
                "defaultWeightDecay": (FLOAT.convert(weight_decay), True),
                "lossScaling": (FLOAT.convert(loss_scaling), True),
            },
            clip_norm_settings,
        )
