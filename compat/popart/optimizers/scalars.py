"""The numbers that a program reads of an optimizer, under the names of PopART's tensors.

Source: graphcore/popart, willow/src/compoundscalarhelper.cpp and
willow/include/popart/tensornames.hpp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from popart.enums import SGDAccumulatorAndMomentum
from popart.optimizers.adam import Adam
from popart.optimizers.adaptive import Adaptive
from popart.optimizers.optimizer import Optimizer
from popart.optimizers.sgd import SGD
from popart.optimizers.value import OptimizerValue

__all__ = ["scalars_of"]

#: Numbers of a weight by the names of hyperparameters; "ls" is the scale of its gradients.
_Numbers = Mapping[str, np.float32]


@dataclass(frozen=True)
class _Scalar:
    """A number that is made of hyperparameters.

    Parameters
    ----------
    stem
        Of its tensor's name.
    of
        The hyperparameters; ``ls`` for the scale of the loss.
    value
        Computes it.
    """

    stem: str
    of: tuple[str, ...]
    value: Callable[[_Numbers], np.float32]


def _one() -> np.float32:
    return np.float32(1)


def _plain(name: str, stem: str) -> _Scalar:
    return _Scalar(stem, (name,), lambda n: n[name])


_LR, _WD, _MM = "learningRate", "weightDecay", "momentum"
_DM, _VS, _LS = "dampening", "velocityScaling", "ls"

_SGD0 = (
    _Scalar("scaledLearningRate0", (_LR, _DM, _LS), lambda n: n[_LR] * (_one() - n[_DM]) / n[_LS]),
    _Scalar(
        "weightDecayScaleFactor0",
        (_LR, _DM, _WD),
        lambda n: _one() - n[_LR] * (_one() - n[_DM]) * n[_WD],
    ),
)


def _with_velocity(kind: int) -> tuple[_Scalar, ...]:
    return (
        _plain(_MM, f"scaledMomentum{kind}"),
        _Scalar(f"scaledLearningRate{kind}", (_LR, _VS), lambda n: n[_LR] / n[_VS]),
        _Scalar(
            f"dampeningScaleFactor{kind}",
            (_DM, _VS, _LS),
            lambda n: (_one() - n[_DM]) * n[_VS] / n[_LS],
        ),
        _Scalar(
            "scaledWeightDecay1", (_DM, _WD, _VS), lambda n: (_one() - n[_DM]) * n[_WD] * n[_VS]
        ),
    )


_ADAM = (
    _plain(_LR, "learningRate"),
    _plain(_WD, "weightDecay"),
    _plain("beta1", "adamBeta1"),
    _plain("beta2", "adamBeta2"),
    _plain("eps", "adamEps"),
    _plain("maxWeightNorm", "maxWeightNorm"),
    _plain(_LS, "adamGradientScaling"),
)
_ADAPTIVE = (
    _plain(_LR, "learningRate"),
    _plain(_WD, "weightDecay"),
    _plain("alpha", "adaptiveAlpha"),
    _plain(_MM, "adaptiveMomentum"),
    _plain("eps", "adaptiveEps"),
    _plain(_LS, "adaptiveGradientScaling"),
)


def scalars_of(
    optimizer: Optimizer, weights: Iterable[tuple[str, str]], divisor: int
) -> dict[str, np.float32]:
    """Return the numbers that are not constant, by the names of their tensors.

    Parameters
    ----------
    optimizer
        What has the hyperparameters.
    weights
        Names of the weights, and their types as PopART calls them.
    divisor
        What a mean of micro-batches divides gradients by; 1 for a sum.
    """
    scalars: dict[str, np.float32] = {}
    if not optimizer.lossScaling.isConst():
        for kind in ("FLOAT", "FLOAT16"):
            scalars[f"lossScaling_{kind}"] = np.float32(optimizer.lossScaling.val())
    for weight, kind in weights:
        is_specific = optimizer.hasSpecific(weight)
        values = {name: of.get(weight) for name, of in optimizer.values.items()}
        values[_LS] = OptimizerValue(
            optimizer.lossScaling.val() * divisor, optimizer.lossScaling.isConst()
        )
        numbers = {name: np.float32(value.val()) for name, value in values.items()}
        end = f"specific___{weight}" if is_specific else f"default___{kind}"
        for scalar in _table(optimizer):
            if not all(values[name].isConst() for name in scalar.of):
                scalars[f"{scalar.stem}___{end}"] = np.float32(scalar.value(numbers))
    return scalars


def _table(optimizer: Optimizer) -> tuple[_Scalar, ...]:
    match optimizer:
        case Adam():
            return _ADAM
        case Adaptive():
            return _ADAPTIVE
        case SGD() if optimizer.hasVelocity():
            is_combined = optimizer.accumulatorAndMomentum is SGDAccumulatorAndMomentum.Combined
            return _with_velocity(1 if is_combined else 2)
    return _SGD0
