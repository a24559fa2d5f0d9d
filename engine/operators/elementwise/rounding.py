"""Rounding to half by chance, as the machine does when stochastic rounding is on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph import Tensor
from tilescope.engine.ir import ENGINE_DOMAIN, Node, Operation, Operator
from tilescope.engine.library.poprand import random_numbers as library
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.random_numbers import random_bits

__all__ = ["RECORDS", "STOCHASTIC_CAST"]

Array = NDArray[Any]


def _array(node: Node, arrays: Sequence[Array]) -> list[Array]:
    """Return the same numbers as the machine, element by element."""
    x, seed = arrays
    bits = random_bits(x.size, seed.tolist(), node.attributes["modifier"]).reshape(x.shape)
    wide = x.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        exponent = np.maximum(np.frexp(wide)[1] - 1, -14)
        step = np.ldexp(1.0, exponent - 10)
        below = np.floor(wide / step)
        rounded = (below + (bits * 2.0**-32 < wide / step - below)) * step
        is_inside = np.abs(wide) < np.finfo(np.float16).max
        return [np.where(is_inside, rounded, wide).astype(np.float16)]


def _lower(lowering: Lowering, op: Operation) -> Tensor:
    x, seed = (lowering.tensor(value) for value in op.operands)
    return library.stochastic_cast(lowering.builder, seed, op.attributes["modifier"], x)


#: float32 to half: takes the tensor and a seed, int32 of shape (2,).
STOCHASTIC_CAST = Operator(
    name="stochastic_cast",
    domain=ENGINE_DOMAIN,
    infer=lambda node: [(node.operand(0).shape, "float16")],
    evaluate=_array,
    lower=_lower,
)

RECORDS = (STOCHASTIC_CAST,)
