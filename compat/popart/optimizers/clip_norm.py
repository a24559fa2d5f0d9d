"""Groups of gradients whose joint norm is limited."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import numpy as np

from popart import logger
from popart.arguments import FLOAT, TEXTS
from popart.errors import popart_exception

__all__ = ["ClipNormSettings"]


class ClipNormSettings:  # noqa: PLW1641 - it can be changed
    """Weights whose gradients have a norm, as one vector, of at most `maxNorm`."""

    class Mode(Enum):
        """Whether weights are named, or all are meant."""

        ClipSpecifiedWeights = 0
        ClipAllWeights = 1

    def __init__(self, weightIds: Sequence[str], maxNorm: float) -> None:
        logger.warn(
            "Using deprecated constructor ClipNormSettings(weightIds, maxNorm). Please use the"
            " static creation methods, 'clipWeights' and 'clipAllWeights' instead."
        )
        self._set(weightIds, maxNorm, ClipNormSettings.Mode.ClipSpecifiedWeights)

    def _set(self, weight_ids: Sequence[str], max_norm: float, mode: ClipNormSettings.Mode) -> None:
        self.weightIds: list[str] = TEXTS.convert(weight_ids)
        self.maxNorm = float(np.float32(FLOAT.convert(max_norm)))
        self._mode = mode

    @staticmethod
    def clipWeights(weightIds: Sequence[str], maxNorm: float) -> ClipNormSettings:
        """Limit the joint norm of the gradients of some weights."""
        settings = ClipNormSettings.__new__(ClipNormSettings)
        settings._set(weightIds, maxNorm, ClipNormSettings.Mode.ClipSpecifiedWeights)
        return settings

    @staticmethod
    def clipAllWeights(maxNorm: float) -> ClipNormSettings:
        """Limit the joint norm of the gradients of all weights."""
        settings = ClipNormSettings.__new__(ClipNormSettings)
        settings._set([], maxNorm, ClipNormSettings.Mode.ClipAllWeights)
        return settings

    def getWeightIds(self) -> list[str]:
        """Return the names of the weights; refused if all are meant."""
        if self._mode is ClipNormSettings.Mode.ClipAllWeights:
            raise popart_exception(
                "ClipNormSettings.getWeightIds should only be called if ClipNormSettings.getMode"
                " returns Mode::ClipSpecifiedWeights."
            )
        return self.weightIds

    def getMaxNorm(self) -> float:
        """Return the limit of the norm."""
        return self.maxNorm

    def getMode(self) -> ClipNormSettings.Mode:
        """Return whether weights are named, or all are meant."""
        return self._mode

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClipNormSettings):
            return NotImplemented
        return (self.weightIds, self.maxNorm, self._mode) == (
            other.weightIds,
            other.maxNorm,
            other._mode,
        )
