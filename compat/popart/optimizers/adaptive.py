"""AdaGrad, RMSProp, centred RMSProp and AdaDelta.

Source: graphcore/popart, willow/include/popart/adaptive.hpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from popart.arguments import BOOL, instance
from popart.enums import AdaptiveMode, WeightDecayMode
from popart.errors import popart_exception
from popart.optimizers.optimizer import (
    Hyperparameter,
    Optimizer,
    above_zero,
    not_negative,
    not_zero_forever,
)
from popart.optimizers.value import OptimizerValueMap
from popart.tensor_info import DataType

__all__ = ["Adaptive"]


class Adaptive(Optimizer):
    """Optimizers that divide by a mean of squared gradients, by `mode`."""

    kind: ClassVar[str] = "Adaptive"
    table: ClassVar[tuple[Hyperparameter, ...]] = (
        Hyperparameter(
            "learningRate", "defaultLearningRate", 0.01, "learning rates", not_zero_forever
        ),
        Hyperparameter(
            "weightDecay",
            "defaultWeightDecay",
            0.0,
            "weight decays",
            not_negative("weight decay"),
        ),
        Hyperparameter("alpha", "defaultAlpha", 0.99, "alphas", not_negative("alpha")),
        Hyperparameter("momentum", "defaultMomentum", 0.0, "momentums", not_negative("momentum")),
        Hyperparameter("eps", "defaultEps", 1e-6, "eps", above_zero("eps")),
    )

    def __init__(
        self,
        values: Mapping[str, Any],
        mode: AdaptiveMode = AdaptiveMode.RMSProp,
        weight_decay_mode: WeightDecayMode = WeightDecayMode.Decay,
        accum_type: DataType = DataType.UNDEFINED,
        accl1_type: DataType = DataType.FLOAT,
        accl2_type: DataType = DataType.FLOAT,
        accl3_type: DataType = DataType.UNDEFINED,
        rmsprop_tf_variant: bool = False,
        debugContext: Any = "adaptive",
    ) -> None:
        self.mode: AdaptiveMode = instance(AdaptiveMode).convert(mode)
        self.weightDecayMode: WeightDecayMode = instance(WeightDecayMode).convert(weight_decay_mode)
        self.accumType, self.accl1Type = accum_type, accl1_type
        self.accl2Type, self.accl3Type = accl2_type, accl3_type
        self.rmspropTFVariant: bool = BOOL.convert(rmsprop_tf_variant)
        self.debugContext = debugContext
        variants = (AdaptiveMode.RMSProp, AdaptiveMode.CenteredRMSProp)
        if self.rmspropTFVariant and self.mode not in variants:
            raise popart_exception(
                "The rmspropTFVariant parameter is only valid with the RMSProp and"
                " CenteredRMSProp optimizers."
            )
        super().__init__(values)

    def _difference(self, other: Adaptive) -> str:
        if self.mode is not other.mode:
            return "Adaptive modes do not match"
        if self.weightDecayMode is not other.weightDecayMode:
            return "Weight decay modes do not match"
        return ""

    def alphas(self) -> OptimizerValueMap:
        """Return the decays of the mean of squares by tensor."""
        return self.values["alpha"]

    def momentums(self) -> OptimizerValueMap:
        """Return the momentums by tensor."""
        return self.values["momentum"]

    def epss(self) -> OptimizerValueMap:
        """Return what is added to the denominator, by tensor."""
        return self.values["eps"]
