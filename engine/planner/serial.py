"""Operations in several equal parts, one after the other, where memory binds."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilescope.engine.tiling import ConvolutionShape, Grouping
from tilescope.engine.tiling.channel_layout import output_layout

__all__ = ["AT_ONCE", "SERIAL", "Serial"]

#: The part counts of splits in time, as they stand in plans.
SERIAL = ("serial outputs", "serial inputs")


@dataclass(frozen=True)
class Serial:
    """In how many parts an operation is made, one after the other: of its outputs or its inputs.

    Parts of the outputs are each copied to their place, parts of the inputs each added to the sums
    of those before them. There are several of one kind only.
    Source: graphcore/poplibs sdk-release-3.4, lib/poplin/ConvModel.cpp, outChanSplit.serial and
    inChanSplit.serial, of which one is 1.

    Parameters
    ----------
    outputs, inputs
        Parts of the output channels, and of the input channels.
    """

    outputs: int = 1
    inputs: int = 1

    @property
    def n_parts(self) -> int:
        """How many convolutions there are, one after the other."""
        return self.outputs * self.inputs

    def counts(self) -> dict[str, int]:
        """Return what a plan's split says of it: nothing where all is made at once."""
        counts = dict(zip(SERIAL, (self.outputs, self.inputs), strict=True))
        return {name: count for name, count in counts.items() if count > 1}

    def part_of(self, shape: ConvolutionShape) -> ConvolutionShape | None:
        """Return one of the equal parts of an operation; None where there are no such parts.

        Operations of several groups have no parts of their outputs: these would not lie together.
        """
        if self.n_parts == 1:
            return shape
        if shape.out_channels % self.outputs or shape.in_channels % self.inputs:
            return None
        if self.outputs > 1 and shape.groups > 1:
            return None
        in_channels = shape.in_channels // self.inputs
        return replace(
            shape,
            out_channels=shape.out_channels // self.outputs,
            in_channels=in_channels,
            runs=tuple(run for run in shape.runs if self.inputs == 1 or in_channels % run == 0),
            input_parts=self.inputs,
            swapped=None,
        )

    def suits(self, part: ConvolutionShape, grouping: Grouping) -> bool:
        """Whether parts can be made in groups of channels.

        Those of the outputs have whole groups, as the result is put together in place.
        """
        return self.outputs == 1 or not output_layout(part, grouping).is_by_pixel


#: All in one.
AT_ONCE = Serial()
