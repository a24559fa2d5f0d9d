"""Calls of subgraphs, printing and aborts, as PopART's builder writes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.engine.operators.graphcore import (
    DOMAIN,
    MACHINE,
    Case,
    drawn,
    gradient_of,
    node_of,
    results_of,
    saved,
)
from tests.engine.operators.graphs import info

from tilescope.engine import Engine, compile_model, load_onnx, resolve_options
from tilescope.engine.errors import BadModel, ProgramError
from tilescope.engine.training import Loss, Sgd, for_training
from tilescope.engine.transform import transform

X, W = drawn((2, 3)), drawn((3, 3), 1)


def _callee(n_inputs: int = 2) -> onnx.GraphProto:
    """Return a graph of x · w + one, where one is from outside."""
    nodes = [
        helper.make_node("MatMul", ["a", "b"], ["p"], name="product"),
        helper.make_node("Add", ["p", "one"], ["q"], name="sum"),
    ]
    inputs = [info("a", X.shape), info("b", W.shape)][:n_inputs]
    return helper.make_graph(nodes, "callee", inputs, [info("q", X.shape)])


def _calls() -> list[onnx.NodeProto]:
    return [
        node_of("Call", ["x", "w"], ["first"], callee=_callee(), num_outputs=1),
        helper.make_node(
            "Call", ["first", "w"], ["y"], name="second", domain="ai.graphcore", callee=_callee()
        ),
    ]


def test_a_subgraph_is_called_twice(tmp_path: Path) -> None:
    path = tmp_path / "call.onnx"
    saved(_calls(), {"x": X}, [info("y", X.shape)], {"w": W, "one": np.ones(1, "f4")}, path)
    model = load_onnx(path)
    compiled = compile_model(model, MACHINE, is_checked=True)
    with Engine(compiled.executable, resolve_options(environ={})) as engine:
        (y,) = compiled.run(engine, {"x": X}).values()
    np.testing.assert_allclose(y, (X @ W + 1) @ W + 1, 1e-5)
    names = {step.name.split("/")[0] for step in compiled.executable.steps}
    assert {"call", "second"} <= names


def test_gradients_flow_through_a_call(tmp_path: Path) -> None:
    nodes = [*_calls(), node_of("IdentityLoss", ["y"], ["loss"], reduction="Sum")]
    parameters = {"w": W, "x": X, "one": np.ones(1, np.float32)}
    gradients = gradient_of(nodes, parameters, tmp_path)
    ones = np.ones_like(X)
    np.testing.assert_allclose(gradients["x"], ones @ W.T @ W.T, 1e-5)
    of_w = (X @ W + 1).T @ ones + X.T @ (ones @ W.T)
    np.testing.assert_allclose(gradients["w"], of_w, 1e-4, 1e-5)


def test_a_call_with_another_number_of_values_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "call.onnx"
    call = node_of("Call", ["x"], ["y"], callee=_callee())
    saved([call], {"x": X}, [info("y", X.shape)], {"w": W, "one": np.ones(1, "f4")}, path)
    with pytest.raises(BadModel, match="its subgraph takes 2 values, and the node gives 1"):
        load_onnx(path)


def test_the_results_of_a_call_have_gradients(tmp_path: Path) -> None:
    nodes = [*_calls(), node_of("IdentityLoss", ["y"], ["loss"], reduction="Sum")]
    path = tmp_path / "loss.onnx"
    parameters = {"w": W, "one": np.ones(1, np.float32)}
    saved(nodes, {"x": X}, [info("loss", ())], parameters, path)
    model = for_training(
        load_onnx(path, trainable=["w"]),
        Loss(kind="identity", reduction="sum"),
        Sgd(lr=0.0),
        anchors=["first", "y"],
    )
    outputs = {name for name, _ in transform(model).outputs}
    assert {"Gradient___first", "Gradient___y"} <= outputs


@pytest.mark.parametrize("is_known", [False, True])
def test_a_tensor_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], is_known: bool
) -> None:
    case = Case("PrintTensor", [X[0]], lambda x: x, {"title": "weights", "print_gradient": 0})
    (actual,) = results_of(case, tmp_path / "print.onnx", [0] if is_known else [])
    np.testing.assert_array_equal(actual, X[0])
    printed = capsys.readouterr()
    assert (printed.out + printed.err).count("weights") == 1


def test_a_gradient_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [
        node_of("PrintTensor", ["x"], ["p"], title="weights"),
        node_of("IdentityLoss", ["p"], ["loss"], reduction="Sum"),
    ]
    gradients = gradient_of(nodes, {"x": X}, tmp_path)
    np.testing.assert_array_equal(gradients["x"], np.ones_like(X))
    printed = capsys.readouterr()
    assert (printed.out + printed.err).count("weights_gradient") == 1


@pytest.mark.parametrize(
    ("condition", "aborts"),
    [
        (None, True),
        (np.zeros(1, np.float32), False),
        (np.full(1, 2, np.float32), True),
        (np.zeros((), np.int32), False),
        (np.ones((), np.int32), True),
        (np.ones((1, 1), bool), True),
    ],
)
@pytest.mark.parametrize("is_known", [False, True])
def test_a_program_ends_where_it_says(
    tmp_path: Path, condition: np.ndarray | None, aborts: bool, is_known: bool
) -> None:
    inputs = {"x": X} | ({} if condition is None or is_known else {"stop": condition})
    weights = {"stop": condition} if condition is not None and is_known else {}
    nodes = [
        helper.make_node("Abs", ["x"], ["y"]),
        helper.make_node("Abort", [] if condition is None else ["stop"], [], domain=DOMAIN),
    ]
    path = tmp_path / "abort.onnx"
    saved(nodes, inputs, [info("y", X.shape)], weights, path)
    compiled = compile_model(load_onnx(path), MACHINE, is_checked=True)
    with Engine(compiled.executable, resolve_options(environ={})) as session:
        if aborts:
            with pytest.raises(ProgramError, match=r"^Abort Program$"):
                compiled.run(session, inputs)
        else:
            np.testing.assert_array_equal(compiled.run(session, inputs)["y"], np.abs(X))


def test_a_condition_of_several_elements_ends_no_program(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Abs", ["x"], ["y"]),
        helper.make_node("Abort", ["y"], [], domain=DOMAIN),
    ]
    saved(nodes, {"x": X}, [info("y", X.shape)], {}, tmp_path / "abort.onnx")
    with pytest.raises(BadModel, match=r"its condition 'y' has shape .*: expected one element"):
        load_onnx(tmp_path / "abort.onnx")
