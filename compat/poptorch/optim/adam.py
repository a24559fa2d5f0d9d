"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from poptorch.optim.optimizer import Optimizer, parent_arguments

__all__ = ["Adam", "AdamW"]

_OPTIONS = {
    "loss_scaling": 1.0,
    "accum_type": torch.float32,
    "first_order_momentum_accum_type": torch.float32,
    "second_order_momentum_accum_type": torch.float32,
    "max_grad_norm": float("Inf"),
}


class Adam(Optimizer, torch.optim.Adam):
    """PyTorch's Adam; numbers that are left out are constants of the program.

    Parameters
    ----------
    params, lr, betas, eps, weight_decay, amsgrad, foreach
        As for PyTorch's.
    maximize, capturable, differentiable, fused
        As for PyTorch's.
    loss_scaling
        What the loss is multiplied by.
    accum_type, first_order_momentum_accum_type, second_order_momentum_accum_type
        Types of the sums of gradients, and of both means.
    max_grad_norm
        Limit of the norm of all gradients.

    Raises
    ------
    AssertionError
        When a type is neither half nor float.
    """

    _child_only = tuple(_OPTIONS)
    _group_vars = ("lr", "betas", "eps", "weight_decay", "amsgrad")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | None = None,
        betas: tuple[float, float] | None = None,
        eps: float | None = None,
        weight_decay: float | None = None,
        amsgrad: bool | None = None,
        foreach: bool | None = None,
        maximize: bool | None = None,
        capturable: bool | None = None,
        differentiable: bool | None = None,
        fused: bool | None = None,
        loss_scaling: float | None = None,
        accum_type: torch.dtype | None = None,
        first_order_momentum_accum_type: torch.dtype | None = None,
        second_order_momentum_accum_type: torch.dtype | None = None,
        max_grad_norm: float | None = None,
    ) -> None:
        given = {key: value for key, value in locals().items() if key not in ("self", "__class__")}
        Optimizer.__init__(self)
        torch.optim.Adam.__init__(self, **parent_arguments(given, self._child_only))
        self._set_up(given, _OPTIONS)


class AdamW(Optimizer, torch.optim.AdamW):
    """PyTorch's AdamW; numbers that are left out are constants of the program.

    Parameters
    ----------
    params, lr, betas, eps, weight_decay, amsgrad, maximize
        As for PyTorch's.
    foreach, capturable, differentiable, fused
        As for PyTorch's.
    loss_scaling
        What the loss is multiplied by.
    bias_correction
        Whether both means are corrected for their start at 0.
    accum_type, first_order_momentum_accum_type, second_order_momentum_accum_type
        Types of the sums of gradients, and of both means.
    max_grad_norm
        Limit of the norm of all gradients.

    Raises
    ------
    AssertionError
        When a type is neither half nor float.
    """

    _child_only = ("loss_scaling", "bias_correction", *tuple(_OPTIONS)[1:])
    _group_vars = ("lr", "betas", "weight_decay", "eps", "amsgrad")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | None = None,
        betas: tuple[float, float] | None = None,
        eps: float | None = None,
        weight_decay: float | None = None,
        amsgrad: bool | None = None,
        maximize: bool | None = None,
        foreach: bool | None = None,
        capturable: bool | None = None,
        differentiable: bool | None = None,
        fused: bool | None = None,
        loss_scaling: float | None = None,
        bias_correction: bool | None = None,
        accum_type: torch.dtype | None = None,
        first_order_momentum_accum_type: torch.dtype | None = None,
        second_order_momentum_accum_type: torch.dtype | None = None,
        max_grad_norm: float | None = None,
    ) -> None:
        given = {key: value for key, value in locals().items() if key not in ("self", "__class__")}
        Optimizer.__init__(self)
        torch.optim.AdamW.__init__(self, **parent_arguments(given, self._child_only))
        self._set_up(given, {**_OPTIONS, "bias_correction": True})
