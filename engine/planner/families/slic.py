"""SLIC: kernels of four columns over few channels, in half or float8."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilescope.engine.codelets.poplin.convolution import SLIC as VERTEX
from tilescope.engine.codelets.poplin.slic import slic_workspace
from tilescope.engine.machine import Machine
from tilescope.engine.planner.families.family import Family
from tilescope.engine.tiling import ConvolutionShape, Grouping

__all__ = ["SLIC"]

#: Source: poplin ConvVertexType.cpp, getConvVertexSLICCandidates.
_GROUPINGS = (Grouping(1, 4, 4), Grouping(2, 2, 2), Grouping(4, 1, 1))
_FOR_HALF_SUMS = (Grouping(8, 1, 1), Grouping(16, 1, 1))
_FOR_FLOAT8 = (Grouping(1, 8, 8),)
_UNITS = 16


def _groupings(shape: ConvolutionShape, machine: Machine) -> Sequence[Grouping]:
    """Return the supported groupings; products, dilation and strides above 2 are not supported.

    Source: poplin ConvModel.cpp, addSLICConstraints; ConvVertexType.cpp, getConvMethodCandidates.
    Assumption: machines with units of 8 have no such instruction.
    """
    is_possible = (
        shape.item_bytes < 4
        and not shape.is_matmul
        and shape.dilation == (1, 1)
        and shape.stride[1] <= 2
        and machine.half_conv_units == _UNITS
    )
    if not is_possible:
        return []
    if shape.item_bytes == 1:
        return _FOR_FLOAT8
    known = _GROUPINGS + (_FOR_HALF_SUMS if shape.partial_bytes == 2 else ())
    channels = max(shape.in_channels, shape.out_channels)
    return [grouping for grouping in known if grouping.groups == 1 or channels <= grouping.inputs]


SLIC = Family(
    "slic",
    _groupings,
    lambda *_: VERTEX,
    can_do=lambda work: np.asarray((work.in_groups == 1) & (work.out_groups == 1)),
    workspace_bytes=lambda work, _: slic_workspace(work),
)
