"""The vertical MAC: depthwise convolutions of halves, a channel of several groups at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilescope.engine.codelets.poplin.convolution import VERTICAL_MAC as VERTEX
from tilescope.engine.codelets.poplin.convolution import VERTICAL_MAC_WIDE
from tilescope.engine.codelets.poplin.vertical_mac import vertical_mac_workspace
from tilescope.engine.machine import Machine
from tilescope.engine.planner.families.family import Family
from tilescope.engine.tiling import ConvolutionShape, Grouping

__all__ = ["VERTICAL_MAC"]


def _groupings(shape: ConvolutionShape, machine: Machine) -> Sequence[Grouping]:
    """Return groups of 4, and of 8 and 16 for sums in half.

    Source: poplin ConvVertexType.cpp, getConvVertexVMACCandidates: floats are not supported.
    """
    if shape.item_bytes != 2 or (shape.in_channels, shape.out_channels) != (1, 1):
        return []
    sizes = [machine.data_path_bytes // shape.item_bytes]
    if shape.partial_bytes == 2:
        sizes += [8, 16]
    return [Grouping(size, 1, 1) for size in sizes]


VERTICAL_MAC = Family(
    "vertical mac",
    _groupings,
    lambda _, grouping, __: VERTICAL_MAC_WIDE if grouping.groups > 4 else VERTEX,
    can_do=lambda work: np.asarray((work.in_groups == 1) & (work.out_groups == 1)),
    workspace_bytes=vertical_mac_workspace,
)
