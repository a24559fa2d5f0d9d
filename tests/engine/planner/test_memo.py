"""Equal operations are planned once, and share the plan under their own names."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tilescope.engine import compile_model, load_machine
from tilescope.engine.ir import IrBuilder, Model
from tilescope.engine.operators import OPERATORS
from tilescope.engine.planner.convolution.convolution import plan_convolution
from tilescope.engine.planner.convolution.memo import PlanMemo
from tilescope.engine.planner.plan import Plan
from tilescope.engine.tiling import ConvolutionShape

MACHINE = load_machine("gc200", tiles_per_ipu=64)
SHAPE = ConvolutionShape(
    groups=1, images=1, height=14, width=14, in_channels=16, out_channels=16, kernel=(3, 3),
    in_height=16, in_width=16,
)  # fmt: skip


def test_an_equal_operation_gets_the_plan_under_its_own_name() -> None:
    memo = PlanMemo()
    first = memo.plan(plan_convolution, "first", SHAPE, MACHINE)
    same_machine = load_machine("gc200", tiles_per_ipu=64)
    second = memo.plan(plan_convolution, "second", replace(SHAPE), same_machine)
    assert (memo.n_made, memo.n_reused) == (1, 1)
    assert second.name == "second"
    assert replace(second, name="first") == first


def test_an_explicit_default_is_an_equal_request() -> None:
    memo = PlanMemo()
    memo.plan(plan_convolution, "first", SHAPE, MACHINE)
    memo.plan(plan_convolution, "second", SHAPE, MACHINE, available_memory_proportion=0.6)
    assert (memo.n_made, memo.n_reused) == (1, 1)


@pytest.mark.parametrize(
    ("shape", "machine", "proportion"),
    [
        (replace(SHAPE, stride=(2, 1), in_height=29), MACHINE, 0.6),
        (replace(SHAPE, dtype="float16", partial_dtype="float16"), MACHINE, 0.6),
        (SHAPE, load_machine("gc200", tiles_per_ipu=63), 0.6),
        (SHAPE, load_machine("gc200", tiles_per_ipu=64, parameter_set="ipu_model"), 0.6),
        (SHAPE, MACHINE, 0.5),
    ],
)
def test_different_requests_are_planned_separately(shape, machine, proportion) -> None:
    memo = PlanMemo()
    memo.plan(plan_convolution, "first", SHAPE, MACHINE)
    memo.plan(plan_convolution, "second", shape, machine, proportion)
    assert (memo.n_made, memo.n_reused) == (2, 0)


def test_changing_a_plan_does_not_affect_its_copies() -> None:
    first = plan_convolution("first", SHAPE, MACHINE)
    expected = dict(first.split)
    assert isinstance(first.split, dict)
    first.split.clear()
    assert plan_convolution("second", SHAPE, MACHINE).split == expected


class Answers:
    """A store that always returns the same kind of plan, as from a manipulated directory."""

    def __init__(self, answer: Plan) -> None:
        self.answer = answer

    def find(self, key: tuple[Any, ...]) -> Plan | None:
        return self.answer if key else None

    def keep(self, key: tuple[Any, ...], plan: Plan) -> None:
        raise AssertionError(f"{key} has an answer, not {plan}")


def test_stores_of_programs_are_isolated() -> None:
    expected = plan_convolution("conv", SHAPE, MACHINE)
    outlier = PlanMemo(Answers(replace(expected, family="odd")))
    assert outlier.plan(plan_convolution, "conv", SHAPE, MACHINE).family == "odd"
    assert PlanMemo().plan(plan_convolution, "conv", SHAPE, MACHINE) == expected
    assert plan_convolution("conv", SHAPE, MACHINE) == expected


def _four_convolutions() -> Model:
    """Return a model of three equal convolutions and a different one.

    The first has an input in a different layout.
    """
    builder = IrBuilder("four")
    x = builder.input("x", (1, 8, 6, 6), "float32")
    for i, kernel in enumerate((3, 3, 3, 1)):
        weights = builder.constant(np.ones((8, 8, kernel, kernel), np.float32), f"w{i}")
        pad = (kernel // 2, kernel // 2)
        x = builder.emit(
            OPERATORS["convolution"], [x, weights], name=f"conv{i}", source="Conv",
            kernel=(kernel, kernel), stride=(1, 1), dilation=(1, 1),
            padding_before=pad, padding_after=pad, groups=1,
        )  # fmt: skip
    return builder.finish([("y", x)])


def test_a_model_s_equal_operations_are_planned_once_and_the_log_counts_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG, logger="tilescope.engine.planner"):
        executable = compile_model(_four_convolutions(), MACHINE).executable
    assert [plan.name for plan in executable.plans] == [f"conv{i}/convolution" for i in range(4)]
    assert executable.plans[1].split == executable.plans[2].split
    assert "conv2/convolution: same as conv1/convolution; 2 plans made and 1 reused" in (
        caplog.text
    )
