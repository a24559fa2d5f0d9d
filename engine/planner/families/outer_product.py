"""The outer product: one input channel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilescope.engine.codelets.poplin.convolution import OUTER_PRODUCT as VERTEX
from tilescope.engine.machine import Machine
from tilescope.engine.planner.families.family import Family
from tilescope.engine.tiling import ConvolutionShape, Grouping

__all__ = ["OUTER_PRODUCT"]


def _groupings(shape: ConvolutionShape, machine: Machine) -> Sequence[Grouping]:
    """Return outputs by the data path.

    Its results have the type of its inputs: nothing is summed.
    Source: poplin ConvVertexType.cpp, getConvVertexOuterProductCandidates; ConvModel.cpp,
    addOuterProductConstraints.
    """
    if shape.in_channels != 1 or not shape.is_flat or shape.partial_bytes != shape.item_bytes:
        return []
    return [Grouping(1, 1, machine.data_path_bytes // shape.item_bytes)]


OUTER_PRODUCT = Family(
    "outer product",
    _groupings,
    lambda *_: VERTEX,
    can_do=lambda work: np.asarray((work.images == 1) & (work.rows == 1)),
    in_one_pass=_groupings,
)
