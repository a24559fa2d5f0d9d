"""Plans with results that do not fit in interleaved memory are not chosen."""

from __future__ import annotations

import numpy as np
import pytest

from tilescope.engine import Executable, Graph, compile_programs, load_machine
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.convolution import matmul
from tilescope.engine.machine import Machine
from tilescope.engine.planner.convolution.convolution import plan_convolution
from tilescope.engine.planner.plan import Plan
from tilescope.engine.program import Sequence
from tilescope.engine.tiling import ConvolutionShape


def product(
    machine: Machine, dtype: str, rows: int, inner: int, columns: int
) -> tuple[Plan, Executable]:
    """Return the plan and the program of a product with constants."""
    graph, program = Graph(machine), Sequence("main")
    builder = Builder(graph, program)
    a = graph.add_variable(dtype, (1, rows, inner), "a")
    graph.map_linearly(a, grain=8)
    matmul(builder, a, np.zeros((1, inner, columns), np.float32), "op")
    (plan,) = builder.plans
    return plan, compile_programs(graph, [program], plans=builder.plans)


@pytest.mark.parametrize(
    ("name", "dtype", "sizes", "keeps_to_share"),
    [
        ("gc200", "float32", (704, 8, 704), False),
        ("gc2", "float32", (384, 8, 384), False),
        ("gc2", "float16", (512, 16, 544), True),
    ],
)
def test_large_results_are_split_into_parts_that_fit(
    name: str, dtype: str, sizes: tuple[int, int, int], keeps_to_share: bool
) -> None:
    machine = load_machine(name, tiles_per_ipu=4)
    rows, _, columns = sizes
    item_bytes = {"float32": 4, "float16": 2}[dtype]
    # The unit's partial sums are interleaved: with even parts they would not fit.
    assert rows * columns // 4 * item_bytes > machine.interleaved_bytes
    plan, executable = product(machine, dtype, *sizes)
    assert plan.family == "amp"
    assert plan.n_serial > 1
    assert int(executable.memory.including_gaps.max()) <= machine.allocatable_bytes
    more_interleaved = plan.bound == "interleaved_memory"
    assert more_interleaved == keeps_to_share
    assert (plan.bound == "least_memory") != keeps_to_share


def test_a_product_that_fits_nowhere_is_still_planned() -> None:
    machine = load_machine("gc2", tiles_per_ipu=4)
    shape = ConvolutionShape(
        2, 1, 1, 1024, 16, 1024, in_height=1, in_width=1024, is_matmul=True, runs=(8,)
    )
    plan = plan_convolution("product", shape, machine, 0.6, "amp")
    assert machine.allocatable_bytes < 2 * 1024 * 1024 // 4 * 4
    assert plan.n_serial == 1
    assert plan.bound == "least_memory"
