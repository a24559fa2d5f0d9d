"""What a family of vertices is to the planner: what it can do, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.codelets.codelet import Codelet
from engine.codelets.work import Counts, Work
from engine.machine import Machine
from engine.planner.shape import ConvolutionShape

__all__ = ["Family", "Grouping"]


@dataclass(frozen=True)
class Grouping:
    """What lies together and is worked on as one; channels are padded to whole groups.

    Parameters
    ----------
    groups
        Convolution groups side by side.
    inputs, outputs
        Channels of each of them.
    """

    groups: int
    inputs: int
    outputs: int

    def count(self, shape: ConvolutionShape) -> tuple[int, int, int]:
        """Return blocks of convolution groups, input groups and output groups, padding included."""
        return (
            -(-shape.groups // self.groups),
            -(-shape.in_channels // self.inputs),
            -(-shape.out_channels // self.outputs),
        )


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
    """

    name: str
    groupings: Callable[[ConvolutionShape, Machine], Sequence[Grouping]]
    codelet: Callable[[ConvolutionShape, Grouping, Machine], Codelet]
    can_do: Callable[[Work], NDArray[np.bool_]] = _anything
    workspace_bytes: Callable[[Work, Machine], Counts] = lambda work, _: np.zeros_like(work.groups)
