"""Fills: write one value to every element of a tensor."""

from __future__ import annotations

from collections.abc import Sequence

from tilescope.engine.codelets.popops.elementwise.fill import FILL, FILL_BLOCK
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import DType, View
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.walk import joint_walks

__all__ = ["fill", "fill_together"]


def _holds(dtype: DType, value: float) -> bool:
    if dtype.limits is None:
        return True
    minimum, maximum = dtype.limits
    return float(value).is_integer() and minimum <= value <= maximum


@checked
def fill(builder: Builder, target: View, value: float) -> None:
    """Write a value to every element of a tensor, which may be part of its variable.

    Raises
    ------
    BadGraph
        If the tensor is broadcast, or its type does not represent the value.
    """
    detail = {"shape": list(target.shape), "value": float(value)}
    fill_together(builder.inside("fill", "popops.fill", detail, flops=0), [(target, value)], "fill")


def fill_together(builder: Builder, pairs: Sequence[tuple[View, float]], name: str) -> None:
    """Write a value to every element of each of several tensors, in one compute set.

    Parameters
    ----------
    builder
        Target of the program.
    pairs
        Tensors that do not overlap, and what they are filled with.
    name
        Name of the compute set.

    Raises
    ------
    BadGraph
        If a tensor is broadcast, or its type does not represent the value.
    """
    compute_set = builder.compute_set(name)
    for target, value in pairs:
        dtype = target.dtype
        if not _holds(dtype, value):
            raise BadGraph(f"cannot fill {target.name!r} of type {dtype.name} with {value}")
        walks = joint_walks([], target)
        assert walks is not None, "a single tensor always has compatible strides"
        batches = (batch for walk in walks for batch in walk.batches())
        for is_block, tiles, (regions,) in batches:
            codelet = FILL_BLOCK if is_block else FILL
            builder.vertices(compute_set, codelet, tiles, {"out": regions}, {"value": value})
