"""Copies that change the type of elements and keep their bits.

A machine's memory has no types. The host keeps the values of a type together, so it copies them:
the law is that of a copy.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tilescope.engine.codelets.popops.elementwise.copy import COPY, COPY_BLOCK
from tilescope.engine.codelets.popops.elementwise.operations import unary_kernels
from tilescope.engine.graph.vertex.codelet import Codelet, Field
from tilescope.engine.host.jit._jit import jit

__all__ = [
    "BITS_OF_FLOAT",
    "BITS_OF_FLOAT_BLOCK",
    "FLOAT_OF_BITS",
    "FLOAT_OF_BITS_BLOCK",
]


@jit
def _bits_of_float(x: Any) -> Any:
    return np.float32(x).view(np.int32)


@jit
def _float_of_bits(x: Any) -> Any:
    return np.int32(x).view(np.float32)


def _bit_cast(types: str, function: Any) -> tuple[Codelet, Codelet]:
    """Return the copies of a vector and of blocks."""
    vector, block = unary_kernels(function)
    codelet = replace(
        COPY,
        name=f"poplar::Reinterpret<{types}>",
        kernel=vector,
        fields=(Field("x", "in", size_of="out"), Field("out", "out")),
    )
    two = replace(
        COPY_BLOCK,
        name=f"poplar::StridedReinterpret<{types}>",
        kernel=block,
        fields=(
            Field("x", "in", 3, kind="block", size_of="out"),
            Field("out", "out", 3, kind="block"),
        ),
    )
    return codelet, two


BITS_OF_FLOAT, BITS_OF_FLOAT_BLOCK = _bit_cast("float,int", _bits_of_float)
FLOAT_OF_BITS, FLOAT_OF_BITS_BLOCK = _bit_cast("int,float", _float_of_bits)
