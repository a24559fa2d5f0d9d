"""Further figures: products of a recording, and vertices timed on one tile."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from tests.fidelity.products import planned_product
from tests.fidelity.read_off import compute_cycles

from tilescope.engine.codelets.define import codelet
from tilescope.engine.codelets.popops.reduction.reduce import REDUCE
from tilescope.engine.graph import Graph, Stage, Tensor, blocks
from tilescope.engine.graph.vertex.codelet import Codelet, Field
from tilescope.engine.graph.vertex.law import Batch, start_cycles, worker_share
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.convolution import convolution
from tilescope.engine.library.popops.elementwise.operations import binary
from tilescope.engine.library.popops.elementwise.scaled_add import scaled_add
from tilescope.engine.library.window import Window
from tilescope.engine.machine import Machine, load_machine
from tilescope.engine.program import Execute, Sequence
from tilescope.engine.session.compile import compile_programs

__all__ = [
    "first_layer_plan",
    "last_sums",
    "recorded_products",
    "rotation",
    "scaled_additions",
    "ten_floats",
]


def recorded_products() -> Mapping[str, float]:
    """Return the cycles of the six products of the recording that no other reference has."""
    shapes = {
        "half, probabilities by values": ("float16", 16, (729, 729, 72)),
        "half, 729 x 1152 x 1152": ("float16", 1, (729, 1152, 1152)),
        "half, 729 x 4304 x 1152": ("float16", 1, (729, 4304, 1152)),
        "fp8, scores": ("float8_143", 16, (729, 72, 729)),
        "fp8, 729 x 1152 x 1152": ("float8_143", 1, (729, 1152, 1152)),
        "fp8, 729 x 1152 x 4304": ("float8_143", 1, (729, 1152, 4304)),
    }
    return {name: planned_product(*shape) for name, shape in shapes.items()}


def _on_one_tile(graph: Graph, n_floats: int, names: str) -> list[Tensor]:
    tensors = [graph.add_variable("float32", (n_floats,), name) for name in names]
    for tensor in tensors:
        graph.map_linearly(tensor, grain=n_floats, tiles=[0])
    return tensors


def scaled_additions() -> Mapping[str, float]:
    """Return the cycles of scaled additions in place of floats on a tile, by how many."""
    cycles = {}
    for n_floats in (64, 128, 256, 512):
        graph = Graph(load_machine("bow"))
        a, b = _on_one_tile(graph, n_floats, "ab")
        (scale,) = _on_one_tile(graph, 1, "s")
        program = Sequence("main")
        scaled_add(Builder(graph, program), a, b, scale)
        cycles[f"{n_floats} floats"] = compute_cycles(compile_programs(graph, [program]))
    return cycles


def ten_floats() -> Mapping[str, float]:
    """Return the cycles of an addition of ten floats on a tile."""
    graph = Graph(load_machine("bow"))
    a, b = _on_one_tile(graph, 10, "ab")
    program = Sequence("main")
    binary(Builder(graph, program), "add", a, b, a.shape)
    return {"vertex": compute_cycles(compile_programs(graph, [program]))}


def last_sums() -> Mapping[str, float]:
    """Return the cycles of the last stage of a reduction: 16 sums of two floats on a tile."""
    graph = Graph(load_machine("gc2"))
    (partials,) = _on_one_tile(graph, 32, "p")
    (sums,) = _on_one_tile(graph, 16, "s")
    fields = {
        "x": blocks(partials.variable, 0, [1, 16, 1, 2], [0, 2, 0, 1], 1),
        "out": blocks(sums.variable, 0, [1, 1, 16], [0, 0, 1], 1),
    }
    compute_set = graph.add_compute_set("reduce")
    graph.add_vertices(compute_set, REDUCE["sum"], [0], fields, {"scale": 1.0})
    return {"last stage": compute_cycles(compile_programs(graph, [Execute(compute_set)]))}


def _rotation_codelet() -> Codelet:
    """Return the rotation of pairs by an angle, whose loops are in assembly in the source.

    Both loops take 2 instructions per pair of floats, 8 before the loop, and 3 for its scales. The
    generated code of the rest is not published; it is assumed to take 20 instructions.
    Source: graphcore-research/tessellate-ipu, tile_small_dot.hpp and tile_small_dot.cpp.
    """

    def law(batch: Batch, machine: Machine) -> NDArray[np.int64]:
        pairs = worker_share(batch.n_elements("x") // 2, machine)
        worker = 20 + 2 * (3 + 8 + 2 * pairs)
        return np.asarray(start_cycles(0, machine) + machine.n_worker_contexts * worker)

    @codelet(
        Field("x", "in"),
        Field("y", "in"),
        Field("angle", "in"),
        Field("new_x", "out"),
        Field("new_y", "out"),
        law=law,
        code_bytes=160,
        name="Rotation2dVertex",
        is_supervisor=True,
    )
    def rotate(x, y, angle, new_x, new_y):  # type: ignore[no-untyped-def]
        for i in range(x.size):
            new_x[i] = angle[0] * x[i] - angle[1] * y[i]
            new_y[i] = angle[1] * x[i] + angle[0] * y[i]

    return rotate


def rotation() -> Mapping[str, float]:
    """Return the cycles of a rotation of 512 pairs of floats on a tile."""
    n = 512
    graph = Graph(load_machine("bow"))
    x, y, new_x, new_y = _on_one_tile(graph, n, "xyuv")
    (angle,) = _on_one_tile(graph, 2, "a")
    fields = {"x": x, "y": y, "angle": angle, "new_x": new_x, "new_y": new_y}
    regions = {
        name: blocks(tensor.variable, 0, [tensor.n_elements], [1], 1)
        for name, tensor in fields.items()
    }
    compute_set = graph.add_compute_set("rotate")
    graph.add_vertices(compute_set, _rotation_codelet(), [0], regions)
    compiled = compile_programs(graph, [Execute(compute_set)])
    return {"vertex": compute_cycles(compiled)}


def first_layer_plan() -> Mapping[str, float]:
    """Return the cycles that our planner expects of the first layer of a ResNet, by part."""
    graph = Graph(load_machine("gc2", parameter_set="ipu_model"))
    x = graph.add_variable("float16", (4, 4, 224, 224), "x")
    weights = graph.add_variable("float16", (64, 4, 7, 7), "weights")
    for tensor in (x, weights):
        graph.map_linearly(tensor)
    builder = Builder(graph, Sequence("main"))
    window = Window((7, 7), (2, 2), padding_before=(3, 3), padding_after=(3, 3))
    convolution(builder, x, weights, window)
    (plan,) = builder.plans
    fromkeys = dict.fromkeys(("transform", "exchange", "compute", "reduction"), 0.0)
    for planned in plan.stages:
        if planned.stage in (Stage.PRE_ARRANGE, Stage.PRE_ARRANGE_WEIGHTS):
            fromkeys["transform"] += planned.predicted_cycles
        elif planned.stage is Stage.COMPUTE:
            fromkeys["exchange"] += planned.exchange_cycles or 0
            fromkeys["compute"] += planned.compute_cycles or 0
        else:
            fromkeys["reduction"] += planned.predicted_cycles
    return {**fromkeys, "total": sum(fromkeys.values())}
