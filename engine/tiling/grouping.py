"""Channels that lie together in memory and are worked on as one."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from tilescope.engine.tiling.shape import ConvolutionShape

__all__ = ["Grouping"]


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
