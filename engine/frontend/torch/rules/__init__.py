"""Rules that emit operators of the engine for those of PyTorch, a file by subject."""

from __future__ import annotations

from tilescope.engine.frontend.torch.rules import (
    activation,
    attention,
    control,
    creation,
    elementwise,
    indexing,
    loss,
    markers,
    movement,
    norm,
    product,
    random_numbers,
    recurrent,
    reduction,
    resampling,
    window,
)

__all__ = ["FAMILIES"]

#: A new family is entered here.
FAMILIES = (
    activation,
    attention,
    control,
    creation,
    elementwise,
    indexing,
    loss,
    markers,
    movement,
    norm,
    product,
    random_numbers,
    recurrent,
    reduction,
    resampling,
    window,
)
