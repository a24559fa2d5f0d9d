"""Serial parts: an operation as several equal parts in sequence, to save memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilescope.engine.tiling import ConvolutionShape, Grouping
from tilescope.engine.tiling.channel_layout import output_layout

__all__ = ["AT_ONCE", "SERIAL", "Serial"]

#: Names of serial part counts in plans.
SERIAL = ("serial outputs", "serial inputs")


@dataclass(frozen=True)
class Serial:
    """Serial parts of an operation, either of its outputs or of its inputs.

    A part of the outputs is copied to its place in the result; a part of the inputs is added to the
    sums of the parts before it.
    Source: graphcore/poplibs sdk-release-3.4, lib/poplin/ConvModel.cpp, outChanSplit.serial and
    inChanSplit.serial; one of them is 1.

    Parameters
    ----------
    outputs, inputs
        Parts of the output channels, and of the input channels.
    """

    outputs: int = 1
    inputs: int = 1

    @property
    def n_parts(self) -> int:
        """Number of serial parts; 1 if the operation is not serialised."""
        return self.outputs * self.inputs

    def counts(self) -> dict[str, int]:
        """Return the entries of a plan's split; none if the operation is not serialised."""
        counts = dict(zip(SERIAL, (self.outputs, self.inputs), strict=True))
        return {name: count for name, count in counts.items() if count > 1}

    def part_of(self, shape: ConvolutionShape) -> ConvolutionShape | None:
        """Return one of the equal parts of an operation; None if it has no such parts.

        Operations of several groups are not split by outputs: a part would not be contiguous.
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
        """Whether parts work with a grouping.

        Parts of the outputs need whole channel groups, as they are copied in place. There are no
        more parts of the inputs than channel groups.
        Source: graphcore/poplibs sdk-release-3.4, lib/poplin/ConvModel.cpp, totalInChanSplit.
        """
        if self.inputs > 1:
            return self.inputs <= -(-self.inputs * part.in_channels // grouping.own_inputs)
        return self.outputs == 1 or not output_layout(part, grouping).is_by_pixel


#: No serial parts.
AT_ONCE = Serial()
