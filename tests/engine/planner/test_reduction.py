"""Many partial sums are reduced in two or three stages if that is faster."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from tests.engine.planner.test_accuracy import compiled_parts

from tilescope.engine import Engine, Graph, compile_programs, load_machine, resolve_options
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.convolution import matmul
from tilescope.engine.machine import Machine
from tilescope.engine.planner.convolution.reduction import left_after_stages, library_stages
from tilescope.engine.program import Sequence

HARDWARE = load_machine("gc200")
#: Too few tiles for the partial sums of three stages.
SMALL = load_machine("gc200", tiles_per_ipu=120)
#: Its exchanges are cheap compared with the sums, as in the published library's model.
MODEL = load_machine("gc200", parameter_set="ipu_model")


@dataclass(frozen=True)
class Product:
    """A product of rows x inner and inner x columns, and its expected reduction."""

    machine: Machine
    rows: int
    inner: int
    columns: int
    dtype: str
    n_stages: int
    n_least: int


PRODUCTS = {
    "two": Product(SMALL, 8, 16384, 8, "float32", 2, 16),
    "three": Product(HARDWARE, 1, 65536, 1, "float16", 3, 125),
    "three of several rows": Product(HARDWARE, 6, 40000, 8, "float16", 3, 125),
    "two of a model": Product(MODEL, 1, 12288, 16, "float16", 2, 16),
    "two of few in sections of a size": Product(MODEL, 1, 720, 12, "float16", 2, 16),
    "three of a model": Product(MODEL, 1, 16384, 4, "float32", 3, 125),
    "three of uneven sections": Product(MODEL, 9, 50176, 16, "float32", 3, 125),
    "three of several blocks": Product(MODEL, 16, 8192, 16, "float16", 3, 125),
}


@pytest.mark.parametrize(
    ("n_partials", "left"),
    [
        (15, ()),
        # Two stages: for 20 partial sums, roots of 4 and 5 need the same number of messages.
        (16, (4,)),
        (17, (4,)),
        (20, (5,)),
        (124, (11,)),
        # Three stages of five messages.
        (125, (25, 5)),
        (1000, (100, 10)),
    ],
)
def test_stages_are_those_of_the_published_library(n_partials: int, left: tuple[int, ...]) -> None:
    assert library_stages(n_partials) == left


@pytest.mark.parametrize("product", PRODUCTS.values(), ids=[*PRODUCTS])
def test_stages_give_the_sum_and_cost_what_was_planned(product: Product) -> None:
    graph, program = Graph(product.machine), Sequence("main")
    builder = Builder(graph, program)
    random = np.random.default_rng(0)
    left = random.integers(-2, 3, (1, product.rows, product.inner)).astype(np.float32)
    right = random.integers(-2, 3, (1, product.inner, product.columns)).astype(np.float32)
    a = graph.add_variable(product.dtype, left.shape, "a")
    graph.map_linearly(a, grain=4)
    out = matmul(builder, a, right, "op")
    (plan,) = builder.plans
    n_partials = plan.n_partials
    assert n_partials >= product.n_least
    stages = left_after_stages(plan)
    assert stages == (*library_stages(n_partials), 1)
    assert len(stages) == product.n_stages
    executable = compile_programs(graph, [program], plans=builder.plans, is_checked=True)
    actual = compiled_parts(executable)
    names = [*(f"reduceStage{i}" for i in range(product.n_stages - 1)), "reduce"]
    assert {part for part in actual if "educe" in part} == {
        part for name in names for part in (name, f"{name}_exchange")
    }
    for name in names:
        assert plan.predicted[name] == actual[name]
        exchange = f"{name}_exchange"
        assert plan.predicted[exchange] == pytest.approx(actual[exchange], rel=0.1)
    with Engine(executable, resolve_options(environ={})) as engine:
        engine.write_tensor(a, left)
        engine.run()
        # Integers below 2048 are also exact in half.
        assert engine.read_tensor(out).tolist() == (left @ right).tolist()


@pytest.mark.parametrize("partials", ["float", "half"])
def test_sums_between_stages_have_the_type_of_the_partials(partials: str) -> None:
    graph = Graph(MODEL)
    builder = Builder(graph, Sequence("main"))
    a = graph.add_variable("float16", (1, 1, 12288), "a")
    graph.map_linearly(a, grain=4)
    matmul(builder, a, np.zeros((1, 12288, 16), np.float32), "op", partials_type=partials)
    held = [
        variable
        for variable in graph.variables
        if variable.name.endswith(("partials", "reduceStage0"))
    ]
    assert len(held) == 2
    assert {v.dtype.name for v in held} == {{"float": "float32", "half": "float16"}[partials]}


def test_expensive_exchanges_favour_a_single_stage() -> None:
    graph = Graph(HARDWARE)
    builder = Builder(graph, Sequence("main"))
    a = graph.add_variable("float16", (1, 1, 12288), "a")
    graph.map_linearly(a, grain=4)
    matmul(builder, a, np.zeros((1, 12288, 16), np.float32), "op")
    (plan,) = builder.plans
    assert plan.split["inputs"] >= 16
    assert left_after_stages(plan) == (1,)
    assert not any("Stage" in part for part, cycles in plan.predicted.items() if cycles)
