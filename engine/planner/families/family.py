"""A family of vertices: which convolutions it supports, and what they cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.poplin.work import Counts, Work
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.machine import Machine
from tilescope.engine.tiling import ConvolutionShape, Grouping

__all__ = ["Family"]


def _anything(work: Work) -> NDArray[np.bool_]:
    return np.ones(work.groups.size, dtype=bool)


@dataclass(frozen=True, eq=False)
class Family:
    """A way to convolve on one tile.

    Parameters
    ----------
    name
        Its name in plans.
    groupings
        The groupings to try for a shape on a machine; none if the shape is not supported.
    codelet
        The vertex of a shape and grouping; splits are costed by its law.
    can_do
        Which splits are supported, by the work of a tile.
    workspace_bytes
        Memory that a vertex needs beyond its fields, bytes.
    most_products
        Upper bound of the multiplications per cycle of a tile in a grouping.
    in_one_pass
        Those of the groupings in which a vertex sees all that is summed at once, so that it may
        write results of a smaller type than that of partial sums; the shape has that type.
    """

    name: str
    groupings: Callable[[ConvolutionShape, Machine], Sequence[Grouping]]
    codelet: Callable[[ConvolutionShape, Grouping, Machine], Codelet]
    can_do: Callable[[Work], NDArray[np.bool_]] = _anything
    workspace_bytes: Callable[[Work, Machine], Counts] = lambda work, _: np.zeros_like(work.groups)
    most_products: Callable[[ConvolutionShape, Grouping, Machine], float] = lambda *_: np.inf
    in_one_pass: Callable[[ConvolutionShape, Machine], Sequence[Grouping]] = lambda *_: ()
