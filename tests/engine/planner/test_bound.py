"""Lower bounds of costs never exceed the costs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilescope.engine import load_machine
from tilescope.engine.planner.convolution.bound import (
    least_bytes_of_sums,
    least_compute_cycles,
    least_costs,
)
from tilescope.engine.planner.convolution.candidate import ways_of
from tilescope.engine.planner.convolution.split import Splits
from tilescope.engine.planner.request import PlanRequest
from tilescope.engine.planner.serial import AT_ONCE, Serial
from tilescope.engine.tiling import ConvolutionShape

MACHINE = load_machine("gc200", tiles_per_ipu=48)
CONVOLUTION = ConvolutionShape(
    groups=1, images=2, height=12, width=15, in_channels=24, out_channels=32, kernel=(3, 3),
    padding_before=(1, 1), in_height=12, in_width=15, dtype="float16",
)  # fmt: skip
SHAPES = {
    "constants": CONVOLUTION,
    "computed": replace(CONVOLUTION, weights="strided", runs=(1, 2, 4, 8)),
    "float": replace(CONVOLUTION, dtype="float32", weights="rows"),
    "half sums": replace(CONVOLUTION, partial_dtype="float16"),
    "depthwise": replace(CONVOLUTION, groups=24, in_channels=1, out_channels=1),
    "product": ConvolutionShape(
        2, 1, 1, 60, 96, 48, in_height=1, in_width=60, is_matmul=True, runs=(8,)
    ),
    "constant input": replace(CONVOLUTION, is_input_constant=True, weights="rows"),
}


@pytest.mark.parametrize("serial", [AT_ONCE, Serial(outputs=4), Serial(inputs=2)], ids=str)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=[*SHAPES])
def test_bounds_do_not_exceed_costs(shape: ConvolutionShape, serial: Serial) -> None:
    request = PlanRequest.of(shape, MACHINE, "", ())
    for method in ways_of(request, serial):
        splits = Splits.widest(method.part, method.grouping, MACHINE.n_tiles, serial, {})
        splits = method.supported(splits)
        if not len(splits.parts):
            continue
        costs = method.weighed(splits, MACHINE).costs
        temporary, cycles = least_costs(method.family, splits, MACHINE)
        assert (least_bytes_of_sums(splits) <= temporary).all()
        assert (temporary <= costs.temporary_bytes).all()
        assert (least_compute_cycles(method.family, splits, MACHINE) <= cycles).all()
        assert (cycles <= costs.total).all()
        assert method.least_cycles <= costs.total.min()
