"""LAMB, which PyTorch does not have."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch

from poptorch.optim.optimizer import Optimizer

__all__ = ["LAMB"]


class LAMB(Optimizer, torch.optim.Optimizer):
    """Adam's step, as long as the weights: both their norms divide each other.

    Parameters
    ----------
    params, lr, betas, eps, weight_decay
        As for Adam.
    bias_correction
        Whether both means are corrected for their start at 0.
    loss_scaling
        What the loss is multiplied by.
    max_weight_norm
        Limit of the norm of weights.
    accum_type, first_order_momentum_accum_type, second_order_momentum_accum_type
        Types of the sums of gradients, and of both means.

    Raises
    ------
    AssertionError
        When a type is neither half nor float.

    Notes
    -----
    Source: You and others, Large Batch Optimization for Deep Learning (arXiv:1904.00962),
    algorithm 2.
    """

    _child_only = (
        "loss_scaling",
        "bias_correction",
        "accum_type",
        "first_order_momentum_accum_type",
        "second_order_momentum_accum_type",
    )
    _group_vars = ("lr", "weight_decay", "betas", "eps", "max_weight_norm")

    bias_correction: bool
    max_weight_norm: float
    state: dict[Any, Any]

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | None = None,
        betas: tuple[float, float] | None = None,
        eps: float | None = None,
        weight_decay: float | None = None,
        bias_correction: bool | None = None,
        loss_scaling: float | None = None,
        max_weight_norm: float | None = None,
        accum_type: torch.dtype | None = None,
        first_order_momentum_accum_type: torch.dtype | None = None,
        second_order_momentum_accum_type: torch.dtype | None = None,
    ) -> None:
        given = {key: value for key, value in locals().items() if key not in ("self", "__class__")}
        numbers = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}
        numbers["max_weight_norm"] = 65500.0
        stated = {
            key: default if given[key] is None else given[key] for key, default in numbers.items()
        }
        Optimizer.__init__(self)
        torch.optim.Optimizer.__init__(self, params, stated)
        self._set_up(
            given,
            {
                "loss_scaling": 1.0,
                "bias_correction": True,
                "max_weight_norm": 65500.0,
                "accum_type": torch.float32,
                "first_order_momentum_accum_type": torch.float32,
                "second_order_momentum_accum_type": torch.float32,
            },
        )

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Change the parameters on the host, by their gradients.

        Parameters
        ----------
        closure
            Computes the loss again.
        """
        loss = None if closure is None else closure()
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        self._change(parameter, group)
        return loss

    def _change(self, parameter: Any, group: dict[str, Any]) -> None:
        state, gradient = self.state[parameter], parameter.grad
        if not state:
            state.update(step=0)
            state.update({k: torch.zeros_like(parameter) for k in ("exp_avg", "exp_avg_sq")})
        state["step"] += 1
        first, second = group["betas"]
        state["exp_avg"].lerp_(gradient, 1 - first)
        state["exp_avg_sq"].mul_(second).addcmul_(gradient, gradient, value=1 - second)
        share, share_of_squares = 1.0, 1.0
        if self.bias_correction:
            share, share_of_squares = 1 - first ** state["step"], 1 - second ** state["step"]
        divisor = state["exp_avg_sq"].sqrt() / math.sqrt(share_of_squares) + group["eps"]
        change = state["exp_avg"] / share / divisor + group["weight_decay"] * parameter
        of_weight, of_change = parameter.norm().clamp(max=self.max_weight_norm), change.norm()
        trust = of_weight / of_change if of_weight and of_change else 1.0
        parameter.sub_(group["lr"] * trust * change)
