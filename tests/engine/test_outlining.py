"""Outlining: repeated operations run one set of vertices, with equal results and less code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tilescope.engine.compiler.executable.executable import Executable
from tilescope.engine.graph import Graph
from tilescope.engine.ir import IrBuilder, Model, Parameter, Value
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.fill import fill
from tilescope.engine.library.popops.elementwise.map import map_in_place, operand
from tilescope.engine.machine import load_machine
from tilescope.engine.operators import OPERATORS
from tilescope.engine.options import resolve
from tilescope.engine.program import Repeat as ProgramRepeat
from tilescope.engine.program import Sequence as ProgramSequence
from tilescope.engine.session import outline as outlining
from tilescope.engine.session.compilation import compile_model
from tilescope.engine.session.compiled_model import CompiledModel
from tilescope.engine.session.engine import Engine
from tilescope.engine.session.repeats import Structures
from tilescope.engine.session.trainer import Trainer
from tilescope.engine.training import Loss, Sgd, for_training
from tilescope.engine.transform.split import split
from tilescope.engine.transform.stages import pipelined

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


def looped(n_rounds: int) -> Model:
    """Return a training of equal products, whose sums of gradients go from round to round."""
    random = np.random.default_rng(4)
    builder = IrBuilder("looped")
    x = builder.input("x", (8, N_CHANNELS), "float32")
    for i in range(6):
        w = random.standard_normal((N_CHANNELS, N_CHANNELS)).astype(np.float32) / 4
        weight = Parameter(f"w{i}", w.shape, "float32", w, is_trainable=True)
        x = builder.emit(OPERATORS["MatMul"], [x, weight], name=f"fc{i}", source="MatMul")
        x = builder.emit(OPERATORS["unary"], [x], name=f"tanh{i}", source="Tanh", function="tanh")
    model = builder.finish([("y", x)])
    return for_training(model, Loss(kind="mse"), Sgd(lr=0.1), n_rounds)


@pytest.mark.usefixtures("at_any_gain")
def test_rounds_of_a_loop_share_vertices_and_keep_what_they_leave_to_the_next() -> None:
    model = looped(3)
    random = np.random.default_rng(5)
    data = [random.standard_normal((3, 8, N_CHANNELS)).astype(np.float32) for _ in range(2)]
    inputs = {"x": data[0], "labels": data[1]}
    weights, executables = [], []
    for outlines in (True, False):
        trainer = Trainer(model, MACHINE, outlines=outlines)
        for _ in range(3):
            trainer.step(inputs)
        weights.append(trainer.weights())
        executables.append(trainer.compiled.executable)
    assert copies(executables[0])
    assert not copies(executables[1])
    for name, array in weights[1].items():
        assert np.array_equal(weights[0][name], array), name
    states = [e.memory.categories["vertexInstanceState"].sum() for e in executables]
    assert states[0] < states[1]


def test_a_loop_leaves_what_it_reads_first_and_what_it_writes_in_part() -> None:
    graph = Graph(MACHINE)
    whole, part, carried = (graph.add_variable("float32", (8,), name) for name in "wpc")
    for tensor in (whole, part, carried):
        graph.map_linearly(tensor)
    body = ProgramSequence()
    builder = Builder(graph, body)
    fill(builder, whole, 1.0)
    fill(builder, part.slice(0, 0, 4), 2.0)
    map_in_place(builder, operand(0) + operand(1), [carried, whole])
    program = ProgramSequence(children=[ProgramRepeat(3, body)])
    begin, *inside, end = Structures().leaves(program)
    assert begin is end
    assert set(begin.variables) == {part.variable, carried.variable}
    assert len(inside) == 3


@pytest.mark.usefixtures("at_any_gain")
def test_stages_of_a_pipeline_share_vertices_within_themselves() -> None:
    """What a stage leaves to another one, or to itself in the next cycle, is as without."""
    model = residual(6)
    stages = {op.name: i // -(-len(model.operations) // 2) for i, op in enumerate(model.operations)}
    piped = pipelined(split(model, {}, stages), 5)
    machine = load_machine("gc200", n_ipus=2, tiles_per_ipu=16)
    made = [compile_model(piped, machine, outlines=outlines) for outlines in (False, True)]
    categories = [one.executable.memory.categories for one in made]
    states = [found["vertexInstanceState"].sum() for found in categories]
    assert states[1] < states[0]
    rng = np.random.default_rng(0)
    (value,) = piped.inputs
    x = rng.standard_normal((5, *value.shape)).astype(value.dtype)
    runs = []
    for one in made:
        with Engine(one.executable) as engine:
            runs.append([one.run(engine, {value.name: x}) for _ in range(2)])
    for plain, outlined in zip(*runs, strict=True):
        for name, array in plain.items():
            np.testing.assert_array_equal(outlined[name], array)
