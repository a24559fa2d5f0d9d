"""Operators of a user's own: registered, used in models, differentiated, stored, refused."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilescope import engine
from tilescope.analyser.program.compute_sets import codelets
from tilescope.analyser.program.operations import operations
from tilescope.engine import (
    Engine,
    Loss,
    Sgd,
    Trainer,
    check_operator,
    compile_model,
    custom_operator,
    for_training,
    load_machine,
    load_onnx,
    load_operators,
    map_codelet,
    operator,
    resolve_options,
)
from tilescope.engine.errors import BadGraph, BadInput, BadModel, UnsupportedOperators
from tilescope.engine.frontend.onnx.onnx_file import OnnxFile
from tilescope.engine.frontend.source_model import Setup
from tilescope.engine.ir.registered import REGISTERED
from tilescope.engine.program import Sequence
from tilescope.engine.session.source_compilation import compile_source
from tilescope.main import main
from tilescope.reports import open_report

EXAMPLE = Path(__file__).parents[3] / "examples/custom_operators.py"
X = np.linspace(-2, 2, 300, dtype=np.float32).reshape(3, 100)


@pytest.fixture(autouse=True)
def _no_operators_of_other_tests() -> Iterator[None]:
    before, modules = dict(REGISTERED), set(sys.modules)
    REGISTERED.clear()
    yield
    REGISTERED.clear()
    REGISTERED.update(before)
    for name in set(sys.modules) - modules:
        if name.startswith(("custom_operators", "ops_", "operators_")):
            del sys.modules[name]


def save(
    path: Path, op_type: str, inputs: list[str], *, domain: str = "custom.ops", opset: int = 1,
    weights: dict[str, Any] | None = None, nodes: list[Any] | None = None, **attributes: Any,
) -> Path:  # fmt: skip
    """Save a model of one node ``node`` on inputs of X's shape."""
    node = helper.make_node(op_type, inputs, ["y"], name="node", domain=domain, **attributes)
    kept = weights or {}
    info = helper.make_tensor_value_info
    made = {name for other in nodes or [] for name in other.output}
    graph = helper.make_graph(
        [*(nodes or []), node],
        "custom",
        [info("x", TensorProto.FLOAT, X.shape)],
        [info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in kept.items()],
    )
    assert made <= {*inputs, "y"}
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, opset)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return path


def run(path: Path, **options: Any) -> np.ndarray:
    compiled = compile_model(
        load_onnx(path), load_machine("gc200", tiles_per_ipu=8), is_checked=True, **options
    )
    with Engine(compiled.executable, resolve_options(environ={})) as session:
        return np.asarray(compiled.run(session, {"x": X})["y"])


def cube(node: Any, into: Any) -> Any:
    x = node.operand(0)
    return into.emit(operator("Mul"), into.emit(operator("Mul"), x, x), x)


def same(node: Any) -> Any:
    return [(node.operand(0).shape, node.operand(0).dtype)]


def test_the_example_runs_as_a_model(tmp_path: Path) -> None:
    load_operators(EXAMPLE)
    path = save(tmp_path / "cube.onnx", "Cube", ["x"])
    np.testing.assert_allclose(run(path), X**3, rtol=1e-6)
    path = save(tmp_path / "leaky.onnx", "LeakyRelu", ["x"], alpha=0.25)
    np.testing.assert_array_equal(run(path), np.where(X > 0, X, np.float32(0.25) * X))
    path = save(tmp_path / "default.onnx", "LeakyRelu", ["x"])
    np.testing.assert_array_equal(run(path), np.where(X > 0, X, np.float32(0.01) * X))


