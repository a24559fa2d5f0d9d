"""Results of elementwise operations that replace an operand which nothing reads any more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper
from tests.engine.operators.graphs import both, info, model_of

from tilescope.engine import Engine, compile_model, load_machine, load_onnx, resolve_options
from tilescope.engine.graph import Graph
from tilescope.engine.ir import IrBuilder, Model, Operator, Value
from tilescope.engine.lower import lower
from tilescope.engine.operators.elementwise.activation import NON_LINEARITY
from tilescope.engine.operators.elementwise.choice import SELECT
from tilescope.engine.operators.elementwise.elementwise import BINARY, UNARY
from tilescope.engine.operators.movement.layout import RESHAPE, TRANSPOSE
from tilescope.engine.operators.norm.softmax import LOG_SOFTMAX, SOFTMAX
from tilescope.engine.transform import transform

MACHINE = load_machine("gc200", tiles_per_ipu=4)
SHAPE = (4, 6)
X = np.linspace(-2, 2, 24, dtype=np.float32).reshape(SHAPE)
#: Makes a value of an operator, its operands and its attributes.
Emit = Callable[..., Value]
Outputs = Sequence[Value]


def _model(write: Callable[[Emit, Value], Outputs]) -> Model:
    """Return a model of one input; `write` emits its operations and returns its outputs."""
    builder = IrBuilder("model")
    names = iter(range(99))

    def emit(operator: Any, *operands: Value, **attributes: Any) -> Value:
        name = f"n{next(names)}"
        return builder.emit(operator, operands, name=name, source="Test", **attributes)

    outputs = write(emit, builder.input("x", SHAPE, "float32"))
    return builder.finish([(f"out{i}", value) for i, value in enumerate(outputs)])


def _steps(graph: Graph) -> list[str]:
    """Return the codelets of all vertices, in order, without their namespace."""
    return [b.codelet.name.split("::")[1] for c in graph.compute_sets for b in c.batches]


def _checked(model: Model) -> list[str]:
    """Run a model, compare its outputs with numpy's, and return the codelets of its vertices."""
    graph = lower(model, MACHINE).graph
    compiled = compile_model(model, MACHINE, is_checked=True)
    with Engine(compiled.executable, resolve_options(environ={})) as engine:
        actual = compiled.run(engine, {"x": X})
    arrays: dict[Value, Any] = {model.inputs[0]: X}
    for op in model.operations:
        assert op.operator.evaluate is not None
        results = op.operator.evaluate(op, [arrays[value] for value in op.operands])
        arrays |= dict(zip(op.results, results, strict=True))
    for name, value in model.outputs:
        np.testing.assert_allclose(actual[name], arrays[value], rtol=1e-5, atol=1e-6)
    return _steps(graph)


def test_a_chain_computes_in_one_variable() -> None:
    def write(emit: Emit, x: Value) -> Outputs:
        h = emit(UNARY, x, function="negate")
        return [emit(UNARY, emit(UNARY, h, function="exp"), function="tanh")]

    model = _model(write)
    assert _checked(model) == [
        "UnaryOp1D<negate>", "UnaryOp1DInPlace<exp>", "UnaryOp1DInPlace<tanh>",
    ]  # fmt: skip
    graph = lower(model, MACHINE).graph
    assert len(graph.variables) == 2, "the input, which the model does not own, and one more"


def test_an_operand_that_is_read_later_stays() -> None:
    def write(emit: Emit, x: Value) -> Outputs:
        h = emit(UNARY, x, function="exp")
        y = emit(UNARY, h, function="negate")
        return [emit(BINARY, h, y, function="add")]

    assert _checked(_model(write)) == [
        "UnaryOp1D<exp>", "UnaryOp1D<negate>", "BinaryOp1DInPlace<add>",
    ]  # fmt: skip


def test_a_view_of_the_operand_is_a_reader() -> None:
    def write(emit: Emit, x: Value) -> Outputs:
        h = emit(UNARY, x, function="exp")
        turned = emit(TRANSPOSE, h, order=(1, 0))
        y = emit(UNARY, h, function="negate")
        return [emit(UNARY, turned, function="tanh"), y]

    assert _checked(_model(write)) == [
        "UnaryOp1D<exp>", "UnaryOp1D<negate>", "UnaryOp1DInPlace<tanh>",
    ]  # fmt: skip


def test_an_output_of_the_model_stays() -> None:
    def write(emit: Emit, x: Value) -> Outputs:
        h = emit(UNARY, x, function="exp")
        return [h, emit(UNARY, h, function="negate")]

    assert _checked(_model(write)) == ["UnaryOp1D<exp>", "UnaryOp1D<negate>"]


@pytest.mark.parametrize(
    ("function", "codelet"),
    [("multiply", "BinaryOp1DInPlace"), ("subtract", "BinaryOp1D"), ("less", "BinaryOp1D")],
)
def test_the_second_operand_gives_way_if_the_order_does_not_matter(
    function: str, codelet: str
) -> None:
    def write(emit: Emit, x: Value) -> Outputs:
        return [emit(BINARY, x, emit(UNARY, x, function="exp"), function=function)]

    assert _checked(_model(write)) == ["UnaryOp1D<exp>", f"{codelet}<{function}>"]


