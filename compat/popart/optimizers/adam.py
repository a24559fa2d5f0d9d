"""Adam, AdaMax and Lamb.

Source: graphcore/popart, willow/include/popart/adam.hpp.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from popart import logger
from popart.arguments import BOOL, instance
from popart.enums import AdamMode, WeightDecayMode
from popart.optimizers.clip_norm import ClipNormSettings
from popart.optimizers.optimizer import (
    Hyperparameter,
    Optimizer,
    above_zero,
    not_negative,
    not_zero_forever,
)
from popart.optimizers.value import OptimizerValue, OptimizerValueMap
from popart.tensor_info import DataType

__all__ = ["Adam"]


class Adam(Optimizer):
    """Adam and its relatives, by `mode`.

    ``Adam({"defaultLearningRate": (0.001, False)}, mode=AdamMode.Lamb)``: pairs of a number and
    whether it is constant.
    """

    kind: ClassVar[str] = "Adam"
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
        Hyperparameter("beta1", "defaultBeta1", 0.9, "beta1s", not_negative("beta1")),
        Hyperparameter("beta2", "defaultBeta2", 0.999, "beta2s", not_negative("beta2")),
        Hyperparameter("eps", "defaultEps", 1e-6, "eps", above_zero("eps")),
        Hyperparameter("maxWeightNorm", "defaultMaxWeightNorm", 10.0, "mwn"),
    )
    old_keys: ClassVar[dict[str, str]] = {"maxWeightNorm": "defaultMaxWeightNorm"}

    def __init__(
        self,
        values: Mapping[str, Any],
        mode: AdamMode = AdamMode.Adam,
        weight_decay_mode: WeightDecayMode = WeightDecayMode.Decay,
        accum_type: DataType = DataType.UNDEFINED,
        accl1_type: DataType = DataType.FLOAT,
        accl2_type: DataType = DataType.FLOAT,
        clip_norm_settings: Sequence[ClipNormSettings] = (),
        scaled_optimizer_state: bool = False,
        debugContext: Any = "adam",
    ) -> None:
        super().__init__(values, clip_norm_settings)
        self.mode: AdamMode = instance(AdamMode).convert(mode)
        self.weightDecayMode: WeightDecayMode = instance(WeightDecayMode).convert(weight_decay_mode)
        self.accumType, self.accl1Type, self.accl2Type = accum_type, accl1_type, accl2_type
        self.scaledOptimizerState: bool = BOOL.convert(scaled_optimizer_state)
        self.debugContext = debugContext

    def _complete(self, given: dict[str, OptimizerValue]) -> dict[str, OptimizerValue]:
        if "maxWeightNorm" in given:
            logger.warn(
                "Using 'maxWeightNorm' as a key in the Adam constructor is deprecated. Please use"
                " 'defaultMaxWeightNorm' instead."
            )
        return super()._complete(given)

    def _difference(self, other: Adam) -> str:
        if self.mode is not other.mode:
            return "Adam modes do not match"
        if self.weightDecayMode is not other.weightDecayMode:
            return "Weight decay modes do not match"
        return ""

    def beta1s(self) -> OptimizerValueMap:
        """Return the decays of the first moment by tensor."""
        return self.values["beta1"]

    def beta2s(self) -> OptimizerValueMap:
        """Return the decays of the second moment by tensor."""
        return self.values["beta2"]

    def epss(self) -> OptimizerValueMap:
        """Return what is added to the denominator, by tensor."""
        return self.values["eps"]

    def maxWeightNorms(self) -> OptimizerValueMap:
        """Return the largest norms that Lamb takes a weight to have, by tensor."""
        return self.values["maxWeightNorm"]