@pytest.mark.parametrize(("op_type", "slope"), [("Cube", None), ("LeakyRelu", 0.5)])
def test_gradients_train_a_weight(tmp_path: Path, op_type: str, slope: float | None) -> None:
    load_operators(EXAMPLE)
    weights = {"w": np.array([[0.7], [-0.3], [0.4]], np.float32)}
    product = helper.make_node("Mul", ["x", "w"], ["p"], name="scale")
    attributes: dict[str, Any] = {} if slope is None else {"alpha": slope}
    path = save(tmp_path / "t.onnx", op_type, ["p"], weights=weights, nodes=[product], **attributes)
    model = for_training(
        load_onnx(path, trainable=["w"]), Loss(kind="mse", output="y"), Sgd(lr=0.1)
    )
    with Trainer(model, load_machine("gc200", tiles_per_ipu=8)) as trainer:
        trainer.step({"x": X, "labels": np.zeros_like(X)})
        (trained,) = trainer.weights().values()
    p = X * weights["w"]
    if slope is None:
        y, of_product = p**3, 3 * p**2
    else:
        of_product = np.where(p > 0, 1, slope)
        y = of_product * p
    gradient = (2 * y / y.size * of_product * X).sum(1, keepdims=True)
    np.testing.assert_allclose(trained, weights["w"] - 0.1 * gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("place", ["graph", "branch"])
def test_a_decomposed_operator_may_have_a_gradient_of_its_own(tmp_path: Path, place: str) -> None:
    """A step whose gradient is that of the identity; the gradient uses such an operator, too."""

    def passed(node: Any, into: Any) -> Any:
        return into.emit(operator("Identity"), node.operand(0))

    def zeros(_op: Any, _into: Any, gradients: Any) -> Any:
        return [gradients[0]]

    through = custom_operator("Through", domain="my", decompose=passed, gradient=zeros)

    def ceil(node: Any, into: Any) -> Any:
        return into.emit(operator("Ceil"), node.operand(0))

    def straight(_op: Any, into: Any, gradients: Any) -> Any:
        return [into.emit(through, gradients[0])]

    custom_operator("Step", domain="my", decompose=ceil, gradient=straight)
    product = helper.make_node("Mul", ["x", "w"], ["p"], name="scale")
    weights = {"w": np.array([[0.7], [-0.3], [0.4]], np.float32)}
    path = save(tmp_path / "s.onnx", "Step", ["p"], domain="my", nodes=[product], weights=weights)
    if place == "branch":
        proto = onnx.load(path)
        (step,) = [node for node in proto.graph.node if node.op_type == "Step"]
        inner = onnx.NodeProto()
        inner.CopyFrom(step)
        inner.output[0] = "inner"
        info = helper.make_tensor_value_info
        bodies = {
            f"{side}_branch": helper.make_graph(
                [inner], side, [], [info("inner", TensorProto.FLOAT, X.shape)]
            )
            for side in ("then", "else")
        }
        step.CopyFrom(helper.make_node("If", ["positive"], ["y"], name="decide", **bodies))
        sum_ = helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0)
        zero = helper.make_node("Sub", ["total", "total"], ["zero"])
        less = helper.make_node("Less", ["zero", "total"], ["positive"])
        others = [*proto.graph.node]
        del proto.graph.node[:]
        proto.graph.node.extend([sum_, zero, less, *others])
        onnx.save(proto, path)
    model = for_training(
        load_onnx(path, trainable=["w"]), Loss(kind="mse", output="y"), Sgd(lr=0.1)
    )
    with Trainer(model, load_machine("gc200", tiles_per_ipu=8)) as trainer:
        trainer.step({"x": X, "labels": np.zeros_like(X)})
        (trained,) = trainer.weights().values()
    gradient = (2 * np.ceil(X * weights["w"]) / X.size * X).sum(1, keepdims=True)
    np.testing.assert_allclose(trained, weights["w"] - 0.1 * gradient, rtol=1e-5)


def test_two_results_lists_and_optional_inputs(tmp_path: Path) -> None:
    def halves(node: Any, into: Any) -> Any:
        x = node.operand(0)
        return [into.emit(operator("Relu"), x), into.emit(operator("Neg"), x)]

    custom_operator("Halves", domain="my", n_inputs=(1, 2), n_outputs=2, decompose=halves)
    node = helper.make_node("Halves", ["x"], ["a", "b"], name="node", domain="my")
    path = save(tmp_path / "two.onnx", "Add", ["a", "b"], domain="", opset=17, nodes=[node])
    model = onnx.load(path)
    model.opset_import.append(helper.make_opsetid("my", 1))
    onnx.save(model, path)
    np.testing.assert_allclose(run(path), np.maximum(X, 0) - X, rtol=1e-6)


def test_versions_choose_what_a_node_is(tmp_path: Path) -> None:
    def scaled(node: Any, into: Any) -> Any:
        factor = into.constant(np.float32(node.version), "factor")
        return into.emit(operator("Mul"), node.operand(0), factor)

    custom_operator("Scaled", domain="my", versions=(2, 5), decompose=scaled)
    for opset, version in ((2, 2), (4, 2), (5, 5), (9, 5)):
        path = save(tmp_path / f"{opset}.onnx", "Scaled", ["x"], domain="my", opset=opset)
        np.testing.assert_allclose(run(path), version * X, rtol=1e-6)
    path = save(tmp_path / "1.onnx", "Scaled", ["x"], domain="my", opset=1)
    with pytest.raises(BadModel, match=r"'my\.Scaled' is not in version 1 of its domain"):
        load_onnx(path)


