"""The bits of elements as elements of another type."""

from __future__ import annotations

from typing import Any

from tilescope.engine.codelets.popops.elementwise.bit_cast import (
    BITS_OF_FLOAT,
    BITS_OF_FLOAT_BLOCK,
    FLOAT_OF_BITS,
    FLOAT_OF_BITS_BLOCK,
)
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Tensor, View, dtype_of
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.operations import apply_to, cast, in_one, similar

__all__ = ["bit_cast"]


@checked
def bit_cast(builder: Builder, x: View, dtype: Any) -> Tensor:
    """Return elements whose bits are those of another type's elements.

    Parameters
    ----------
    builder
        Target of the program.
    x
        float32, or integers.
    dtype
        A type of as many bits: a name, a numpy type or a `DType`.

    Raises
    ------
    BadGraph
        If the type is unknown, has another size, or is half or float8.
    """
    dtype = dtype_of(dtype)
    if dtype.n_bytes != x.dtype.n_bytes or x.dtype.grid or dtype.grid:
        raise BadGraph(
            f"bit_cast: {x.name!r} is {x.dtype}, and the bits of {dtype} are not supported for it:"
            " use float32 and integers of 32 bits, or integers of one size"
        )
    if not x.dtype.is_float and not dtype.is_float:
        return cast(builder, x, dtype)
    if x.dtype == dtype:
        return in_one(builder, x)
    detail = {"from": x.dtype.name, "to": dtype.name}
    build = builder.inside("reinterpret", "tilescope.bitCast", detail, flops=0)
    out = similar(build, "out", [x], x.shape, dtype)
    to_bits = BITS_OF_FLOAT, BITS_OF_FLOAT_BLOCK
    plain, in_blocks = to_bits if x.dtype.is_float else (FLOAT_OF_BITS, FLOAT_OF_BITS_BLOCK)
    apply_to(build, "reinterpret", plain, in_blocks, x, out)
    return out