@pytest.mark.parametrize(
    ("kind", "codelet"),
    [
        ("gelu", "NonLinearity1DInPlace<gelu>"),
        ("swish", "NonLinearity1DInPlace<swish>"),
        ("gelu_erf", "UnaryOp1DInPlace<gelu_erf>"),
        ("hard_swish", "Map1DInPlace<"),
    ],
)
def test_an_activation_replaces_its_operand(kind: str, codelet: str) -> None:
    def write(emit: Emit, x: Value) -> Outputs:
        h = emit(UNARY, x, function="exp")
        return [emit(NON_LINEARITY, h, kind=kind)]

    def write_and_keep(emit: Emit, x: Value) -> Outputs:
        h = emit(UNARY, x, function="exp")
        return [emit(NON_LINEARITY, h, kind=kind), h]

    first, second = _checked(_model(write))
    assert first == "UnaryOp1D<exp>"
    assert second.startswith(codelet)
    assert "InPlace" not in _checked(_model(write_and_keep))[1]


@pytest.mark.parametrize(("operator", "n_others"), [(SOFTMAX, 0), (LOG_SOFTMAX, 1)])
def test_a_softmax_replaces_its_operand(operator: Operator, n_others: int) -> None:
    """The logarithm also has a variable for the powers."""

    def write(emit: Emit, x: Value) -> Outputs:
        return [emit(operator, emit(UNARY, x, function="tanh"), axis=1)]

    model = _model(write)
    _checked(model)
    graph = lower(model, MACHINE).graph
    full = [v for v in graph.variables if v.n_elements == X.size and v.name != "x"]
    assert len(full) == 1 + n_others, "the hyperbolic tangent and the softmax share a variable"


def test_a_choice_replaces_its_first_operand() -> None:
    def write(emit: Emit, x: Value) -> Outputs:
        a, b = emit(UNARY, x, function="exp"), emit(UNARY, x, function="tanh")
        is_less = emit(BINARY, x, b, function="less")
        return [emit(SELECT, is_less, a, b), b]

    assert _checked(_model(write))[-1] == "SelectInPlace"


def test_a_choice_of_a_larger_shape_stays() -> None:
    def write(emit: Emit, x: Value) -> Outputs:
        a = emit(UNARY, x, function="exp")
        cube = emit(RESHAPE, emit(UNARY, x, function="tanh"), shape=(1, *SHAPE))
        is_less = emit(BINARY, x, x, function="less")
        return [emit(SELECT, is_less, a, cube)]

    assert _checked(_model(write))[-1] == "Select"


def test_an_operand_of_another_shape_stays() -> None:
    def write(emit: Emit, x: Value) -> Outputs:
        h = emit(UNARY, x, function="exp")
        cube = emit(RESHAPE, emit(UNARY, x, function="tanh"), shape=(1, *SHAPE))
        return [emit(BINARY, h, cube, function="subtract")]

    assert _checked(_model(write)) == [
        "UnaryOp1D<exp>", "UnaryOp1D<tanh>", "BinaryOp1D<subtract>",
    ]  # fmt: skip


def test_what_a_branch_or_a_round_captures_stays(tmp_path: Path) -> None:
    """A value from outside, which another round reads again."""
    body = helper.make_graph(
        [
            helper.make_node("Relu", ["outside"], ["r"], name="relu"),
            helper.make_node("Neg", ["r"], ["minus"], name="negate"),
            helper.make_node("Add", ["state", "minus"], ["next"], name="add"),
            helper.make_node("Exp", ["outside"], ["e"], name="exp"),
            helper.make_node("Add", ["next", "e"], ["last"], name="last"),
            helper.make_node("Identity", ["go"], ["on"], name="on"),
        ],
        "body",
        [info("i", [], TensorProto.INT64), info("go", [], TensorProto.BOOL), info("state", [4, 6])],
        [info("on", [], TensorProto.BOOL), info("last", [4, 6])],
    )
    nodes = [
        helper.make_node("Tanh", ["x"], ["outside"], name="tanh"),
        helper.make_node("Loop", ["n", "", "x"], ["y"], name="loop", body=body),
        helper.make_node("Abs", ["y"], ["size"], name="abs"),
        helper.make_node("Sqrt", ["size"], ["z"], name="sqrt"),
    ]
    model = model_of(nodes, [info("x", [4, 6])], [info("z", [4, 6])], {"n": np.array(3)})
    for actual, expected in both(model, tmp_path / "loop.onnx", {"x": X}):
        np.testing.assert_allclose(actual, expected, rtol=1e-5)
    onnx.save(model, tmp_path / "m.onnx")
    graph = lower(transform(load_onnx(tmp_path / "m.onnx")), MACHINE).graph
    steps = _steps(graph)
    assert "UnaryOp1D<relu>" in steps
    assert "UnaryOp1DInPlace<negate>" in steps
    assert "UnaryOp1D<exp>" in steps
    assert "UnaryOp1DInPlace<sqrt>" in steps


@given(st.data())
def test_any_graph_computes_what_numpy_does(data: st.DataObject) -> None:
    def write(emit: Emit, x: Value) -> Outputs:
        values = [x]
        for _ in range(data.draw(st.integers(1, 12))):
            a = data.draw(st.sampled_from(values))
            kind = data.draw(st.sampled_from(["unary", "binary", "binary", "view", "view"]))
            if kind == "unary":
                function = data.draw(st.sampled_from(["tanh", "negate", "relu", "absolute"]))
                values.append(emit(UNARY, a, function=function))
            elif kind == "binary":
                b = data.draw(st.sampled_from([v for v in values if v.shape == a.shape]))
                function = data.draw(st.sampled_from(["add", "subtract", "minimum"]))
                halved = emit(BINARY, a, b, function=function)
                values.append(emit(UNARY, halved, function="tanh"))
            elif data.draw(st.booleans()):
                values.append(emit(TRANSPOSE, a, order=(1, 0)))
            else:
                values.append(emit(RESHAPE, a, shape=(3, 8) if a.shape == SHAPE else SHAPE))
        outputs = data.draw(st.lists(st.sampled_from(values[1:]), min_size=1, unique=True))
        return outputs

    _checked(_model(write))