def test_a_node_whose_operands_are_known_is_folded(tmp_path: Path) -> None:
    module = load_operators(EXAMPLE)
    weights = {"w": X}
    path = save(tmp_path / "known.onnx", "LeakyRelu", ["w"], weights=weights)
    assert not load_onnx(path).operations
    assert module.LEAKY_RELU is operator("custom.ops.LeakyRelu")


def test_several_ipus_and_the_report(tmp_path: Path) -> None:
    load_operators(EXAMPLE)
    first = helper.make_node("LeakyRelu", ["x"], ["p"], name="first", domain="custom.ops")
    first.attribute.append(helper.make_attribute("__ipu_number", 0))
    path = save(tmp_path / "m.onnx", "LeakyRelu", ["p"], nodes=[first], __ipu_number=1)
    machine = load_machine("gc200", n_ipus=2, tiles_per_ipu=4)
    compiled = compile_model(load_onnx(path), machine)
    options = resolve_options(
        code={"autoReport.all": True, "autoReport.directory": str(tmp_path)}, environ={}
    )
    with Engine(compiled.executable, options) as session:
        y = compiled.run(session, {"x": X})["y"]
    np.testing.assert_allclose(y, np.where(X > 0, X, np.float32(1e-4) * X), rtol=1e-5)
    with open_report(tmp_path / "profile.pop") as report:
        kinds = {operation.operation for operation in operations(report, "model").operations}
        assert "custom.ops.LeakyRelu" in kinds
        assert "leaky_relu" in {codelet.name for codelet in codelets(report).values()}


@pytest.mark.parametrize("command", [["run", "--tiles", "8"], ["models", "check"]])
def test_the_command_line_takes_files_of_operators(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    path = save(tmp_path / "m.onnx", "LeakyRelu", ["x"])
    assert main([*command, str(path)]) != 0
    assert "custom.ops.LeakyRelu" in "".join(capsys.readouterr())
    assert main([*command, str(path), "--operators", str(EXAMPLE)]) == 0
    capsys.readouterr()
    assert main([*command, str(path), "--operators", "gone.py"]) == 2
    assert "gone.py does not exist" in capsys.readouterr().err.replace("\n", " ")


OPS = """
from tilescope import engine
import {other}

def law(batch, _):
    return 9 + batch.size["x"][:, 0]

@engine.codelet(engine.Field("x", "in"), engine.Field("out", "out"), law=law, code_bytes=40)
def scaled(x, out):
    for i in range(out.size):
        out[i] = {factor} * x[i]

def infer(node):
    return [(node.operand(0).shape, node.operand(0).dtype)]

def lower(at, op):
    x = at.tensor(op.operand(0))
    return engine.map_codelet(at.builder, scaled, [x], scalars={other}.scalars())

engine.custom_operator("Scaled", domain="my", infer=infer, lower=lower)
"""


def _stored(tmp_path: Path) -> tuple[float, str]:
    """Run a model with an operator of a file; return the factor, and how the program was found."""
    REGISTERED.clear()
    for name in ("ops_scaled", "ops_beside"):
        sys.modules.pop(name, None)
    importlib.invalidate_caches()
    load_operators(tmp_path / "ops_scaled.py")
    path = tmp_path / "stored.onnx"
    if not path.exists():
        save(path, "Scaled", ["x"], domain="my")
    options = resolve_options(
        code={"enableEngineCaching": True, "cachePath": str(tmp_path / "cache")}, environ={}
    )
    machine = load_machine("gc200", tiles_per_ipu=8)
    program = compile_source(OnnxFile(path), machine, options=options, setup=Setup())
    with Engine(program.compiled.executable, resolve_options(environ={})) as session:
        y = program.compiled.run(session, {"x": X})["y"]
    return float(y[0, 0] / X[0, 0]), program.compiled.executable.record.cache


def test_a_changed_operator_is_never_taken_from_a_cache(tmp_path: Path) -> None:
    ops, beside = tmp_path / "ops_scaled.py", tmp_path / "ops_beside.py"
    beside.write_text("def scalars():\n    return {}\n")
    ops.write_text(OPS.format(other="ops_beside", factor="2"))
    assert _stored(tmp_path) == (2.0, "miss")
    assert _stored(tmp_path) == (2.0, "hit")
    ops.write_text(OPS.format(other="ops_beside", factor="30"))
    assert _stored(tmp_path) == (30.0, "miss")
    assert _stored(tmp_path) == (30.0, "hit")
    beside.write_text("def scalars():\n    return dict()\n")
    assert _stored(tmp_path) == (30.0, "miss")


def test_codelets_with_several_results_and_broadcast_operands() -> None:
    @engine.codelet(
        engine.Field("a", "in"),
        engine.Field("b", "in"),
        engine.Field("total", "out"),
        engine.Field("least", "out"),
        law=lambda batch, _: 9 + 3 * batch.size["a"][:, 0],
        code_bytes=60,
    )
    def both(a: Any, b: Any, total: Any, least: Any) -> None:
        for i in range(a.size):
            total[i] = a[i] + b[i]
            least[i] = min(a[i], b[i])

    def infer(node: Any) -> Any:
        shape = np.broadcast_shapes(node.operand(0).shape, node.operand(1).shape)
        return [(shape, "float32")] * 2

    record = custom_operator(
        "Both", domain="my", n_inputs=2, n_outputs=2, infer=infer,
        lower=lambda at, op: map_codelet(at.builder, both, [*map(at.tensor, op.operands)]),
        evaluate=lambda _, arrays: (arrays[0] + arrays[1], np.minimum(*arrays)),
    )  # fmt: skip
    row = np.linspace(1, -1, 100, dtype=np.float32)
    check_operator(record, [X, row], n_outputs=2)
    check_operator(record, [X[:, :1], row], n_outputs=2)
    check_operator(record, [X.T.copy().T, X[:1]], n_outputs=2)


def test_the_check_finds_a_difference() -> None:
    record = custom_operator(
        "Cube", domain="my", decompose=cube, evaluate=lambda _, arrays: arrays[0] ** 2
    )
    with pytest.raises(AssertionError, match=r"output 0 of my\.Cube"):
        check_operator(record, [X])


def register(**changes: Any) -> None:
    parts: dict[str, Any] = {"domain": "my", "decompose": cube} | changes
    custom_operator("Own", **parts)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"domain": ""}, "domain '' is ONNX's own; choose one of yours"),
    ({"domain": "ai.onnx"}, "domain 'ai.onnx' is ONNX's own"),
    ({"domain": "ai.graphcore"}, "is PopART's own"),
    ({"domain": "tilescope"}, "is the engine's own"),
    ({"domain": 3}, "expected strings"),
    ({"versions": ()}, "versions are integers from 1"),
    ({"versions": (0,)}, "versions are integers from 1"),
    ({"n_inputs": -1}, "n_inputs is -1: expected a number, or the least and the most"),
    ({"n_outputs": (3, 1)}, "n_outputs is"),
    ({"decompose": None}, "state how it is computed"),
    ({"infer": same, "lower": same}, "state how it is computed"),
    ({"decompose": None, "lower": same}, "lower and infer go together"),
    ({"decompose": 7}, "decompose is 7: expected a function"),
]


