"""A reduction as requested, with its arguments checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tilescope.engine.codelets.popops.reduction.reduce import FLOPS_PER_PAIR, REDUCE, UNSCALED
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import BOOL, FLOAT16, FLOAT32, DType, Tensor, View, dtype_of
from tilescope.engine.library.builder import refuse_float8

__all__ = ["ReduceCall", "Reduction"]

_OF_BOOLS = {"logical_and", "logical_or"}
_FLOATS = (FLOAT16, FLOAT32)


@dataclass(frozen=True)
class Reduction:
    """One of several reductions.

    Parameters
    ----------
    operation, x, dims, scale
        As for `reduce`.
    dtype
        Type of the result: by default that of `x`. A float16 or float32 `x` may have the other one.
    """

    operation: str
    x: View
    dims: Sequence[int]
    scale: float | Tensor | None = None
    dtype: Any = None


@dataclass(frozen=True)
class ReduceCall:
    """A checked reduction, the tensor that it writes, and whether it updates that."""

    operation: str
    x: View
    dims: tuple[int, ...]
    scale: float | Tensor
    dtype: DType
    out: View | None = None
    update: bool = False

    @classmethod
    def of(cls, item: Reduction) -> ReduceCall:
        """Return a reduction with its arguments checked.

        Raises
        ------
        BadGraph
            If the operation or a dimension is unknown, or a type is not supported.
        """
        x, operation, dims = item.x, item.operation, sorted(item.dims)
        refuse_float8("a reduction", x)
        if operation not in REDUCE:
            raise BadGraph(f"Unknown reduction {operation!r}; use one of {', '.join(REDUCE)}")
        if operation in ("sum", "square_sum") and x.dtype == BOOL:
            raise BadGraph(f"{x.name!r} is bool: cast it to int32 first to count true values")
        if operation in _OF_BOOLS and x.dtype != BOOL:
            raise BadGraph(f"{x.name!r} is {x.dtype}: {operation} expects bool; cast it first")
        if operation == "log_add" and not x.dtype.is_float:
            raise BadGraph(f"{x.name!r} is {x.dtype}: log_add expects half or float; cast it first")
        rank = len(x.shape)
        if any(not 0 <= d < rank for d in dims) or len({*dims}) < len(dims):
            raise BadGraph(
                f"Dimensions {dims} of {x.name!r} of shape {tuple(x.shape)} to reduce: give"
                f" different ones from 0 to {rank - 1}"
            )
        scale = UNSCALED[operation] if item.scale is None else _checked_scale(item.scale)
        dtype = x.dtype if item.dtype is None else dtype_of(item.dtype)
        if dtype != x.dtype and not (dtype in _FLOATS and x.dtype in _FLOATS):
            raise BadGraph(
                f"The result of a reduction is {dtype}, but the reduced {x.name!r} is {x.dtype}:"
                " expected that type"
            )
        return cls(operation, x, tuple(dims), scale, dtype)

    @property
    def result_shape(self) -> tuple[int, ...]:
        """Shape of the result, with the reduced dimensions."""
        return tuple(1 if d in self.dims else size for d, size in enumerate(self.x.shape))

    @property
    def squeezed_shape(self) -> tuple[int, ...]:
        """Shape of the result, without the reduced dimensions."""
        return tuple(size for d, size in enumerate(self.x.shape) if d not in self.dims)

    @property
    def flops(self) -> int:
        """Useful operations: combined pairs, squares, scaled and updated results."""
        n_results = prod(self.result_shape)
        pairs = self.x.n_elements - n_results * (not self.update)
        is_scaled = isinstance(self.scale, Tensor) or self.scale != UNSCALED[self.operation]
        scaled = n_results * is_scaled
        squares = self.x.n_elements * (self.operation == "square_sum")
        count = pairs * FLOPS_PER_PAIR[self.operation] + scaled + squares
        return count * self.x.dtype.is_float

    def detail(self) -> dict[str, object]:
        """Return what the debug context states."""
        has_own_type = self.out is None and self.dtype != self.x.dtype
        return {
            "operation": self.operation,
            "shape": list(self.x.shape),
            "dims": list(self.dims),
            "scale": "tensor" if isinstance(self.scale, Tensor) else self.scale,
            **({"dtype": self.dtype.name} if has_own_type else {}),
            **({"update": True} if self.update else {}),
        }


def _checked_scale(scale: float | Tensor) -> float | Tensor:
    """Return a number, or a tensor of one float.

    Raises
    ------
    BadGraph
        If a tensor has another type or several elements.
    """
    if not isinstance(scale, Tensor):
        return float(scale)
    if scale.dtype != FLOAT32 or scale.n_elements != 1:
        raise BadGraph(
            f"The scale {scale.name!r} of a reduction is {scale.dtype} of shape"
            f" {tuple(scale.shape)}: expected a number, or a tensor of one float32"
        )
    return scale
