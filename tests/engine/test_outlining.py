"""Outlining: repeated operations run one set of vertices, with equal results and less code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tilescope.engine.compiler.executable.executable import Executable
from tilescope.engine.ir import IrBuilder, Model, Value
from tilescope.engine.machine import load_machine
from tilescope.engine.operators import OPERATORS
from tilescope.engine.options import resolve
from tilescope.engine.session import outline as outlining
from tilescope.engine.session.compilation import compile_model
from tilescope.engine.session.compiled_model import CompiledModel
from tilescope.engine.session.engine import Engine

MACHINE = load_machine("c600", tiles_per_ipu=24)
N_CHANNELS, SIZE = 16, 12


@pytest.fixture
def at_any_gain(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Outline whatever is repeated, however little it gains."""
    monkeypatch.setattr(outlining, "_LEAST_BYTES", 0)
    monkeypatch.setattr(outlining, "_MOST_CYCLES", np.inf)
    return iter([None])


def convolved(builder: IrBuilder, x: Value, weights: np.ndarray, name: str) -> Value:
    pad = (weights.shape[2] // 2,) * 2
    (built,) = [
        builder.emit(
            OPERATORS["convolution"], [x, builder.constant(weights, f"{name}_w")], name=name,
            source="Conv", kernel=weights.shape[2:], stride=(1, 1), dilation=(1, 1),
            padding_before=pad, padding_after=pad, groups=1,
        )
    ]  # fmt: skip
    return built


def residual(n_blocks: int, dtype: str = "float32", *, keeps: bool = False) -> Model:
    """Return blocks of two convolutions with a bias, relu and the input added.

    With ``keeps``, the results of all blocks are outputs.
    """
    random = np.random.default_rng(1)
    builder = IrBuilder("residual")
    x = builder.input("x", (1, N_CHANNELS, SIZE, SIZE), dtype)
    outputs = []
    for i in range(n_blocks):
        weights = random.standard_normal((2, N_CHANNELS, N_CHANNELS, 3, 3)) / 12
        y = convolved(builder, x, weights[0].astype(dtype), f"block{i}/first")
        bias = builder.constant(
            random.standard_normal((1, N_CHANNELS, 1, 1)).astype(dtype), f"b{i}"
        )
        y = builder.emit(
            OPERATORS["binary"], [y, bias], name=f"block{i}/bias", source="Add", function="add"
        )
        y = builder.emit(
            OPERATORS["unary"], [y], name=f"block{i}/relu", source="Relu", function="relu"
        )
        y = convolved(builder, y, weights[1].astype(dtype), f"block{i}/second")
        x = builder.emit(
            OPERATORS["binary"], [y, x], name=f"block{i}/add", source="Add", function="add"
        )
        outputs.append((f"y{i}", x))
    return builder.finish(outputs if keeps else outputs[-1:])


def compiled(model: Model, **options: Any) -> CompiledModel:
    return compile_model(model, MACHINE, is_checked=True, **options)


def results(made: CompiledModel) -> dict[str, np.ndarray]:
    with Engine(made.executable, resolve(environ={})) as engine:
        return made.run(engine, made.random_inputs(2))


def copies(executable: Executable) -> list[str]:
    return [step.name for step in executable.steps if "/outline" in step.name]


@pytest.mark.usefixtures("at_any_gain")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("keeps", [False, True])
def test_results_are_the_same_to_the_bit(dtype: str, keeps: bool) -> None:
    model = residual(4, dtype, keeps=keeps)
    outlined, plain = compiled(model), compiled(model, outlines=False)
    assert copies(outlined.executable)
    assert not copies(plain.executable)
    actual, expected = results(outlined), results(plain)
    assert actual.keys() == expected.keys()
    for name, array in expected.items():
        assert np.isfinite(array).all()
        assert np.array_equal(actual[name], array)


@pytest.mark.usefixtures("at_any_gain")
def test_code_vertices_and_buffers_exist_once() -> None:
    small, large = (compiled(residual(n)).executable for n in (4, 8))
    for category in ("internalExchangeCode", "vertexInstanceState"):
        few, many = (e.memory.categories[category].sum() for e in (small, large))
        plain = compiled(residual(8), outlines=False).executable.memory.categories[category].sum()
        assert few < many < plain
    assert len(small.memory.message_names) <= len(large.memory.message_names)


@pytest.mark.usefixtures("at_any_gain")
def test_every_call_keeps_its_steps_names_and_plans() -> None:
    model = residual(4)
    outlined, plain = (compiled(model, outlines=on).executable for on in (True, False))

    def told(executable: Executable) -> list[tuple[str, str]]:
        return [(s.kind, s.name) for s in executable.steps if "/outline" not in s.name]

    assert told(outlined) == told(plain)
    of_plans = [
        {step.plan_stage.plan_id for step in executable.steps if step.plan_stage is not None}
        for executable in (outlined, plain)
    ]
    assert of_plans[0] == of_plans[1]
    assert len(of_plans[0]) == 8


@pytest.mark.usefixtures("at_any_gain")
def test_state_between_runs_is_unchanged() -> None:
    """No variable is live before it is written, so that it would be kept between runs."""
    memory = compiled(residual(4)).executable
    for variable in memory.graph.variables:
        is_kept = memory.memory.is_always_live[variable.variable_id]
        assert is_kept == (variable.category == "constant"), variable.name


def test_small_operations_are_not_worth_it() -> None:
    """A call has to save 128 bytes of a tile: convolutions do, Relu and sums alone do not."""
    assert copies(compiled(residual(2)).executable)
    builder = IrBuilder("chain")
    x = builder.input("x", (1, N_CHANNELS, SIZE, SIZE), "float32")
    for i in range(4):
        bias = np.full((1, N_CHANNELS, 1, 1), i, np.float32)
        operands = [x, builder.constant(bias, f"b{i}")]
        x = builder.emit(
            OPERATORS["binary"], operands, name=f"sum{i}", source="Add", function="add"
        )
        x = builder.emit(OPERATORS["unary"], [x], name=f"relu{i}", source="Relu", function="relu")
    assert not copies(compiled(builder.finish([("y", x)])).executable)


@pytest.mark.usefixtures("at_any_gain")
def test_compilations_are_deterministic() -> None:
    first, second = (compiled(residual(4)).executable for _ in range(2))
    assert [step.name for step in first.steps] == [step.name for step in second.steps]
    assert np.array_equal(first.memory.parts.offset, second.memory.parts.offset)
