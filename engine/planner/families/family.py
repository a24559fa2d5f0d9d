"""What a family of vertices is to the planner: what it can do, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.work import Counts, Work
from tilescope.engine.graph.codelet import Codelet
from tilescope.engine.machine import Machine
from tilescope.engine.planner.shape import ConvolutionShape

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
    combined
        Convolution groups of the operation that each of `groups` is made of: their channels are
        one after the other, and the weights from one's inputs to another's outputs are zeros.

    Notes
    -----
    Source: graphcore/poplibs sdk-release-3.4, lib/poplin/Convolution.cpp, what is done to operands
    by the combineConvGroups transformation.
    """

    groups: int
    inputs: int
    outputs: int
    combined: int = 1

    @property
    def inside(self) -> int:
        """Convolution groups of the operation that lie together."""
        return self.groups * self.combined

    @property
    def own_inputs(self) -> int:
        """Inputs of one convolution group of the operation that lie together."""
        return self.inputs // self.combined

    @property
    def own_outputs(self) -> int:
        """Outputs of one convolution group of the operation that lie together."""
        return self.outputs // self.combined

    def count(self, shape: ConvolutionShape) -> tuple[int, int, int]:
        """Return blocks of convolution groups, input groups and output groups, padding included."""
        return (
            -(-shape.groups // self.inside),
            -(-shape.in_channels // self.own_inputs),
            -(-shape.out_channels // self.own_outputs),
        )

    def counts(self) -> dict[str, int]:
        """Return what a plan says of it: groups combined only where there are several."""
        counts = asdict(self)
        if self.combined == 1:
            del counts["combined"]
        return counts


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
