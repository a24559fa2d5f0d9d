"""The planner uses the machine, respects the memory limit, and explains its choice."""

from __future__ import annotations

from math import prod

import pytest

from tilescope.engine import load_machine
from tilescope.engine.planner.convolution.convolution import plan_convolution
from tilescope.engine.tiling import DIMENSIONS, ConvolutionShape

MACHINE = load_machine("gc200")
LARGE = ConvolutionShape(
    groups=1, images=1, height=56, width=56, in_channels=64, out_channels=64, kernel=(3, 3),
    padding_before=(1, 1), in_height=56, in_width=56,
)  # fmt: skip


def test_a_large_convolution_is_split_over_most_of_the_machine() -> None:
    plan = plan_convolution("conv", LARGE, MACHINE)
    assert 1000 < plan.n_tiles <= MACHINE.n_tiles
    assert prod(plan.split.values()) == plan.n_tiles
    assert set(plan.split) == set(DIMENSIONS)
    assert 0.5 < plan.tile_balance <= 1
    assert plan.bound == "cycles"


def test_the_best_split_beats_the_runner_up_and_a_single_tile() -> None:
    plan = plan_convolution("conv", LARGE, MACHINE)
    assert plan.predicted_cycles <= int(plan.runner_up["cycles"])
    item = plan_convolution("conv", LARGE, load_machine("gc200", tiles_per_ipu=1))
    assert item.n_tiles == 1
    assert item.predicted_cycles > 100 * plan.predicted_cycles
    assert item.predicted["preArrange_exchange"] > 0, "inputs are assumed to come from any tile"


def test_a_tiny_product_stays_on_few_tiles() -> None:
    shape = ConvolutionShape(1, 1, 1, 1, 8, 4, in_height=1, in_width=1, is_matmul=True)
    plan = plan_convolution("product", shape, MACHINE)
    assert (plan.operation, plan.n_tiles) == ("matmul", 1)
    # The rejected groupings leave more of the unit idle.
    assert int(plan.runner_up["cycles"]) >= plan.predicted_cycles


def test_no_plan_is_many_times_slower_for_a_little_memory() -> None:
    """A product with fastest splits that do not fit: single dot products would save 1 percent."""
    shape = ConvolutionShape(
        1, 1, 1, 2048, 2048, 2048, in_height=1, in_width=2048, is_matmul=True, runs=(8,)
    )
    quickest = plan_convolution("product", shape, MACHINE, 10.0)
    for share in (0.6, 0.1, 0.0):
        plan = plan_convolution("product", shape, MACHINE, share)
        assert plan.family == "amp"
        assert plan.predicted_cycles < 5 * quickest.predicted_cycles


@pytest.mark.parametrize("n_tiles", [4, 16])
def test_temporary_memory_keeps_to_its_share(n_tiles: int) -> None:
    machine = load_machine("gc200", tiles_per_ipu=n_tiles)
    free = plan_convolution("conv", LARGE, machine, available_memory_proportion=10.0)
    share = free.temporary_bytes / machine.bytes_per_tile * 0.9
    tight = plan_convolution("conv", LARGE, machine, available_memory_proportion=share)
    limit = share * machine.bytes_per_tile
    if tight.bound == "cycles":
        assert tight.temporary_bytes <= limit
    elif tight.bound in ("temporary_memory", "interleaved_memory"):
        assert tight.temporary_bytes <= limit
        assert tight.predicted_cycles >= free.predicted_cycles
    else:
        assert tight.bound == "least_memory"
        assert limit < tight.temporary_bytes <= free.temporary_bytes


def test_a_faster_split_that_needs_too_much_memory_is_named() -> None:
    machine = load_machine("gc200", tiles_per_ipu=16)
    free = plan_convolution("conv", LARGE, machine, available_memory_proportion=10.0)
    share = (free.temporary_bytes - 1) / machine.bytes_per_tile
    tight = plan_convolution("conv", LARGE, machine, available_memory_proportion=share)
    assert tight.split != free.split
    assert tight.bound.endswith("memory")


def test_if_nothing_fits_the_plan_with_the_least_memory_is_chosen() -> None:
    plan = plan_convolution("conv", LARGE, MACHINE, available_memory_proportion=1e-6)
    assert plan.bound == "least_memory"
    shares = [plan_convolution("conv", LARGE, MACHINE, 2.0**-i).temporary_bytes for i in range(16)]
    assert shares == sorted(shares, reverse=True)
    assert plan.temporary_bytes == shares[-1]
    assert plan.n_tiles > 1
