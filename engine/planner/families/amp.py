"""The AMP unit: products of channel groups, weights held in the unit."""

from __future__ import annotations

from collections.abc import Sequence

from tilescope.engine.codelets.poplin.convolution import CONV_PARTIAL_1X1, CONV_PARTIAL_NX1
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.machine import Machine
from tilescope.engine.planner.families.family import Family
from tilescope.engine.tiling import ConvolutionShape, Grouping

__all__ = ["AMP"]

#: Depth of a chain: a group has at least the unit's weights divided by it as inputs.
_CHAIN_LENGTH = 4  # Source: poplin ConvVertexType.cpp, chains of four units deep


def _groupings(shape: ConvolutionShape, machine: Machine) -> Sequence[Grouping]:
    """Return input groups that fill a unit's weights a whole number of times.

    Source: poplin ConvVertexType.cpp, getConvVertexAMPCandidates. Units of 16 also work as 8, but
    not for float8, whose vertices have no loop over passes either.
    """
    units, weights = machine.conv_unit(shape.item_bytes, shape.partial_bytes)
    inputs = [weights]
    while inputs[-1] > weights // _CHAIN_LENGTH and shape.in_channels <= inputs[-1] // 2:
        inputs.append(inputs[-1] // 2)
    if not shape.is_pointwise:
        inputs = [weights >> i for i in range(3)]
    outputs = {units, weights, 8} if units == 8 else {units, 8}
    if shape.item_bytes == 1:
        outputs = {units}
    widths = sorted(outputs, reverse=True)
    usual = [Grouping(1, n_in, n_out) for n_in in inputs for n_out in widths]
    return usual + _combined(shape, weights, widths)


def _combined(shape: ConvolutionShape, weights: int, widths: Sequence[int]) -> list[Grouping]:
    """Return 2, 4, 8 … convolution groups of few inputs as one of as many inputs as the unit loads.

    Source: poplin ConvPlan.cpp, getCombineConvGroupCandidates: groups of one input, or two in half.
    Assumption: more outputs than one channel group are not useful; padding applies to every
    convolution group.
    """
    most_inputs = {4: 1, 2: 2}.get(shape.item_bytes, 0)
    if shape.groups == 1 or shape.in_channels > most_inputs:
        return []
    groupings = []
    inputs = weights // _CHAIN_LENGTH
    while inputs <= weights:
        n = inputs // shape.in_channels
        fitting = [width for width in widths if width % n == 0 and n * shape.out_channels <= width]
        groupings += [Grouping(1, inputs, width, n) for width in fitting]
        inputs *= 2
    return groupings


def _codelet(shape: ConvolutionShape, grouping: Grouping, machine: Machine) -> Codelet:
    weights = machine.conv_unit(shape.item_bytes, shape.partial_bytes)[1]
    fills_unit = grouping.inputs == weights
    return CONV_PARTIAL_1X1 if shape.is_pointwise and fills_unit else CONV_PARTIAL_NX1


def _most_products(shape: ConvolutionShape, _: Grouping, machine: Machine) -> float:
    """Return the products of a full unit: a field element takes 4 cycles, or 8 in float.

    Source: poplin PerformanceEstimation.hpp, as the laws in `tilescope.engine.codelets.poplin.amp`.
    """
    units, weights = machine.conv_unit(shape.item_bytes, shape.partial_bytes)
    return units * weights / (8 if shape.item_bytes == 4 else 4)


def _in_one_pass(shape: ConvolutionShape, machine: Machine) -> Sequence[Grouping]:
    """Return the groupings that fill a unit's weights, if the inputs fill them at most once.

    Source: graphcore/poplibs sdk-release-2.0, lib/poplin/ConvVertexType.cpp,
    getConvVertexAMPCandidates.
    """
    _, weights = machine.conv_unit(shape.item_bytes, shape.partial_bytes)
    if shape.in_channels > weights:
        return []
    return [grouping for grouping in _groupings(shape, machine) if grouping.inputs == weights]


AMP = Family("amp", _groupings, _codelet, most_products=_most_products, in_one_pass=_in_one_pass)
