"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from poptorch._logging import logger
from poptorch.optim.optimizer import Optimizer, parent_arguments

__all__ = ["SGD"]


class SGD(Optimizer, torch.optim.SGD):
    """PyTorch's SGD; numbers that are left out are constants of the program.

    Parameters
    ----------
    params, lr, momentum, dampening, weight_decay, nesterov, maximize, foreach, differentiable
        As for PyTorch's.
    loss_scaling
        What the loss is multiplied by.
    velocity_scaling
        What velocities are multiplied by in the combined form.
    use_combined_accum
        Whether gradients of micro-batches are added to the velocities.
    accum_type, velocity_accum_type
        Types of the sums of gradients, and of velocities.
    max_grad_norm
        Limit of the norm of all gradients.
    fused
        As for PyTorch's.

    Raises
    ------
    AssertionError
        When a type is neither half nor float.
    """

    _child_only = (
        "loss_scaling",
        "velocity_scaling",
        "use_combined_accum",
        "accum_type",
        "velocity_accum_type",
        "max_grad_norm",
    )
    _group_vars = ("lr", "momentum", "dampening", "weight_decay", "nesterov", "velocity_scaling")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        momentum: float | None = None,
        dampening: float | None = None,
        weight_decay: float | None = None,
        nesterov: bool | None = None,
        maximize: bool | None = None,
        foreach: bool | None = None,
        differentiable: bool | None = None,
        loss_scaling: float | None = None,
        velocity_scaling: float | None = None,
        use_combined_accum: bool | None = None,
        accum_type: torch.dtype | None = None,
        velocity_accum_type: torch.dtype | None = None,
        max_grad_norm: float | None = None,
        fused: bool | None = None,
    ) -> None:
        given = {key: value for key, value in locals().items() if key not in ("self", "__class__")}
        Optimizer.__init__(self)
        torch.optim.SGD.__init__(self, **parent_arguments(given, self._child_only))
        if use_combined_accum:
            scaling = 1.0 if velocity_scaling is None else velocity_scaling
            self.defaults["velocity_scaling"] = scaling
            for group in self.param_groups:
                group.setdefault("velocity_scaling", scaling)
        elif velocity_scaling is not None:
            logger.warning(
                "velocity_scaling has no effect with use_combined_accum=False: leave it out"
            )
        self._set_up(
            given,
            {
                "loss_scaling": 1.0,
                "use_combined_accum": False,
                "accum_type": torch.float32,
                "velocity_accum_type": torch.float32,
                "max_grad_norm": float("Inf"),
            },
        )
