"""The vertical MAC: depthwise convolutions, a channel of each of several groups at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.codelets.convolution import VERTICAL_MAC
from engine.machine import Machine
from engine.planner.families.family import Family, Grouping
from engine.planner.shape import ConvolutionShape

__all__ = ["VERTICAL_MAC_FAMILY"]


def _groupings(shape: ConvolutionShape, machine: Machine) -> Sequence[Grouping]:
    if shape.in_channels != 1 or shape.out_channels != 1 or shape.item_bytes == 1:
        return []
    vector = machine.data_path_bytes // shape.item_bytes
    # Source: poplin ConvVertexType.cpp, getConvVertexVMACCandidates: 8 and 16 add up in half.
    is_mixed = shape.item_bytes < shape.partial_bytes
    sizes = (vector,) if is_mixed else (vector, 8, 16)
    return [Grouping(size, 1, 1) for size in sizes if size <= max(shape.groups, vector)]


VERTICAL_MAC_FAMILY = Family(
    "vertical mac",
    _groupings,
    lambda *_: VERTICAL_MAC,
    can_do=lambda work: np.asarray((work.in_groups == 1) & (work.out_groups == 1)),
)
