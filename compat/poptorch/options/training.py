"""Options of training: micro-batches, the reduction of gradients, loss scaling."""

from __future__ import annotations

from typing import Any, Self

import torch

from poptorch.enums import MeanReductionStrategy, ReductionType
from poptorch.options.dictionary import OptionsDict
from poptorch.options.popart_options import PopartOptions

__all__ = ["TrainingOptions"]


class TrainingOptions(OptionsDict):
    """Options of training: ``Options.Training``."""

    def __init__(self, popart_options: PopartOptions) -> None:
        self._popart_options = popart_options
        self._states_strategy = [False]
        super().__init__(
            gradient_accumulation=1,
            accumulation_and_replication_reduction_type=ReductionType.Mean,
            meanAccumulationAndReplicationReductionStrategy=MeanReductionStrategy.Post,
        )

    def gradientAccumulation(self, gradient_accumulation: int) -> Self:
        """Set the number of micro-batches whose gradients make one step of the optimizer."""
        self.set(gradient_accumulation=gradient_accumulation)
        return self

    def accumulationAndReplicationReductionType(self, reduction_type: ReductionType) -> Self:
        """Set whether a step follows the mean or the sum of micro-batches and replicas.

        Raises
        ------
        ValueError
            When it is neither.
        """
        if reduction_type not in (ReductionType.Mean, ReductionType.Sum) or not isinstance(
            reduction_type, ReductionType
        ):
            raise ValueError(
                "accumulationAndReplicationReductionType must be set to poptorch.ReductionType.Mean"
                " or poptorch.ReductionType.Sum"
            )
        self.set(accumulation_and_replication_reduction_type=reduction_type)
        return self

    def setMeanAccumulationAndReplicationReductionStrategy(
        self, mean_reduction_strategy: MeanReductionStrategy
    ) -> Self:
        """Set when a mean is divided."""
        self.set(meanAccumulationAndReplicationReductionStrategy=mean_reduction_strategy)
        self._states_strategy[0] = True
        return self

    def _choose_strategy(self, optimizer: Any) -> None:
        """Choose when a mean is divided, where the program does not: at once for sums in half."""
        is_half = getattr(optimizer, "accum_type", None) is torch.float16
        is_combined = getattr(optimizer, "use_combined_accum", False)
        if is_half and not is_combined and not self._states_strategy[0]:
            name = "meanAccumulationAndReplicationReductionStrategy"
            self._values[name] = MeanReductionStrategy.Running

    def setAutomaticLossScaling(self, enabled: bool) -> Self:
        """Let the device choose the scale of the loss."""
        self._popart_options.set("automaticLossScalingSettings.enabled", enabled)
        return self

    def setConvolutionDithering(self, enabled: bool) -> Self:
        """Spread convolutions over other tiles than those before."""
        self._popart_options.set("convolutionOptions", {"enableConvDithering": enabled})
        return self
