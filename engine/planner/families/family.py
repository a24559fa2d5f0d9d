"""What a family of vertices is to the planner: what it can do, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.work import Counts, Work
from tilescope.engine.graph.codelet import Codelet
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
        As it stands in plans.
    groupings
        The groupings to try for a shape on a machine; none where it cannot do the shape.
    codelet
        The vertex of a shape and grouping; splits are costed by its law.
    can_do
        Which of a number of splits it can do, by what they leave to a tile.
    workspace_bytes
        Memory that a vertex of each split needs beyond its fields, bytes.
    most_products
        Multiplications of a cycle that a tile makes at most in a grouping, as far as is known.
    """

    name: str
    groupings: Callable[[ConvolutionShape, Machine], Sequence[Grouping]]
    codelet: Callable[[ConvolutionShape, Grouping, Machine], Codelet]
    can_do: Callable[[Work], NDArray[np.bool_]] = _anything
    workspace_bytes: Callable[[Work, Machine], Counts] = lambda work, _: np.zeros_like(work.groups)
    most_products: Callable[[ConvolutionShape, Grouping, Machine], float] = lambda *_: np.inf
