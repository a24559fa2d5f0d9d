"""The engine's own calls check no arguments: a compiled model reaches none of the users' checks."""

from __future__ import annotations

import sys
from collections import Counter
from types import CodeType, FrameType, FunctionType
from typing import Any

import numpy as np
import pytest

from tilescope.engine import arguments, compile_model, load_machine
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Graph, Regions, blocks
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.ir import IrBuilder, Model
from tilescope.engine.library import argument_check
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.convolution import matmul
from tilescope.engine.operators import OPERATORS
from tilescope.engine.program import Sequence
from tilescope.engine.program import check as program_check

MACHINE = load_machine("gc200", tiles_per_ipu=16)


def checks() -> dict[CodeType, str]:
    """Return the functions that check what users pass."""
    owners = (arguments, Graph, program_check._Check)
    functions = [f for owner in owners for f in vars(owner).values()]
    functions += [Regions.check, Codelet.check_fields, Codelet.check_scalars, blocks]
    functions += [argument_check._check]
    return {f.__code__: f.__qualname__ for f in functions if isinstance(f, FunctionType)}


def network() -> Model:
    """Return a small network of all kinds of layers."""
    draw = np.random.default_rng(1)
    builder = IrBuilder("network")
    y = builder.input("x", (1, 3, 12, 12), "float32")

    def layer(operator: str, *weights: tuple[int, ...], **attributes: Any) -> None:
        nonlocal y
        constants = [
            builder.constant(draw.standard_normal(shape).astype(np.float32), "w")
            for shape in weights
        ]
        name = f"{operator}{len(builder.operations)}"
        operands = [y, *constants]
        y = builder.emit(OPERATORS[operator], operands, name=name, source=operator, **attributes)

    layer("Conv", (16, 3, 3, 3), pads=(1, 1, 1, 1))
    layer("Add", (16, 1, 1))
    layer("Relu")
    layer("MaxPool", kernel_shape=(2, 2), strides=(2, 2))
    layer("Conv", (16, 16, 3, 3), strides=(2, 2))
    layer("Sigmoid")
    layer("GlobalAveragePool")
    layer("Flatten")
    layer("MatMul", (16, 24))
    layer("Mul", (24,))
    layer("Softmax")
    return builder.finish([("y", y)])


def test_compiled_models_reach_no_check_of_arguments() -> None:
    model, called, known = network(), Counter[str](), checks()

    def noted(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code in known:
            called[known[frame.f_code]] += 1

    sys.setprofile(noted)
    try:
        compile_model(model, MACHINE)
    finally:
        sys.setprofile(None)
    assert not called


def test_regions_of_the_library_are_checked_on_request() -> None:
    compile_model(network(), MACHINE, is_checked=True)


def test_calls_within_a_users_call_check_nothing() -> None:
    builder = Builder(Graph(MACHINE), Sequence())
    assert builder.is_checked
    inside = builder.inside("call", "test.call")
    assert not inside.is_checked
    tensor = inside.graph.add_variable("float32", (4,), "x")
    assert builder.graph.variables == [tensor.variable]
    builder.graph.check_own(tensor)
    assert (inside.graph.new_plan_id(), builder.graph.new_plan_id()) == (0, 1)
    with pytest.raises(BadGraph, match="matmul: 'a' is 3: expected a tensor"):
        matmul(builder, 3, tensor)  # type: ignore[arg-type] # the mistake
