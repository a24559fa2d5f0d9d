"""Lines of the log that tell what trains a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from poptorch import optim
from poptorch._logging import logger

__all__ = ["OptimizerLog"]

#: Names of numbers in the log, by those of groups.
_NAMES = {
    "lr": "learningRate",
    "weight_decay": "weightDecay",
    "momentum": "momentum",
    "dampening": "dampening",
    "velocity_scaling": "velocityScaling",
    "nesterov": "nesterov",
    "alpha": "alpha",
    "eps": "eps",
    "max_weight_norm": "maxWeightNorm",
}

#: Numbers that groups do not have of their own.
_OF_ALL = ("nesterov", "lossScaling")


class OptimizerLog:
    """Writes what an optimizer is, if it is another one than before."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def note(self, optimizer: Any, kind: str) -> None:
        """Write the lines of an optimizer whose numbers are not those of the last one.

        Parameters
        ----------
        optimizer
            PyTorch's or PopTorch's.
        kind
            Its name in messages.
        """
        texts = [
            ", ".join([kind, *_numbers(optimizer, group, number)])
            for number, group in enumerate([optimizer.defaults, *optimizer.param_groups])
        ]
        if texts != self._texts:
            types = "".join(f", {text}" for text in _types(optimizer))
            subjects = ["graph", *(f"group {n}" for n in range(len(texts) - 1))]
            for subject, text in zip(subjects, texts, strict=True):
                logger.debug("Updating %s optimizer with %s%s", subject, text, types)
        self._texts = texts


def _numbers(optimizer: Any, group: Mapping[str, Any], number: int) -> Iterator[str]:
    """Yield the numbers of a group, 0 for the defaults, in the order of their names."""
    variable = getattr(optimizer, "variable_attrs", None)
    neutral = _defaults_of(optimizer)
    values: dict[str, tuple[float, bool]] = {}

    def add(label: str, name: str, value: Any, default: Any) -> None:
        is_fixed = value == default if variable is None else variable.isConstant(name)
        is_constant = name != "lr" and is_fixed
        named = f"default{label[0].upper()}{label[1:]}" if number == 0 else label
        values[label if label in _OF_ALL else named] = (float(value), is_constant)

    for name, label in _NAMES.items():
        if isinstance(group.get(name), (int, float)) and not (number and label in _OF_ALL):
            add(label, name, group[name], neutral.get(name))
    for label, index in (("beta1", 0), ("beta2", 1)):
        if "betas" in group:
            add(label, "betas", group["betas"][index], neutral["betas"][index])
    scale = getattr(optimizer, "loss_scaling", 1.0)
    if isinstance(optimizer, torch.optim.SGD) and "velocity_scaling" not in optimizer.defaults:
        add("velocityScaling", "loss_scaling", scale, 1.0)
    if number == 0:
        add("lossScaling", "loss_scaling", scale, 1.0)
    for label, (value, is_constant) in sorted(values.items()):
        yield f"{label}={value:g}" + (" (const)" if is_constant else "")


def _defaults_of(optimizer: Any) -> dict[str, Any]:
    """Return the numbers that an optimizer of PyTorch has where its program states none."""
    known: dict[type, dict[str, Any]] = {
        torch.optim.SGD: {"momentum": 0, "dampening": 0, "weight_decay": 0, "nesterov": False},
        torch.optim.AdamW: {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01},
        torch.optim.Adam: {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0},
        torch.optim.RMSprop: {"alpha": 0.99, "eps": 1e-8, "weight_decay": 0, "momentum": 0},
        optim.LAMB: {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01},
    }
    return next(values for kind, values in known.items() if isinstance(optimizer, kind))


def _types(optimizer: Any) -> Iterator[str]:
    """Yield the types of sums and means, where the optimizer states them."""
    if not isinstance(optimizer, optim.Optimizer):
        return
    first = "velocity" if isinstance(optimizer, torch.optim.SGD) else "first_order_momentum"
    for label, name in (
        ("accumType", "accum_type"),
        ("firstOrderMomentumAccumType", f"{first}_accum_type"),
        ("secondOrderMomentumAccumType", "second_order_momentum_accum_type"),
    ):
        dtype = getattr(optimizer, name, torch.float32)
        yield f"{label}={str(dtype).removeprefix('torch.')}"
