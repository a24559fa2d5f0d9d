"""From PopART's optimizers to those of the engine."""

from __future__ import annotations

import glob
from collections.abc import Collection
from typing import Any

from popart.enums import AdamMode, AdaptiveMode, SGDAccumulatorAndMomentum, WeightDecayMode
from popart.errors import popart_exception
from popart.optimizers import SGD, Adam, Adaptive, ClipNormSettings, Optimizer
from popart.options import SessionOptions
from popart.tensor_info import DataType
from tilescope.engine import training
from tilescope.engine.errors import BadOption
from tilescope.engine.training import AutomaticScaling, Descent

__all__ = ["engine_optimizer"]

#: The engine's names of hyperparameters, by PopART's.
_NAMES = {
    "learningRate": "lr",
    "weightDecay": "weight_decay",
    "momentum": "momentum",
    "dampening": "dampening",
    "beta1": "beta1",
    "beta2": "beta2",
    "eps": "eps",
    "alpha": "alpha",
}

_TYPES = {DataType.FLOAT: "float32", DataType.FLOAT16: "float16"}


def engine_optimizer(
    optimizer: Optimizer, options: SessionOptions, weights: Collection[str]
) -> Descent:
    """Return what computes in the engine as an optimizer of PopART does.

    Parameters
    ----------
    optimizer
        PopART's.
    options
        Of the session: accumulation, loss scaling, rounding.
    weights
        Names of the trained weights.

    Raises
    ------
    popart_exception
        When the engine has no such form; names the option.
    """
    stated: dict[str, Any] = {
        "loss_scaling": optimizer.lossScaling.val(),
        "stochastic_rounding": bool(options.enableStochasticRounding),
        "sum_dtype": _dtype(getattr(optimizer, "accumType", DataType.UNDEFINED)),
        **_clipping(optimizer.clipNormSettings, weights),
        **_scaling(options, optimizer),
    }
    kind: type[Descent]
    match optimizer:
        case SGD():
            kind, own = training.Sgd, _of_sgd(optimizer, options)
        case Adam():
            kind, own = _of_adam(optimizer)
        case Adaptive():
            kind, own = _of_adaptive(optimizer)
        case _:
            raise popart_exception(
                f"{type(optimizer).__name__} is no optimizer: give SGD, ConstSGD, Adam or Adaptive"
            )
    stated |= own
    names = {name: key for name, key in _NAMES.items() if name in optimizer.values}
    if kind is training.AdaDelta:
        names["alpha"] = "rho"
    known = set(kind.__dataclass_fields__)
    names = {name: key for name, key in names.items() if key in known}
    for name, key in names.items():
        stated[key] = optimizer.values[name].getDefault().val()
    constants = [k for n, k in names.items() if optimizer.values[n].getDefault().isConst()]
    if optimizer.lossScaling.isConst():
        constants.append("loss_scaling")
    stated["constants"] = tuple(constants)
    stated["specific"] = {
        glob.escape(weight): {
            key: optimizer.values[name].get(weight).val() for name, key in names.items()
        }
        for weight in weights
        if optimizer.hasSpecific(weight)
    }
    try:
        return kind(**stated)
    except BadOption as error:
        raise popart_exception(str(error)) from None


def _of_sgd(sgd: SGD, options: SessionOptions) -> dict[str, Any]:
    momentum = sgd.values["momentum"].getDefault().val()
    nesterov = sgd.values["nesterov"].getDefault().val() != 0
    accumulates = options.enableGradientAccumulation and options.accumulationFactor > 1
    is_combined = (
        accumulates
        and momentum != 0
        and not nesterov
        and sgd.accumulatorAndMomentum is SGDAccumulatorAndMomentum.Combined
        and not sgd.clipNormSettings
        and not options.automaticLossScalingSettings.enabled
    )
    return {
        "nesterov": nesterov,
        "is_combined": is_combined,
        "state_dtype": _dtype(sgd.accl1Type),
    }


def _of_adam(adam: Adam) -> tuple[type[Descent], dict[str, Any]]:
    own: dict[str, Any] = {
        "decay": _decay(adam.weightDecayMode),
        "state_dtype": _dtype(adam.accl1Type),
    }
    match adam.mode:
        case AdamMode.AdaMax:
            return training.AdaMax, {**own, "has_late_eps": True}
        case AdamMode.Lamb | AdamMode.LambNoBias:
            most = adam.values["maxWeightNorm"].getDefault().val()
            with_bias = adam.mode is AdamMode.Lamb
            return training.Lamb, {**own, "most_norm": most, "bias_correction": with_bias}
    return training.Adam, {**own, "bias_correction": adam.mode is AdamMode.Adam}


def _of_adaptive(adaptive: Adaptive) -> tuple[type[Descent], dict[str, Any]]:
    own: dict[str, Any] = {
        "decay": _decay(adaptive.weightDecayMode),
        "state_dtype": _dtype(adaptive.accl1Type),
    }
    match adaptive.mode:
        case AdaptiveMode.AdaGrad:
            return training.Adagrad, own
        case AdaptiveMode.AdaDelta:
            return training.AdaDelta, own
    is_centered = adaptive.mode is AdaptiveMode.CenteredRMSProp
    own |= {"is_centered": is_centered, "is_tensorflow": adaptive.rmspropTFVariant}
    return training.RmsProp, own


def _decay(mode: WeightDecayMode) -> str:
    return "decoupled" if mode is WeightDecayMode.Decay else "l2"


def _dtype(kind: DataType) -> str:
    return _TYPES.get(kind, "")


def _clipping(groups: list[ClipNormSettings], weights: Collection[str]) -> dict[str, Any]:
    """Return what limits the norm of gradients: that of all weights.

    Raises
    ------
    popart_exception
        When only some weights are meant.
    """
    if not groups:
        return {}
    if len(groups) == 1 and (
        groups[0].getMode() is ClipNormSettings.Mode.ClipAllWeights
        or set(groups[0].getWeightIds()) == set(weights)
    ):
        return {"clip_norm": groups[0].getMaxNorm()}
    raise popart_exception(
        "clipNormSettings of some of the weights are not supported: use"
        " ClipNormSettings.clipAllWeights, or name all of them"
    )


def _scaling(options: SessionOptions, optimizer: Optimizer) -> dict[str, Any]:
    settings = options.automaticLossScalingSettings
    if not settings.enabled:
        return {}
    scaling = AutomaticScaling(
        initial=optimizer.lossScaling.val(),
        period=settings.updatePeriod,
        edge=settings.binEdgeLocation,
        share=settings.thresholdUpperCountProportion,
    )
    return {"scaling": scaling, "loss_scaling": 1.0}
