"""From optimizers of PyTorch and PopTorch to those of the engine."""

from __future__ import annotations

import glob
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import torch

from poptorch import optim
from poptorch._logging import logger
from poptorch.errors import createPoptorchError, error_of
from poptorch.executor.attribute_checks import AttributeChecks
from poptorch.options import Options
from tilescope.engine import training
from tilescope.engine.errors import BadOption
from tilescope.engine.training import AutomaticScaling, Descent

__all__ = ["check_optimizer", "engine_optimizer", "kind_of"]

_TYPES = {torch.float32: "float32", torch.float16: "float16"}


@dataclass(frozen=True)
class _Kind:
    """A kind of optimizers.

    Parameters
    ----------
    name
        In messages.
    engine
        What computes it.
    numbers
        The engine's names of numbers by those of groups.
    constants
        Values at which a number of PyTorch's optimizer is a constant of the program.
    choices
        What the engine's optimizer takes besides.
    """

    name: str
    engine: type[Descent]
    numbers: Mapping[str, str]
    constants: Mapping[str, float]
    choices: Callable[[Any], dict[str, Any]]


_OF_SGD = {
    "lr": "lr",
    "momentum": "momentum",
    "dampening": "dampening",
    "weight_decay": "weight_decay",
}
_OF_ADAM = {"lr": "lr", "weight_decay": "weight_decay", "eps": "eps"}
_ZERO_DECAY = {"weight_decay": 0.0, "eps": 1e-8}

#: Numbers that the host may set later where their first value leaves gradients as they are.
_MAY_VARY = ("weight_decay", "momentum", "loss_scaling")

#: Numbers that are constants always.
_ALWAYS_CONSTANT = ("alpha", "betas", "nesterov")


def kind_of(optimizer: torch.optim.Optimizer) -> _Kind:
    """Return the kind of an optimizer.

    Raises
    ------
    AssertionError
        When models cannot be trained with it.
    """
    bases = type(optimizer).__bases__
    if torch.optim.Optimizer not in bases and optim.Optimizer not in bases:
        logger.warning(
            "Optimizer `%s` subclasses one of poptorch.optim or torch.optim: its own code does not"
            " run on the device",
            type(optimizer).__name__,
        )
    corrects = getattr(optimizer, "bias_correction", True)
    if isinstance(optimizer, torch.optim.SGD):
        constants = {"weight_decay": 0.0, "momentum": 0.0, "dampening": 0.0}
        is_combined = getattr(optimizer, "use_combined_accum", False)
        name = "SGD1" if is_combined else "SGD2"
        return _Kind(name, training.Sgd, _OF_SGD, constants, _of_sgd)
    if isinstance(optimizer, torch.optim.AdamW):
        name = "ADAMW" if corrects else "ADAMW_NO_BIAS"
        constants = {"weight_decay": 0.01, "eps": 1e-8}
        return _Kind(name, training.AdamW, _OF_ADAM, constants, _of_adam)
    if isinstance(optimizer, torch.optim.Adam):
        return _Kind("ADAM", training.Adam, _OF_ADAM, _ZERO_DECAY, _of_adam)
    if isinstance(optimizer, torch.optim.RMSprop):
        centred = {group["centered"] for group in optimizer.param_groups}
        assert len(centred) == 1, (
            "All parameter groups must have the same value for the 'centered' attribute"
        )
        name = "RMSPROP_CENTERED" if centred == {True} else "RMSPROP"
        numbers = {**_OF_ADAM, "momentum": "momentum", "alpha": "alpha"}
        constants = {**_ZERO_DECAY, "momentum": 0.0}
        return _Kind(name, training.RmsProp, numbers, constants, _of_rmsprop)
    assert isinstance(optimizer, optim.LAMB), (
        f"Unsupported optimizer type {type(optimizer).__name__}. Types supported: SGD, Adam, AdamW"
        " and RMSprop of torch.optim, those and LAMB of poptorch.optim"
    )
    numbers = {**_OF_ADAM, "max_weight_norm": "most_norm"}
    constants = {**_ZERO_DECAY, "max_weight_norm": 65500.0}
    return _Kind(
        "LAMB" if corrects else "LAMB_NO_BIAS", training.Lamb, numbers, constants, _of_adam
    )


def _of_sgd(optimizer: Any) -> dict[str, Any]:
    return {"state_dtype": _dtype(optimizer, "velocity_accum_type")}


def _of_adam(optimizer: Any) -> dict[str, Any]:
    return {
        "state_dtype": _dtype(optimizer, "first_order_momentum_accum_type"),
        "bias_correction": getattr(optimizer, "bias_correction", True),
    }


def _of_rmsprop(optimizer: Any) -> dict[str, Any]:
    return {
        "state_dtype": _dtype(optimizer, "first_order_momentum_accum_type"),
        "is_centered": optimizer.param_groups[0]["centered"],
        "is_tensorflow": getattr(optimizer, "use_tf_variant", False),
    }


def _dtype(optimizer: Any, name: str) -> str:
    """Return the engine's name of a type that an optimizer states.

    Raises
    ------
    ValueError
        When it is neither half nor float.
    """
    value = getattr(optimizer, name, torch.float32)
    if value not in _TYPES:
        raise ValueError(f"{name} must be set to either torch.float16 or torch.float32 not {value}")
    return _TYPES[value]


