"""Predicted and compiled cycles agree for layers of published networks."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.engine.planner.busiest import planners_cycles
from tests.engine.planner.layers import LAYERS, Layer

from tilescope.engine import Executable, Graph, compile_programs, load_machine
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.convolution import convolution, matmul
from tilescope.engine.library.window import Window
from tilescope.engine.machine import Machine
from tilescope.engine.planner.convolution.convolution import plan_convolution
from tilescope.engine.planner.convolution.memo import PlanMemo
from tilescope.engine.planner.phase import Phase
from tilescope.engine.planner.plan import Plan
from tilescope.engine.planner.serial import Serial
from tilescope.engine.program import Sequence
from tilescope.engine.tiling import ConvolutionShape

MACHINE = load_machine("gc200")


def build(
    layer: Layer,
    share: float | None = None,
    split: Mapping[str, int] | None = None,
    memo: PlanMemo | None = None,
) -> tuple[Graph, Sequence, Plan]:
    """Return the program of a layer with operands spread over all tiles."""
    graph, program = Graph(MACHINE), Sequence("main")
    builder = Builder(graph, program, plan_memo=memo or PlanMemo())
    options: dict[str, Any] = {"available_memory_proportion": share, "split": split}
    if layer.kernel:
        x = graph.add_variable(layer.dtype, (1, layer.inputs, layer.size, layer.size), "x")
        graph.map_linearly(x, grain=4)
        pad = (layer.kernel // 2,) * 2
        weights = np.zeros(
            (layer.outputs, layer.inputs // layer.groups, layer.kernel, layer.kernel), np.float32
        )
        window = Window(
            (layer.kernel,) * 2,
            stride=(layer.stride,) * 2,
            padding_before=pad,
            padding_after=pad,
        )
        convolution(builder, x, weights, window, layer.groups, "op", **options)
    else:
        a = graph.add_variable(layer.dtype, (layer.groups, layer.size, layer.inputs), "a")
        graph.map_linearly(a, grain=4)
        if layer.is_computed:
            b = graph.add_variable(layer.dtype, (layer.groups, layer.inputs, layer.outputs), "b")
            graph.map_linearly(b, grain=4)
            matmul(builder, a, b, "op", **options)
        else:
            values = np.zeros((layer.groups, layer.inputs, layer.outputs), np.float32)
            matmul(builder, a, values, "op", **options)
    return graph, program, builder.plans[0]


class Questions:
    """A plan store that records requests and has no plans."""

    def __init__(self) -> None:
        self.asked: dict[tuple[Any, ...], Plan | None] = {}

    def find(self, key: tuple[Any, ...]) -> Plan | None:
        return self.asked.setdefault(key, None)

    def keep(self, key: tuple[Any, ...], plan: Plan) -> None:
        self.asked[key] = plan


def asked_of_planner(layer: Layer) -> tuple[ConvolutionShape, Machine]:
    """Return the library's request to the planner for a layer."""
    questions = Questions()
    build(layer, memo=PlanMemo(questions))
    ((_, shape, machine, *_),) = questions.asked
    return shape, machine


def compiled_parts(executable: Executable) -> Mapping[str, int]:
    """Return the cycles of every compute set, and of the syncs and the exchange before it.

    As the planner counts them: an exchange takes at least as long by its schedule.
    """
    results: dict[str, int] = {}
    for step in executable.steps:
        if step.kind == "WriteUndef":
            continue  # it takes no cycles
        offset = step.plan_stage
        assert offset is not None
        name = Phase(offset.stage, offset.index, step.kind != "OnTileExecute").name
        results[name] = results.get(name, 0) + planners_cycles(step, executable.machine)
    return results