@pytest.mark.parametrize(("changes", "reason"), REFUSED)
def test_refused_registrations(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadModel, match=re.escape(reason)):
        register(**changes)
    assert not REGISTERED


def test_a_name_has_one_definition() -> None:
    register()
    register()
    with pytest.raises(BadModel, match=r"'my\.Own' is registered already, with another definition"):
        register(decompose=lambda node, into: into.emit(operator("Relu"), node.operand(0)))
    engine.forget_operator("my.Own")
    register(decompose=lambda node, into: into.emit(operator("Relu"), node.operand(0)))
    with pytest.raises(
        BadModel, match=r"'my\.Other' is not registered; registered operators: my\.Own"
    ):
        engine.forget_operator("my.Other")


def _fails(*_: Any) -> Any:
    raise ZeroDivisionError("no idea")


LINE = _fails.__code__.co_firstlineno + 1
AT = f"failed at test_custom_operators.py, line {LINE}: ZeroDivisionError: no idea"
USES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"n_inputs": 2}, {}, "Node 'node' (my.Own): my.Own takes 2 inputs, got 1"),
    ({"n_inputs": (2, None)}, {}, "my.Own takes 2 or more inputs, got 1"),
    ({}, {"alpha": 1.0}, "unknown attribute 'alpha' of my.Own: it has none"),
    ({"attributes": {"alpha": float}}, {}, "attribute 'alpha' of my.Own is missing"),
    ({"attributes": {"alpha": 1}}, {"alpha": 0.5}, "attribute 'alpha' must be a int, got 0.5"),
    ({"decompose": _fails}, {}, f"decompose of my.Own {AT}"),
    (
        {"decompose": lambda _node, _into: 3},
        {},
        "decompose of my.Own returned (3,): expected a value",
    ),
    ({"infer": _fails}, {}, f"infer of my.Own {AT}"),
    ({"infer": lambda _: 7}, {}, "infer of my.Own returned 7: expected a shape and a type"),
    ({"infer": lambda _: [((2, -1), "float32")]}, {}, "infer of my.Own returned"),
    ({"infer": lambda _: [((2, 1), "float33")]}, {}, "infer of my.Own returned"),
    ({"lower": _fails}, {}, f"Node 'node' (my.Own): lower of my.Own {AT}"),
    ({"lower": lambda _at, _op: None}, {}, "lower of my.Own returned (None,): expected a tensor"),
    (
        {"infer": lambda _: [((7,), "float32")]},
        {},
        "lower of my.Own returned a tensor float32[3, 100], and infer states float32[7]",
    ),
]


