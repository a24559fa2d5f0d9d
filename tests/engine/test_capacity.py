"""Models that no compilation could make fit are refused before anything is lowered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilescope.engine import Builder, Graph, compile_model, load_machine
from tilescope.engine.errors import OutOfTileMemory
from tilescope.engine.ir import IrBuilder, Model, Node, Value
from tilescope.engine.ir import builder as ir_builder
from tilescope.engine.library.poplin.convolution import matmul
from tilescope.engine.operators import OPERATORS
from tilescope.engine.program import Sequence
from tilescope.engine.session import compilation
from tilescope.engine.session.capacity import NOTHING_BEYOND, Excess, control_code_bytes
from tilescope.engine.transform import transform

MACHINE = load_machine("gc200", tiles_per_ipu=4)


def emit(builder: IrBuilder, kind: str, *inputs: Value, **attributes: Any) -> Value:
    name = f"n{len(builder.operations)}"
    return builder.emit(OPERATORS[kind], inputs, name=name, source=kind, **attributes)


def chain(n: int) -> Model:
    builder = IrBuilder("chain")
    y = builder.input("x", (4, 4), "float32")
    for _ in range(n):
        y = emit(builder, "Neg", y)
    return builder.finish([("y", y)])


def outer(n: int) -> Model:
    builder = IrBuilder("outer")
    a, b = builder.input("a", (n, 1), "float32"), builder.input("b", (1, n), "float32")
    return builder.finish([("y", emit(builder, "MatMul", a, b))])


@pytest.fixture
def _nothing_is_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("lowered")

    monkeypatch.setattr(compilation, "lower", refuse)


@pytest.mark.usefixtures("_nothing_is_lowered")
def test_a_result_beyond_all_tiles_is_refused_by_name() -> None:
    with pytest.raises(OutOfTileMemory) as refused:
        compile_model(outer(20_000), MACHINE)
    assert str(refused.value) == (
        "Value 'n0' of shape (20000, 20000) takes 1,600,000,000 bytes: gc200 has 2,555,904 on all"
        " 4 tiles; split it, or make it smaller"
    )


def test_a_result_beyond_all_tiles_and_below_a_gibibyte_is_compiled() -> None:
    assert compile_model(outer(1_000), MACHINE).executable.overfull_tiles.size == 4
    with pytest.raises(OutOfTileMemory, match="4,000,000 bytes: gc200 has 2,555,904"):
        compile_model(outer(1_000), MACHINE, excess=NOTHING_BEYOND)
    assert compile_model(outer(1_000), MACHINE, excess=None).executable.overfull_tiles.size == 4


def test_a_variable_beyond_all_tiles_is_refused_where_it_is_added() -> None:
    graph = Graph(MACHINE)
    with pytest.raises(OutOfTileMemory) as refused:
        graph.add_variable("float16", (1 << 15, 1 << 15), "x")
    assert str(refused.value) == (
        "Variable 'x' of shape (32768, 32768) takes 2,147,483,648 bytes: gc200 has 2,555,904 on all"
        " 4 tiles; split it, or make it smaller"
    )
    builder = Builder(graph, Sequence())
    a, b = (graph.add_variable("float32", shape, "v") for shape in ((1, 10**6, 1), (1, 1, 10**6)))
    for operand in (a, b):
        graph.map_linearly(operand)
    with pytest.raises(OutOfTileMemory, match="takes 4,000,000,000,000 bytes: gc200 has"):
        matmul(builder, a, b)


@pytest.mark.usefixtures("_nothing_is_lowered")
def test_a_chain_whose_control_code_exceeds_a_tile_is_refused() -> None:
    """600 bytes hold 168 of stack, 100 fixed ones, and 33 steps of 10; two are copies."""
    machine = replace(
        MACHINE, non_interleaved_bytes=600, stack_bytes=168, control_code_bytes=100,
        control_code_bytes_per_step=10,
    )  # fmt: skip
    with pytest.raises(OutOfTileMemory) as refused:
        compile_model(chain(32), machine, excess=Excess(0, 33))
    assert str(refused.value) == (
        "Model 'chain' takes 34 steps or more, one for every operation, input and output, and"
        " their control code at least 608 bytes on every tile: a tile of gc200 holds code in its"
        " first 600 bytes only; split the model, join its inputs, or write repeated operations as a"
        " Loop"
    )
    for n, excess in ((31, NOTHING_BEYOND), (32, Excess(0, 34)), (32, None)):
        with pytest.raises(AssertionError, match="lowered"):
            compile_model(chain(n), machine, excess=excess)


def _squared(builder: IrBuilder, x: Value) -> Value:
    return emit(builder, "MatMul", x, builder.constant(np.ones((4, 4), np.float32), "w"))


def _to_the_one(builder: IrBuilder, x: Value) -> Value:
    return emit(builder, "Pow", x, builder.constant(np.float32(1), "e"))


def _twice(builder: IrBuilder, x: Value) -> Value:
    return emit(builder, "Mul", x, builder.constant(np.float32(2), "two"))


def _where(builder: IrBuilder, x: Value) -> Value:
    return emit(builder, "Where", emit(builder, "Greater", x, emit(builder, "Neg", x)), x, x)


def _gelu(builder: IrBuilder, x: Value) -> Value:
    erf = emit(builder, "Erf", emit(builder, "Div", x, builder.constant(np.float32(1.4142135), "")))
    raised = emit(builder, "Add", erf, builder.constant(np.float32(1), ""))
    half = emit(builder, "Mul", x, builder.constant(np.float32(0.5), ""))
    return emit(builder, "Mul", half, raised)


LINKS: list[Callable[[IrBuilder, Value], Value]] = [
    *(
        lambda builder, x, kind=kind: emit(builder, kind, x)
        for kind in ("Neg", "Relu", "Identity", "Transpose", "Tanh", "Softmax", "Abs", "Sigmoid")
    ),
    *(lambda builder, x, kind=kind: emit(builder, kind, x, x) for kind in ("Add", "Mul", "Max")),
    *(_squared, _to_the_one, _twice, _where, _gelu),
]


@given(st.lists(st.sampled_from(LINKS), min_size=1, max_size=12), st.booleans(), st.integers(0, 5))
def test_the_bound_on_control_code_never_exceeds_it(
    links: list[Callable[[IrBuilder, Value], Value]], repeats: bool, n_more: int
) -> None:
    """Each step has control code of a fixed size, repeated and outlined ones included."""
    builder = IrBuilder("m")
    y = builder.input("x", (4, 4), "float32")
    for link in links * (4 if repeats else 1):
        y = link(builder, y)
    for i in range(n_more):
        y = emit(builder, "Add", y, builder.input(f"x{i}", (4, 4), "float32"))
    model = transform(builder.finish([("y", y)]))
    bound, n_steps = control_code_bytes(model, MACHINE)
    executable = compile_model(model, MACHINE).executable
    code = executable.memory.categories["controlCode"].sum(axis=0)
    assert (bound <= MACHINE.stack_bytes + code).all()
    assert n_steps <= len(executable.steps)


def test_views_take_no_code() -> None:
    builder = IrBuilder("views")
    y = builder.input("x", (4, 4), "float32")
    for kind in ("Transpose", "Neg", "Flatten", "Identity"):
        y = emit(builder, kind, y)
    assert control_code_bytes(transform(builder.finish([("y", y)])), MACHINE)[1] == 1 + 2


def test_the_types_of_equal_nodes_are_inferred_once(monkeypatch: pytest.MonkeyPatch) -> None:
    inferred: list[str] = []
    inner = ir_builder._inferred

    def counted(node: Node, label: str, **options: Any) -> Any:
        inferred.append(node.name)
        return inner(node, label, **options)

    monkeypatch.setattr(ir_builder, "_inferred", counted)
    n_calls = []
    for n in (5, 50):
        inferred.clear()
        transform(chain(n))
        n_calls.append(len(inferred))
    assert n_calls[0] == n_calls[1]
