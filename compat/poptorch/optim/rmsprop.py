"""RMSprop, also centred and in TensorFlow's form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from poptorch.optim.optimizer import Optimizer, parent_arguments

__all__ = ["RMSprop"]


class RMSprop(Optimizer, torch.optim.RMSprop):
    """PyTorch's RMSprop; numbers that are left out are constants of the program.

    Parameters
    ----------
    params, lr, alpha, eps, weight_decay, momentum, centered, foreach, maximize, differentiable
        As for PyTorch's.
    loss_scaling
        What the loss is multiplied by.
    accum_type, first_order_momentum_accum_type, second_order_momentum_accum_type
        Types of the sums of gradients, and of both means.
    use_tf_variant
        Whether ``eps`` is added before the root is taken, as TensorFlow does.
    capturable
        As for PyTorch's.

    Raises
    ------
    AssertionError
        When a type is neither half nor float.
    """

    _child_only = (
        "loss_scaling",
        "accum_type",
        "first_order_momentum_accum_type",
        "second_order_momentum_accum_type",
        "use_tf_variant",
    )
    _group_vars = ("lr", "momentum", "weight_decay", "alpha", "eps", "centered")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | None = None,
        alpha: float | None = None,
        eps: float | None = None,
        weight_decay: float | None = None,
        momentum: float | None = None,
        centered: bool | None = None,
        foreach: bool | None = None,
        maximize: bool | None = None,
        differentiable: bool | None = None,
        loss_scaling: float | None = None,
        accum_type: torch.dtype | None = None,
        first_order_momentum_accum_type: torch.dtype | None = None,
        second_order_momentum_accum_type: torch.dtype | None = None,
        use_tf_variant: bool | None = None,
        capturable: bool | None = None,
    ) -> None:
        given = {key: value for key, value in locals().items() if key not in ("self", "__class__")}
        Optimizer.__init__(self)
        torch.optim.RMSprop.__init__(self, **parent_arguments(given, self._child_only))
        self._set_up(
            given,
            {
                "loss_scaling": 1.0,
                "accum_type": torch.float32,
                "first_order_momentum_accum_type": torch.float32,
                "second_order_momentum_accum_type": torch.float32,
                "use_tf_variant": False,
            },
        )
