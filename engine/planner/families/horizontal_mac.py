"""The horizontal MAC: dot products over the inputs, for few outputs and any type."""

from __future__ import annotations

from collections.abc import Sequence

from tilescope.engine.codelets.poplin.convolution import HORIZONTAL_MAC as VERTEX
from tilescope.engine.codelets.poplin.horizontal_mac import horizontal_mac_products
from tilescope.engine.machine import Machine
from tilescope.engine.planner.families.family import Family
from tilescope.engine.tiling import ConvolutionShape, Grouping

__all__ = ["HORIZONTAL_MAC"]


def _groupings(shape: ConvolutionShape, _: Machine) -> Sequence[Grouping]:
    """Return inputs in 1, 2, 4 … groups of a whole number of words.

    Source: poplin ConvVertexType.cpp, getConvVertexHMACCandidates, which considers any number
    of groups. float8 would need a cast to half. Assumption: powers of two are enough.
    """
    if shape.item_bytes == 1:
        return []
    grain = 1 if shape.item_bytes == 4 else 2
    n_out = 1 if shape.partial_bytes == 4 else 2
    sizes = []
    n_groups = 1
    while n_groups <= -(-shape.in_channels // grain):
        per_group = -(-shape.in_channels // n_groups)
        sizes.append(-(-per_group // grain) * grain)
        n_groups *= 2
    return [Grouping(1, size, n_out) for size in sorted(set(sizes))]


HORIZONTAL_MAC = Family(
    "horizontal mac",
    _groupings,
    lambda *_: VERTEX,
    most_products=lambda shape, grouping, machine: horizontal_mac_products(
        grouping.inputs, shape.item_bytes, shape.partial_bytes, machine
    ),
)
