"""A small share of memory costs many times the cycles where only slow families need less."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilescope.engine import Graph, load_machine
from tilescope.engine.errors import BadGraph
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.convolution import convolution
from tilescope.engine.library.window import Window
from tilescope.engine.planner.convolution.convolution import plan_convolution
from tilescope.engine.planner.families import FAMILIES
from tilescope.engine.planner.plan import Plan
from tilescope.engine.program import Sequence
from tilescope.engine.tiling import DIMENSIONS, ConvolutionShape

SMALL = load_machine("gc2", tiles_per_ipu=4)
BLUR = ConvolutionShape(
    groups=1, images=1, height=24, width=30, in_channels=4, out_channels=4, kernel=(3, 3),
    padding_before=(1, 1), in_height=24, in_width=30, dtype="float16", weights="strided",
)  # fmt: skip


def blur(dtype: str, width: int, height: int, share: float) -> Plan:
    """Return the plan of the published blur of a blurred picture of 4 channels."""
    graph = Graph(load_machine("gc2"))
    builder = Builder(graph, Sequence("stencil"))
    image = graph.add_variable(dtype, (1, 4, height, width), "image")
    mask = graph.add_variable(dtype, (4, 4, 3, 3), "mask")
    for tensor in (image, mask):
        graph.map_linearly(tensor)
    window = Window((3, 3), padding_before=(1, 1), padding_after=(1, 1))
    for _ in range(2):
        image = convolution(builder, image, mask, window, available_memory_proportion=share)
    return builder.plans[1]


def test_the_published_cliff() -> None:
    """A picture of 2,200 x 1,122 pixels in half: 32 times slower below 0.4 than from there on.

    Source: thorbenlouw/lbm-graphcore, experiments/effect-of-mem-on-convolution/results.csv: 0.1437,
    0.1371 and 0.1615 s with shares of 0.1 to 0.3, 0.0045 s with larger ones.
    """
    plans = {share: blur("float16", 2200, 1122, share) for share in (0.1, 0.2, 0.3, 0.4, 0.6)}
    cycles = {share: plan.predicted_cycles for share, plan in plans.items()}
    assert cycles[0.4] == cycles[0.6]
    for share in (0.1, 0.2, 0.3):
        assert 15 < cycles[share] / cycles[0.4] < 60
        assert plans[share].family == "horizontal mac"
    assert plans[0.3].bound == "temporary_memory"


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_no_cliff_where_none_is_published(dtype: str) -> None:
    """A picture of 499 x 302 pixels takes as long with every published share."""
    plans = [blur(dtype, 499, 302, share) for share in (0.1, 0.2, 0.3, 0.4, 0.6)]
    assert len({plan.predicted_cycles for plan in plans}) == 1
    assert plans[0].bound == "cycles"


def forced(family: str, shape: ConvolutionShape) -> list[Plan]:
    """Return the plan of every split of a family, at once and in serial parts."""
    sizes = (1, 1, shape.height, shape.width, shape.out_channels, shape.in_channels, 1, 1)
    ranges = [range(1, min(size, SMALL.n_tiles) + 1) for size in sizes]
    serials = [{}, *({f"serial {kind}": n} for kind in ("outputs", "inputs") for n in (2, 4))]
    plans = []
    for serial, counts in product(serials, product(*ranges)):
        if prod(counts) > SMALL.n_tiles:
            continue
        split = {**dict(zip(DIMENSIONS, counts, strict=True)), **serial}
        try:
            plans.append(plan_convolution("op", shape, SMALL, 1.0, family, tuple(split.items())))
        except BadGraph:
            continue
    return plans


def test_the_fastest_that_fits_is_chosen_of_all_forced_plans() -> None:
    by_family = {family.name: forced(family.name, BLUR) for family in FAMILIES}
    every = [plan for plans in by_family.values() for plan in plans]
    fastest = min(every, key=lambda plan: plan.predicted_cycles)
    bearable = 4 * fastest.predicted_cycles
    minimum = min(plan.temporary_bytes for plan in every if plan.predicted_cycles <= bearable)
    slowest = 4 * max(
        min(plan.predicted_cycles for plan in plans) for plans in by_family.values() if plans
    )
    slow = [
        plan
        for plan in every
        if bearable < plan.predicted_cycles <= slowest and plan.temporary_bytes <= 0.75 * minimum
    ]
    assert slow
    for plan in slow:
        chosen = plan_convolution("op", BLUR, SMALL, plan.temporary_bytes / SMALL.allocatable_bytes)
        fitting = [p for p in slow if p.temporary_bytes <= plan.temporary_bytes]
        assert chosen.predicted_cycles == min(p.predicted_cycles for p in fitting)
        assert chosen.bound == "temporary_memory"
    assert plan_convolution("op", BLUR, SMALL, 0.0).temporary_bytes == min(
        plan.temporary_bytes for plan in slow
    )


sizes = st.sampled_from([1, 2, 3, 4, 8, 16, 24, 32])


@settings(max_examples=15)
@given(
    st.sampled_from([1, 1, 2, 4]), sizes, sizes, st.integers(4, 40), st.integers(4, 40),
    st.sampled_from([1, 3]), st.sampled_from(["float16", "float32"]), st.sampled_from([4, 16, 61]),
)  # fmt: skip
def test_less_memory_is_never_faster_nor_larger(
    groups: int, inputs: int, outputs: int, height: int, width: int, kernel: int, dtype: str, n: int
) -> None:
    shape = replace(
        BLUR, groups=groups, in_channels=inputs, out_channels=outputs, kernel=(kernel, kernel),
        padding_before=(kernel // 2, kernel // 2), height=height, width=width, in_height=height,
        in_width=width, dtype=dtype,
    )  # fmt: skip
    machine = load_machine("gc2", tiles_per_ipu=n)
    maximum = (
        plan_convolution("op", shape, machine, 10.0).temporary_bytes / machine.allocatable_bytes
    )
    shares = [maximum * share for share in np.geomspace(1, 0.05, 12)] + [0.0]
    plans = [plan_convolution("op", shape, machine, share) for share in shares]
    for extra, less in pairwise(plans):
        assert less.temporary_bytes <= extra.temporary_bytes
        assert less.predicted_cycles >= extra.predicted_cycles
    for plan, share in zip(plans, shares, strict=True):
        fits = plan.temporary_bytes <= share * machine.allocatable_bytes
        assert fits != (plan.bound == "least_memory")
