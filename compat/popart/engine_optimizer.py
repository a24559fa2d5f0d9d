"""From PopART's optimizers to those of the engine."""

from __future__ import annotations

import glob
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from popart.enums import AdamMode, AdaptiveMode, SGDAccumulatorAndMomentum, WeightDecayMode
from popart.errors import popart_exception
from popart.optimizers import SGD, Adam, Adaptive, ClipNormSettings, Optimizer
from popart.options import SessionOptions
from popart.tensor_info import DataType
from tilescope.engine import training
from tilescope.engine.errors import BadOption
from tilescope.engine.training import AutomaticScaling, ClipGroup, Descent

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
    "maxWeightNorm": "most_norm",
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
        **_scaling(options, optimizer),
    }
    kind: type[Descent]
    match optimizer:
        case SGD():
            kind, own = training.Sgd, {"state_dtype": _dtype(optimizer.accl1Type)}
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
    leaves_sums = bool(optimizer.clipNormSettings or options.automaticLossScalingSettings.enabled)
    stated |= _numbers(optimizer, names, None, leaves_sums=leaves_sums)
    stated["specific"] = {
        glob.escape(weight): _numbers(optimizer, names, weight, leaves_sums=leaves_sums)
        for weight in weights
        if optimizer.hasSpecific(weight)
    }
    try:
        return kind(clip_groups=_clipping(optimizer, weights), **stated)
    except BadOption as error:
        raise popart_exception(str(error)) from None


def _numbers(
    optimizer: Optimizer, names: Mapping[str, str], weight: str | None, *, leaves_sums: bool
) -> dict[str, Any]:
    """Return the numbers of a weight, or those of weights without their own.

    Parameters
    ----------
    optimizer
        PopART's.
    names
        The engine's names of hyperparameters, by PopART's.
    weight
        Its name; None for the defaults.
    leaves_sums
        Whether sums of gradients are looked at before they are added to velocities.
    """
    values = {
        name: held.getDefault() if weight is None else held.get(weight)
        for name, held in optimizer.values.items()
    }
    stated: dict[str, Any] = {key: values[name].val() for name, key in names.items()}
    constants = [key for name, key in names.items() if values[name].isConst()]
    if optimizer.lossScaling.isConst():
        constants.append("loss_scaling")
    stated["constants"] = tuple(constants)
    stated["varying"] = tuple(
        key
        for key in ("weight_decay", "momentum", "loss_scaling")
        if (key in stated or key == "loss_scaling") and key not in constants
    )
    if isinstance(optimizer, SGD):
        has_velocity = stated["momentum"] != 0 or "momentum" in stated["varying"]
        stated["nesterov"] = has_velocity and values["nesterov"].val() != 0
        stated["is_combined"] = (
            has_velocity
            and not stated["nesterov"]
            and not leaves_sums
            and optimizer.accumulatorAndMomentum is SGDAccumulatorAndMomentum.Combined
        )
    return stated


def _of_adam(adam: Adam) -> tuple[type[Descent], dict[str, Any]]:
    own: dict[str, Any] = {
        "decay": _decay(adam.weightDecayMode),
        "state_dtype": _dtype(adam.accl1Type),
    }
    match adam.mode:
        case AdamMode.AdaMax:
            return training.AdaMax, {**own, "has_late_eps": True}
        case AdamMode.Lamb | AdamMode.LambNoBias:
            return training.Lamb, {**own, "bias_correction": adam.mode is AdamMode.Lamb}
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


def _clipping(optimizer: Optimizer, weights: Collection[str]) -> tuple[ClipGroup, ...]:
    """Return the limits of the norms of gradients: SGD has the scale of the loss in them.

    Raises
    ------
    popart_exception
        When a weight does not exist, or is in two groups.
    """
    clip_groups, grouped = [], set()
    for group in optimizer.clipNormSettings:
        is_of_all = group.getMode() is ClipNormSettings.Mode.ClipAllWeights
        members = [*weights] if is_of_all else group.getWeightIds()
        for weight in members:
            if weight not in weights:
                raise popart_exception(
                    f"clipNormSettings name {weight!r}, which is not a trained weight: they are"
                    f" {', '.join(weights) or 'none'}"
                )
            if weight in grouped:
                raise popart_exception(
                    f"clipNormSettings name the weight {weight!r} in two groups: name it in one"
                )
            grouped.add(weight)
        patterns = tuple(glob.escape(weight) for weight in members)
        is_scaled = isinstance(optimizer, SGD)
        clip_groups.append(
            ClipGroup(weights=patterns, norm=group.getMaxNorm(), is_scaled=is_scaled)
        )
    return tuple(clip_groups)


def _scaling(options: SessionOptions, optimizer: Optimizer) -> dict[str, Any]:
    settings = options.automaticLossScalingSettings
    if not settings.enabled:
        return {}
    scaling = AutomaticScaling(
        initial=optimizer.lossScaling.val(),
        period=settings.updatePeriod,
        edge=settings.binEdgeLocation,
        share=settings.thresholdUpperCountProportion,
        is_of_last=True,
        least=float(np.finfo(np.float32).tiny),
        most=float(np.finfo(np.float32).max),
    )
    return {"scaling": scaling, "loss_scaling": 1.0}
