"""Convolutions that share the tiles: each is planned by itself here."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import torch

from poptorch._logging import warn_once
from poptorch.enums import MultiConvPlanType
from poptorch.errors import createPoptorchError

__all__ = ["MultiConv"]


class MultiConv:
    """Convolutions in a ``with`` would run at the same time; they run one after the other.

    Raises
    ------
    Error
        When one is inside another.
    """

    #: How many of them a model is in.
    _depth: ClassVar[list[int]] = [0]

    def __init__(self) -> None:
        self._stated: dict[str, Any] = {}

    def availableMemoryProportions(self, value: float | list[float]) -> Self:
        """Set the share of memory of all convolutions, or of one after the other.

        Raises
        ------
        AssertionError
            When it is neither a float nor a list of them.
        """
        return self._set("available memory proportion", value, float)

    def partialsTypes(self, value: torch.dtype | list[torch.dtype]) -> Self:
        """Set the type of partial sums of all convolutions, or of one after the other.

        Raises
        ------
        ValueError
            When it is neither ``torch.float`` nor ``torch.half``.
        """
        types = value if isinstance(value, (list, tuple)) else [value]
        if any(dtype not in (torch.float32, torch.float16) for dtype in types):
            raise ValueError("Invalid partials types. Expecting torch.float or torch.half")
        self._stated["partials types"] = value
        return self

    def enableConvDithering(self, value: bool | list[bool] | None) -> Self:
        """Spread convolutions over other tiles than those before.

        Raises
        ------
        ValueError
            When it is neither a bool nor a list of them.
        """
        flags = value if isinstance(value, (list, tuple)) else [value]
        if value is not None and not all(isinstance(flag, bool) for flag in flags):
            raise ValueError("value must be bool or list of bools")
        self._stated["dithering"] = value
        return self

    def planType(self, value: MultiConvPlanType | None) -> Self:
        """Set whether convolutions run at the same time.

        Raises
        ------
        AssertionError
            When it is not a `MultiConvPlanType`.
        """
        assert value is None or isinstance(value, MultiConvPlanType), "Invalid plan type!"
        self._stated["plan type"] = value
        return self

    def perConvReservedTiles(self, value: int) -> Self:
        """Set the least number of tiles of a convolution.

        Raises
        ------
        AssertionError
            When it is not an integer.
        """
        assert isinstance(value, int), f"{value!r} is not an int"
        self._stated["reserved tiles"] = value
        return self

    def cycleBackOff(self, value: float) -> Self:
        """Set how much longer than the fastest plan a convolution may take.

        Raises
        ------
        AssertionError
            When it is not a float.
        """
        assert isinstance(value, float), f"{value!r} is not a float"
        self._stated["cycle back off"] = value
        return self

    def _set(self, name: str, value: Any, kind: type) -> Self:
        items = value if isinstance(value, (list, tuple)) else [value]
        is_allowed = value is None or (items and all(isinstance(item, kind) for item in items))
        assert is_allowed, f"Invalid {name}!"
        self._stated[name] = value
        return self

    def __enter__(self) -> None:
        if self._depth[0]:
            raise createPoptorchError("Nested poptorch.MultiConv is not supported")
        self._depth[0] += 1
        warn_once("poptorch.MultiConv", "convolutions run one after the other")

    def __exit__(self, *_: object) -> None:
        """End the convolutions."""
        self._depth[0] -= 1
