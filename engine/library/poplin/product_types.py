"""Number types of a product: operands, partial sums and result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import FLOAT16, FLOAT32, DType, View, dtype_of

__all__ = ["ProductTypes", "product_types"]

_BY_NAME = {"float": FLOAT32, "half": FLOAT16}


@dataclass(frozen=True)
class ProductTypes:
    """Types of the input, the weights and the partial sums."""

    x: DType
    weights: DType
    partials: DType


def product_types(
    name: str,
    x: View,
    weights: View | NDArray[Any],
    weights_dtype: Any,
    partials: str,
    own_partials: str | None,
) -> ProductTypes:
    """Return the types of a product, or of a convolution.

    Parameters
    ----------
    name
        Name of the operation, for messages.
    x, weights
        The operands.
    weights_dtype
        Type of constant weights; by default, the type of `x`.
    partials
        ``float`` or ``half`` for operands in half.
    own_partials
        The operation's own choice, or None.

    Raises
    ------
    BadGraph
        If the types are incompatible or not supported.

    Notes
    -----
    Source: poplin ConvVertexType.cpp, canUseConvolutionInstruction: float8 is summed in
    half only, float in float only.
    """
    if isinstance(weights, View):
        kind = weights.dtype
        if weights_dtype is not None and dtype_of(weights_dtype) != kind:
            raise BadGraph(f"{name}: its weights are {kind}, not {dtype_of(weights_dtype)}")
    else:
        kind = x.dtype if weights_dtype is None else dtype_of(weights_dtype)
    # Only float8 has several compatible formats.
    is_same = kind.kind == "float8" if x.dtype.kind == "float8" else kind == x.dtype
    if not x.dtype.is_float or not is_same:
        raise BadGraph(
            f"{name}: cannot multiply {x.dtype} by {kind}; cast them to float32, float16 or"
            " float8 both"
        )
    if x.dtype.kind == "float8":
        if own_partials == "float":
            raise BadGraph(f"{name}: partial sums of {x.dtype} are half, float is not supported")
        return ProductTypes(x.dtype, kind, FLOAT16)
    return ProductTypes(x.dtype, kind, FLOAT32 if x.dtype == FLOAT32 else _BY_NAME[partials])
