"""Enumerations about optimizers."""

from __future__ import annotations

from popart.enumeration import Enumeration

__all__ = [
    "AdamMode",
    "AdaptiveMode",
    "SGDAccumulatorAndMomentum",
    "WeightDecayMode",
]


class WeightDecayMode(Enumeration):
    """Decay of the weights themselves, or a term of the gradients."""

    Decay = 0
    L2Regularization = 1


class SGDAccumulatorAndMomentum(Enumeration):
    """One tensor for gradients and velocity, or two."""

    Combined = 0
    Separate = 1


class AdamMode(Enumeration):
    """Variants of Adam."""

    Adam = 0
    AdamNoBias = 1
    AdaMax = 2
    Lamb = 3
    LambNoBias = 4


class AdaptiveMode(Enumeration):
    """Variants of adaptive optimizers."""

    AdaGrad = 0
    RMSProp = 1
    CenteredRMSProp = 2
    AdaDelta = 3