def check_optimizer(optimizer: Any, checks: AttributeChecks) -> None:
    """Warn of attributes that the first optimizer of a model did not have."""
    name = kind_of(optimizer).name
    groups = [list(optimizer.defaults), *(list(group) for group in optimizer.param_groups)]
    checks.check(name, "group", "default group variable", groups[0])
    hidden = ("defaults", "state", "param_groups", "variable_attrs")
    own = [key for key in vars(optimizer) if key not in hidden]
    checks.check(name, "optimizer", "optimizer attribute", own)
    for number, group in enumerate(groups[1:]):
        names = [key for key in group if key != "params"]
        checks.check(name, "group", f"group {number} attribute", names)
    checks.close()


def engine_optimizer(optimizer: Any, names: Mapping[int, str], options: Options) -> Descent:
    """Return what computes in the engine as an optimizer does.

    Parameters
    ----------
    optimizer
        PyTorch's or PopTorch's.
    names
        Names of the trained weights in the model, by the `id` of the parameter.
    options
        Of the model: loss scaling, rounding.

    Raises
    ------
    AssertionError
        When models cannot be trained with it, or a number is missing.
    ValueError
        When it has a form that the device does not have.
    Error
        When a number is out of range.
    """
    kind = kind_of(optimizer)
    popart = options._Popart.options
    scale = float(getattr(optimizer, "loss_scaling", 1.0))
    stated: dict[str, Any] = {
        **kind.choices(optimizer),
        "sum_dtype": _dtype(optimizer, "accum_type"),
        "stochastic_rounding": bool(popart.get("enableStochasticRounding", False)),
        "loss_scaling": scale,
    }
    norm = getattr(optimizer, "max_grad_norm", math.inf)
    if math.isnan(norm):
        raise ValueError("max_grad_norm must not be NaN")
    stated["clip_norm"] = norm if math.isfinite(norm) else 0.0
    if popart.get("automaticLossScalingSettings.enabled", False):
        stated |= {"scaling": AutomaticScaling(initial=scale), "loss_scaling": 1.0}
    leaves_sums = bool(stated["clip_norm"] or "scaling" in stated)
    groups = [
        _numbers(kind, optimizer, group, leaves_sums=leaves_sums)
        for group in optimizer.param_groups
    ]
    specific = {
        glob.escape(names[id(parameter)]): numbers
        for group, numbers in zip(optimizer.param_groups[1:], groups[1:], strict=True)
        for parameter in group["params"]
        if id(parameter) in names
    }
    try:
        return kind.engine(**stated, **groups[0], specific=specific)
    except BadOption as error:
        raise error_of("popart_exception", str(error)) from error


def _numbers(
    kind: _Kind, optimizer: Any, group: Mapping[str, Any], *, leaves_sums: bool
) -> dict[str, Any]:
    """Return the numbers of a group, and which of them the host may change.

    Raises
    ------
    AssertionError
        When one is missing, or is not a number.
    ValueError, Error
        When the group has a form that the device does not have.
    """
    if group.get("amsgrad"):
        raise ValueError("Only non-amsgrad Adam/AdamW optimizers are supported.")
    if group.get("maximize"):
        raise createPoptorchError(
            "Optimizers with maximize=True are not supported: negate the loss"
        )
    variable = getattr(optimizer, "variable_attrs", None)
    numbers: dict[str, Any] = {}
    constants: list[str] = []

    def add(name: str, key: str, value: Any) -> None:
        assert value is not None, f"Mandatory attribute {name} not found in optimizer group"
        value = value.item() if isinstance(value, torch.Tensor) else value
        assert isinstance(value, Real), f"Expected a number for {name} but got {value} instead"
        numbers[key] = number = float(value)
        if variable is not None:
            is_constant = variable.isConstant(name)
        else:
            is_constant = name in _ALWAYS_CONSTANT or number == kind.constants.get(name)
        if is_constant:
            constants.append(key)

    for name, key in kind.numbers.items():
        add(name, key, group.get(name))
    if "betas" in group:
        betas = group["betas"]
        is_pair = isinstance(betas, tuple) and len(betas) == 2
        assert is_pair, f"Expected a pair for betas but got {betas} instead"
        add("betas", "beta1", betas[0])
        add("betas", "beta2", betas[1])
    scale = getattr(optimizer, "loss_scaling", 1.0)
    if scale == 1.0 if variable is None else variable.isConstant("loss_scaling"):
        constants.append("loss_scaling")
    stated = (*numbers, "loss_scaling")
    varying = tuple(key for key in _MAY_VARY if key in stated and key not in constants)
    numbers |= {"constants": tuple(constants), "varying": varying}
    if kind.engine is training.Sgd:
        has_velocity = numbers["momentum"] != 0 or "momentum" in varying
        nesterov = bool(group.get("nesterov")) and has_velocity
        is_combined = getattr(optimizer, "use_combined_accum", False) and not leaves_sums
        numbers["nesterov"] = nesterov
        numbers["is_combined"] = bool(is_combined and has_velocity and not nesterov)
    return numbers
