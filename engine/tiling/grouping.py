"""Channels that are contiguous in memory and processed as one."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from tilescope.engine.tiling.shape import ConvolutionShape

__all__ = ["Grouping"]


@dataclass(frozen=True)
class Grouping:
    """Channels that are contiguous and processed as one; padded to whole groups.

    Parameters
    ----------
    groups
        Convolution groups side by side.
    inputs, outputs
        Channels of one such group.
    combined
        Convolution groups of the operation combined into one of `groups`: their channels are
        concatenated, and weights between different groups are zero.

    Notes
    -----
    Source: graphcore/poplibs sdk-release-3.4, lib/poplin/Convolution.cpp, the
    combineConvGroups transformation.
    """

    groups: int
    inputs: int
    outputs: int
    combined: int = 1

    @property
    def inside(self) -> int:
        """Convolution groups of the operation in one block."""
        return self.groups * self.combined

    @property
    def own_inputs(self) -> int:
        """Contiguous inputs of one convolution group of the operation."""
        return self.inputs // self.combined

    @property
    def own_outputs(self) -> int:
        """Contiguous outputs of one convolution group of the operation."""
        return self.outputs // self.combined

    def count(self, shape: ConvolutionShape) -> tuple[int, int, int]:
        """Return blocks of convolution groups, input groups and output groups, padding included."""
        return (
            -(-shape.groups // self.inside),
            -(-shape.in_channels // self.own_inputs),
            -(-shape.out_channels // self.own_outputs),
        )

    def fills(self, shape: ConvolutionShape) -> bool:
        """Return whether weights of this grouping have no padding, nor zeros between groups."""
        sizes = (shape.groups, shape.in_channels, shape.out_channels)
        group_sizes = (self.groups, self.inputs, self.outputs)
        return self.combined == 1 and not any(
            size % part for size, part in zip(sizes, group_sizes, strict=True)
        )

    def counts(self) -> dict[str, int]:
        """Return the counts as in a plan; `combined` only if more than 1."""
        counts = asdict(self)
        if self.combined == 1:
            del counts["combined"]
        return counts
