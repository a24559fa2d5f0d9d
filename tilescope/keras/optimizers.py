"""From Keras's optimizers to the engine's, which compute the same steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilescope.engine.errors import BadOption
from tilescope.engine.training import AdaDelta, Adam, AdaMax, Descent, RmsProp, Sgd

__all__ = ["engine_optimizer", "rate_of"]


def engine_optimizer(optimizer: Any) -> Descent:
    """Return the optimizer of the engine that computes what one of Keras's does.

    Parameters
    ----------
    optimizer
        A ``keras.optimizers.Optimizer``; its rate is the one of the next step.

    Raises
    ------
    BadOption
        When none does, or it asks for what the device does not compute.
    """
    kind = type(optimizer).__name__
    make = _MAKERS.get(kind)
    if make is None:
        raise BadOption(
            f"The optimizer {kind} has no counterpart on the IPU: use one of"
            f" {', '.join(sorted(_MAKERS))}"
        )
    for name, is_asked in (
        ("use_ema", optimizer.use_ema),
        ("amsgrad", getattr(optimizer, "amsgrad", False)),
        ("loss_scale_factor", optimizer.loss_scale_factor is not None),
    ):
        if is_asked:
            raise BadOption(f"{kind}: {name} is not computed on the IPU: leave it out")
    options: dict[str, Any] = {"lr": rate_of(optimizer)}
    if optimizer.clipnorm:
        raise BadOption(
            f"{kind}: clipnorm limits every gradient by itself, which is not computed on the IPU:"
            " use global_clipnorm or clipvalue"
        )
    if optimizer.global_clipnorm:
        options["clip_norm"] = float(optimizer.global_clipnorm)
    elif optimizer.clipvalue:
        options["clip_value"] = float(optimizer.clipvalue)
    return make(optimizer, options, float(optimizer.weight_decay or 0))


def rate_of(optimizer: Any) -> float:
    """Return the rate of the next step."""
    return float(optimizer.learning_rate)


def _sgd(optimizer: Any, options: Mapping[str, Any], decay: float) -> Descent:
    if decay and optimizer.momentum:
        raise BadOption(
            "SGD: Keras's weight_decay is no part of the momentum, which the IPU does not compute:"
            " leave one of them out"
        )
    return Sgd(
        momentum=float(optimizer.momentum),
        nesterov=bool(optimizer.nesterov and optimizer.momentum),
        weight_decay=decay,
        **options,
    )


def _adam(optimizer: Any, options: Mapping[str, Any], decay: float) -> Descent:
    return Adam(
        beta1=float(optimizer.beta_1),
        beta2=float(optimizer.beta_2),
        eps=float(optimizer.epsilon),
        eps_is_corrected=True,
        weight_decay=decay,
        decay="decoupled",
        **options,
    )


def _adamax(optimizer: Any, options: Mapping[str, Any], decay: float) -> Descent:
    return AdaMax(
        beta1=float(optimizer.beta_1),
        beta2=float(optimizer.beta_2),
        eps=float(optimizer.epsilon),
        has_late_eps=True,
        weight_decay=decay,
        decay="decoupled",
        **options,
    )


def _rmsprop(optimizer: Any, options: Mapping[str, Any], decay: float) -> Descent:
    _without_decay("RMSprop", decay)
    return RmsProp(
        alpha=float(optimizer.rho),
        eps=float(optimizer.epsilon),
        momentum=float(optimizer.momentum),
        is_centered=bool(optimizer.centered),
        is_tensorflow=True,
        initial=0.0,
        **options,
    )


def _adadelta(optimizer: Any, options: Mapping[str, Any], decay: float) -> Descent:
    _without_decay("Adadelta", decay)
    return AdaDelta(rho=float(optimizer.rho), eps=float(optimizer.epsilon), **options)


def _without_decay(kind: str, decay: float) -> None:
    if decay:
        raise BadOption(
            f"{kind}: Keras's weight_decay with this optimizer is not computed on the IPU: leave it"
            " out, or use AdamW"
        )


_MAKERS: Mapping[str, Callable[[Any, Mapping[str, Any], float], Descent]] = {
    "SGD": _sgd,
    "Adam": _adam,
    "AdamW": _adam,
    "Adamax": _adamax,
    "RMSprop": _rmsprop,
    "Adadelta": _adadelta,
}
