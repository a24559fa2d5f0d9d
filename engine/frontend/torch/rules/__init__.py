"""Rules that emit operators of the engine for those of PyTorch, a file by subject."""

from __future__ import annotations

from tilescope.engine.frontend.torch.rules import (
    activation,
    elementwise,
    loss,
    markers,
    movement,
    norm,
    product,
    window,
)

__all__ = ["FAMILIES"]

#: A new family is entered here.
FAMILIES = (activation, elementwise, loss, markers, movement, norm, product, window)