def check_parts(graph: Graph, program: Sequence, plan: Plan) -> None:
    """Check every phase of a plan against the compiled program."""
    compiled = compiled_parts(compile_programs(graph, [program], plans=[plan]))
    planned = {part: cycles for part, cycles in plan.predicted.items() if cycles}
    assert set(planned) == set(compiled)
    total = sum(compiled.values())
    # For a short phase, a tenth may be a handful of cycles.
    problem = {
        part: (planned[part], compiled[part])
        for part in planned
        if abs(planned[part] - compiled[part]) > max(0.1 * compiled[part], 0.02 * total)
    }
    assert problem == {}
    assert abs(plan.predicted_cycles / total - 1) < 0.05


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name.replace(" ", "-"))
def test_every_part_costs_what_was_planned(layer: Layer) -> None:
    graph, program, plan = build(layer)
    assert plan.n_serial == 1
    check_parts(graph, program, plan)


@pytest.mark.parametrize(
    ("name", "share", "serial"),
    [
        ("resnet50 first", 0.01, Serial(outputs=8)),
        ("resnet50 conv4 3x3 float", 0.02, Serial(inputs=2)),
        ("vgg16 conv3", 0.04, Serial(outputs=8)),
        ("vgg16 conv5", 0.02, Serial(outputs=4)),
        ("bert output", 0.04, Serial(outputs=6)),
        ("bert output", 0.013, Serial(inputs=32)),
        ("bert intermediate", 0.015, Serial(outputs=32)),
        ("bert output", 0.01, Serial(inputs=64)),
    ],
)
def test_parts_made_in_turn_cost_what_was_planned(name: str, share: float, serial: Serial) -> None:
    layer = next(layer for layer in LAYERS if layer.name == name)
    graph, program, plan = build(layer, share)
    assert plan.serial == serial
    assert plan.temporary_bytes < build(layer, 1.0)[2].temporary_bytes
    assert plan.predicted["update" if serial.outputs > 1 else "add"] > 0
    check_parts(graph, program, plan)


@pytest.mark.parametrize(
    ("name", "n_parts"),
    [
        ("resnet50 conv3 down", 4),
        ("resnet50 conv4 3x3 float", 4),
        ("resnet50 conv5 3x3", 8),
        ("vgg16 dense", 4),
        ("bert query", 2),
        ("bert scores", 2),
        ("bert intermediate float", 4),
    ],
)
def test_parts_of_the_inputs_cost_what_was_planned(name: str, n_parts: int) -> None:
    layer = next(layer for layer in LAYERS if layer.name == name)
    graph, program, plan = build(layer, split={"serial inputs": n_parts})
    assert plan.serial == Serial(inputs=n_parts)
    assert plan.predicted["add"] > 0
    assert ("cast" in plan.predicted) == (layer.dtype == "float16")
    check_parts(graph, program, plan)


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name.replace(" ", "-"))
def test_the_plan_explains_idle_tiles(layer: Layer) -> None:
    plan = build(layer)[2]
    is_idle = plan.n_tiles * 2 < MACHINE.n_tiles
    assert (plan.bound == "idle_tiles") == is_idle


@pytest.mark.parametrize("name", ["vgg16 conv3", "resnet50 first", "bert intermediate"])
def test_less_memory_comes_in_steps_and_never_takes_more(name: str) -> None:
    layer = next(layer for layer in LAYERS if layer.name == name)
    shares = np.geomspace(0.9, 0.001, 24).tolist()
    shape, machine = asked_of_planner(layer)
    plans = [plan_convolution("op", shape, machine, share) for share in shares]
    assert plans[0] == build(layer, shares[0])[2]
    used = [plan.temporary_bytes for plan in plans]
    cycles = [plan.predicted_cycles for plan in plans]
    assert all(less <= extra for extra, less in pairwise(used))
    assert all(slower >= faster for faster, slower in pairwise(cycles))
    assert plans[0].n_serial == 1 < plans[-1].n_serial
    # A plan is kept until it no longer fits; smaller changes of the share have no effect.
    assert 2 <= len(set(used)) < len(shares)
    for (extra, less), share in zip(pairwise(plans), shares[1:], strict=True):
        if extra.temporary_bytes <= share * MACHINE.allocatable_bytes:
            assert less.split == extra.split
            assert less.temporary_bytes == extra.temporary_bytes
    for plan, share in zip(plans, shares, strict=True):
        fits = plan.temporary_bytes <= share * MACHINE.allocatable_bytes
        assert fits != (plan.bound == "least_memory")