@pytest.mark.parametrize(("parts", "attributes", "reason"), USES)
def test_refused_uses(
    tmp_path: Path, parts: dict[str, Any], attributes: dict[str, Any], reason: str
) -> None:
    lowered: dict[str, Any] = {
        "decompose": None, "infer": same, "lower": lambda at, op: at.tensor(op.operand(0)),
    }  # fmt: skip
    register(**((lowered if {"infer", "lower"} & {*parts} else {}) | parts))
    path = save(tmp_path / "m.onnx", "Own", ["x"], domain="my", **attributes)
    with pytest.raises(BadModel, match=re.escape(reason)):
        run(path)


def test_no_gradient_on_a_needed_path(tmp_path: Path) -> None:
    register(decompose=None, infer=same, lower=lambda at, op: at.tensor(op.operand(0)))
    product = helper.make_node("Mul", ["x", "w"], ["p"], name="scale")
    path = save(tmp_path / "m.onnx", "Own", ["p"], domain="my", nodes=[product], weights={"w": X})
    model = for_training(
        load_onnx(path, trainable=["w"]), Loss(kind="mse", output="y"), Sgd(lr=0.1)
    )
    with pytest.raises(UnsupportedOperators, match=r"'my.Own' has no gradient: .*no gradient"):
        compile_model(model, load_machine("gc200", tiles_per_ipu=8))


def test_a_gradient_that_returns_too_few(tmp_path: Path) -> None:
    register(gradient=lambda _op, _into, _gradients: [])
    product = helper.make_node("Mul", ["x", "w"], ["p"], name="scale")
    path = save(tmp_path / "m.onnx", "Own", ["p"], domain="my", nodes=[product], weights={"w": X})
    model = for_training(
        load_onnx(path, trainable=["w"]), Loss(kind="mse", output="y"), Sgd(lr=0.1)
    )
    with pytest.raises(BadModel, match=r"gradient of my.Own returned \(\): expected a value"):
        compile_model(model, load_machine("gc200", tiles_per_ipu=8))


def test_an_unknown_operator_is_refused_with_how_to_register_it(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", "Missing", ["x"], domain="my")
    with pytest.raises(UnsupportedOperators, match=r"other domains \(my\).*engine.custom_operator"):
        load_onnx(path)
    path = save(tmp_path / "m.onnx", "Missing", ["x"], domain="ai.graphcore")
    with pytest.raises(UnsupportedOperators) as refused:
        load_onnx(path)
    assert "custom_operator" not in str(refused.value)
    with pytest.raises(UnsupportedOperators, match=r"'my\.Missing' is not supported"):
        operator("my.Missing")


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("ops_gone.py", None, "does not exist"),
        (
            "ops_lib.so",
            "",
            "is a custom operator in C++, which is not supported: write it in Python",
        ),
        (
            "ops_bad.py",
            "x = 1\ny = z\n",
            "ops_bad.py failed: NameError: name 'z' is not defined (line 2)",
        ),
        ("ops_syntax.py", "x = (\n", "ops_syntax.py failed: SyntaxError"),
    ],
)
def test_refused_files(tmp_path: Path, name: str, text: str | None, reason: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(BadInput, match=re.escape(reason)):
        load_operators(tmp_path / name)
    assert name.removesuffix(".py") not in sys.modules


def test_elementwise_codelets_are_checked() -> None:
    @engine.codelet(
        engine.Field("x", "in", 2, kind="view"), engine.Field("out", "out"),
        law=lambda batch, _: batch.size["out"][:, 0], code_bytes=8,
    )  # fmt: skip
    def viewed(x: Any, out: Any) -> None:
        out[0] = x[0, 0]

    graph = engine.Graph(load_machine("gc200", tiles_per_ipu=4))
    x = graph.add_variable("float32", (4,), "x")
    graph.map_linearly(x)
    builder = engine.Builder(graph, Sequence())
    with pytest.raises(BadGraph, match="does not work element by element"):
        map_codelet(builder, viewed, [x])
