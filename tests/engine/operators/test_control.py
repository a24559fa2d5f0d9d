"""Branches and loops: regions of the IR, programs of the machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.engine.operators.graphs import both, info, model_of

from tilescope.engine import Engine, compile_model, load_machine, load_onnx, resolve_options
from tilescope.engine.errors import BadModel, ProgramError
from tilescope.engine.frontend.onnx import inputs_to_set
from tilescope.engine.lower import lower
from tilescope.engine.program import If, Repeat, RepeatWhile, Sequence
from tilescope.engine.transform import transform

X = np.arange(12, dtype=np.float32).reshape(3, 4) - 5


def decision(*, other: list[int] | None = None) -> onnx.ModelProto:
    """Return ``relu(x) * w if flag else x``, and the sum of both outputs' rows."""
    then = helper.make_graph(
        [
            helper.make_node("Relu", ["x"], ["r"], name="relu"),
            helper.make_node("Mul", ["r", "w"], ["a"], name="scale"),
        ],
        "then",
        [],
        [info("a", [3, 4])],
    )
    negative = helper.make_node("Neg", ["x"], ["b"], name="negate")
    shape = numpy_helper.from_array(np.array(other or [3, 4]), "shape")
    reshape = helper.make_node("Reshape", ["b", "shape"], ["c"], name="reshape")
    otherwise = helper.make_graph(
        [negative, reshape], "else", [], [info("c", other or [3, 4])], [shape]
    )
    nodes = [
        helper.make_node(
            "If", ["flag"], ["y"], name="choose", then_branch=then, else_branch=otherwise
        ),
        helper.make_node("ReduceSum", ["y"], ["z"], name="total", keepdims=0),
    ]
    return model_of(
        nodes,
        [info("flag", [], TensorProto.BOOL), info("x", [3, 4])],
        [info("y", [None, None]), info("z", [])],
        {"w": np.linspace(1, 2, 4, dtype=np.float32)},
    )


@pytest.mark.parametrize("flag", [True, False])
def test_a_decision_runs_one_branch(tmp_path: Path, flag: bool) -> None:
    for actual, expected in both(
        decision(), tmp_path / "if.onnx", {"flag": np.array(flag), "x": X}
    ):
        np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_branches_are_regions_and_say_what_they_capture(tmp_path: Path) -> None:
    onnx.save(decision(), tmp_path / "if.onnx")
    model = load_onnx(tmp_path / "if.onnx")
    operation = model.operations[0]
    assert [operation.operator.name for operation in model.operations] == ["If", "ReduceSum"]
    assert set(operation.regions) == {"then_branch", "else_branch"}
    then = operation.regions["then_branch"]
    assert [inner.name for inner in then.operations] == ["relu", "scale"]
    assert then.captured == (model.inputs[1],)
    assert {weight.name for weight in model.parameters} == {"shape", "w"}
    (program,) = lower(transform(model), load_machine("gc200", tiles_per_ipu=4)).programs
    inside = [child for child in program.children if isinstance(child, Sequence)]
    assert any(isinstance(child, If) for child in inside[0].children)


def test_a_known_condition_leaves_one_branch(tmp_path: Path) -> None:
    model = decision()
    del model.graph.input[0]
    model.graph.initializer.append(numpy_helper.from_array(np.array(True), "flag"))
    ((actual, expected), _) = both(model, tmp_path / "if.onnx", {"x": X})
    np.testing.assert_allclose(actual, expected, rtol=1e-6)
    names = [inner.name for inner in transform(load_onnx(tmp_path / "if.onnx")).operations]
    assert names == ["relu", "scale", "total", "total"]


def test_branches_of_unlike_shapes_are_refused(tmp_path: Path) -> None:
    onnx.save(decision(other=[4, 3]), tmp_path / "if.onnx")
    text = r"'choose' \(If\): its branches return float32 \(3, 4\) .* must be known: .* --set"
    with pytest.raises(BadModel, match=text):
        load_onnx(tmp_path / "if.onnx")
    model = load_onnx(tmp_path / "if.onnx", values={"flag": False})
    assert model.outputs[0][1].shape == (4, 3)


def _of_rows(then: tuple[int, int], otherwise: tuple[int, int]) -> onnx.ModelProto:
    """Return so many rows of ``x``, twice, negated; a flag decides how many."""
    branches = {}
    for branch, n_rows in {"then": then, "else": otherwise}.items():
        nodes = [
            helper.make_node("Slice", ["x", "0", str(n), "0"], [f"{branch}_{i}"])
            for i, n in enumerate(n_rows)
        ]
        ends = [info(f"{branch}_{i}", [None, 4]) for i in range(2)]
        branches[f"{branch}_branch"] = helper.make_graph(nodes, branch, [], ends)
    nodes = [
        helper.make_node("If", ["flag"], ["c", "d"], name="choose", **branches),
        helper.make_node("Neg", ["c"], ["y"]),
        helper.make_node("Neg", ["d"], ["z"]),
    ]
    inputs = [info("flag", [1, 1], TensorProto.BOOL), info("x", [3, 4])]
    ends = [info("y", [None, 4]), info("z", [None, 4])]
    return model_of(nodes, inputs, ends, {str(n): np.array([n]) for n in range(4)})


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("sizes", [((3, 3), (2, 2)), ((1, 2), (3, 2)), ((0, 0), (2, 2))])
def test_branches_of_two_lengths(
    tmp_path: Path, flag: bool, sizes: tuple[tuple[int, int], tuple[int, int]]
) -> None:
    """The branch that runs decides how many rows count, as data do for NonZero."""
    values = {"flag": np.full((1, 1), flag), "x": X}
    for actual, expected in both(_of_rows(*sizes), tmp_path / "if.onnx", values):
        assert actual.shape == expected.shape
        assert np.array_equal(actual, expected)


def test_branches_of_unrelated_lengths_are_refused(tmp_path: Path) -> None:
    """No single number says both how many of three and how many of two rows count."""
    onnx.save(_of_rows((3, 1), (1, 2)), tmp_path / "if.onnx")
    with pytest.raises(BadModel, match=r"'choose' \(If\): its branches return"):
        load_onnx(tmp_path / "if.onnx")


def _guarded() -> onnx.ModelProto:
    """Return a decision whose second branch multiplies matrices that do not fit."""
    model = decision()
    branch = next(a.g for a in model.graph.node[0].attribute if a.name == "else_branch")
    product = helper.make_node("MatMul", ["x", "x"], ["b"], name="product")
    branch.node[0].CopyFrom(product)
    return model


def test_a_branch_without_types_fails_when_it_is_taken(tmp_path: Path) -> None:
    values = {"flag": np.array(True), "x": X}
    path = tmp_path / "if.onnx"
    onnx.save(_guarded(), path)
    compiled = compile_model(
        load_onnx(path), load_machine("gc200", tiles_per_ipu=4), is_checked=True
    )
    (notice,) = compiled.executable.notices
    assert (notice.severity, notice.code) == ("warning", "failing_branch")
    assert "'choose' (If) has no valid else_branch: Node 'product' (MatMul)" in notice.message
    with Engine(compiled.executable, resolve_options(environ={})) as engine:
        actual = compiled.run(engine, values)
        np.testing.assert_allclose(actual["y"], np.maximum(X, 0) * np.linspace(1, 2, 4), rtol=1e-6)
        with pytest.raises(ProgramError, match=r"has no valid else_branch: .*'product'"):
            compiled.run(engine, values | {"flag": np.array(False)})
    with pytest.raises(BadModel, match=r"'product' \(MatMul\)"):
        load_onnx(path, values={"flag": False})
    assert load_onnx(path, values={"flag": True}).notices == ()


def test_two_branches_without_types_are_refused(tmp_path: Path) -> None:
    model = _guarded()
    branch = next(a.g for a in model.graph.node[0].attribute if a.name == "then_branch")
    branch.node[0].CopyFrom(helper.make_node("MatMul", ["x", "x"], ["r"], name="first"))
    onnx.save(model, tmp_path / "if.onnx")
    with pytest.raises(BadModel, match=r"'(first|product)' \(MatMul\)"):
        load_onnx(tmp_path / "if.onnx")


@pytest.mark.parametrize("shape", [(1,), (1, 1)])
def test_conditions_of_one_element(tmp_path: Path, shape: tuple[int, ...]) -> None:
    """As onnxruntime takes them: of a decision, and of a loop before and after its rounds."""
    model = decision()
    model.graph.input[0].CopyFrom(info("flag", shape, TensorProto.BOOL))
    values = {"flag": np.zeros(shape, bool), "x": X}
    for actual, expected in both(model, tmp_path / "if.onnx", values):
        np.testing.assert_allclose(actual, expected, rtol=1e-6)
    model = loop(rounds=50, limit=30.0)
    model.graph.input.append(info("flag", shape, TensorProto.BOOL))
    model.graph.node[0].input[1] = "flag"
    body = model.graph.node[0].attribute[0].g
    last = numpy_helper.from_array(np.full(shape, 30, np.float32), "limit")
    model.graph.initializer[-1].CopyFrom(last)
    body.output[0].CopyFrom(info("go_out", shape, TensorProto.BOOL))
    body.input[1].type.tensor_type.ClearField("shape")
    for go in (True, False):
        values = INPUTS | {"flag": np.full(shape, go)}
        for actual, expected in both(model, tmp_path / "loop.onnx", values):
            np.testing.assert_allclose(actual, expected, rtol=1e-6)


@pytest.mark.parametrize("is_known", [True, False])
def test_conditions_of_two_elements_are_refused(tmp_path: Path, is_known: bool) -> None:
    for model, position in ((decision(), 0), (loop(rounds=5, limit=30.0), 1)):
        model.graph.node[0].input[position] = "two"
        if is_known:
            weight = numpy_helper.from_array(np.ones(2, bool), "two")
            model.graph.initializer.append(weight)
        else:
            model.graph.input.append(info("two", [2], TensorProto.BOOL))
        onnx.save(model, tmp_path / "two.onnx")
        with pytest.raises(BadModel, match=r"expected one bool as its condition, got bool \(2,\)"):
            load_onnx(tmp_path / "two.onnx")


def test_rounds_of_two_elements_are_refused(tmp_path: Path) -> None:
    for model in (loop(rounds=5, limit=30.0), _growing(4, by_round=True)):
        (weight,) = (w for w in model.graph.initializer if w.name == "n")
        weight.CopyFrom(numpy_helper.from_array(np.array([4, 4]), "n"))
        onnx.save(model, tmp_path / "two.onnx")
        with pytest.raises(BadModel, match=r"'rounds' \(Loop\): expected one int64 as .* rounds"):
            load_onnx(tmp_path / "two.onnx")


def loop(*, rounds: int | None, limit: float | None, scan: bool = False) -> onnx.ModelProto:
    """Return a loop: ``a, b = b * 2 + i, a`` while the sum of ``a`` is below a limit."""
    nodes = [
        helper.make_node("Cast", ["i"], ["i32"], name="index", to=TensorProto.FLOAT),
        helper.make_node("Add", ["b", "b"], ["b2"], name="double"),
        helper.make_node("Add", ["b2", "i32"], ["a_out"], name="plus"),
        helper.make_node("Identity", ["a"], ["b_out"], name="swap"),
    ]
    if limit is None:
        nodes.append(helper.make_node("Identity", ["go"], ["go_out"], name="keep"))
    else:
        nodes += [
            helper.make_node("ReduceMax", ["a_out"], ["most"], name="most", keepdims=0),
            helper.make_node("Less", ["most", "limit"], ["go_out"], name="below"),
        ]
    outputs = [info("go_out", [], TensorProto.BOOL), info("a_out", [4]), info("b_out", [4])]
    if scan:
        nodes.append(helper.make_node("Neg", ["a"], ["s"], name="collect"))
        outputs.append(info("s", [4]))
    inputs = [info("i", [], TensorProto.INT64), info("go", [], TensorProto.BOOL)]
    body = helper.make_graph(nodes, "body", [*inputs, info("a", [4]), info("b", [4])], outputs)
    weights: dict[str, np.ndarray] = {}
    if rounds is not None:
        weights["n"] = np.array(rounds)
    if limit is not None:
        weights["limit"] = np.array(limit, np.float32)
    names = ["p", "q", *(["s_all"] if scan else [])]
    operands = ["n" if rounds is not None else "", "", "x", "y"]
    node = helper.make_node("Loop", operands, names, name="rounds", body=body)
    ends = [info("p", [4]), info("q", [4]), *([info("s_all", [None, 4])] if scan else [])]
    return model_of([node], [info("x", [4]), info("y", [4])], ends, weights)


INPUTS = {"x": np.arange(4, dtype=np.float32), "y": np.ones(4, np.float32)}


@pytest.mark.parametrize(
    ("rounds", "limit", "kind"),
    [
        (5, None, Repeat),
        (50, 30.0, RepeatWhile),
        (None, 30.0, RepeatWhile),
        # What exporters state where the condition alone ends a loop.
        (2**63 - 1, 30.0, RepeatWhile),
    ],
)
def test_a_loop_runs(tmp_path: Path, rounds: int | None, limit: float | None, kind: type) -> None:
    path = tmp_path / "loop.onnx"
    for actual, expected in both(loop(rounds=rounds, limit=limit), path, INPUTS):
        np.testing.assert_allclose(actual, expected, rtol=1e-6)
    (program,) = lower(transform(load_onnx(path)), load_machine("gc200", tiles_per_ipu=4)).programs
    inside = [child for child in program.children if isinstance(child, Sequence)]
    assert any(isinstance(child, kind) for child in inside[0].children)


def test_an_index_of_no_dimensions_that_data_decide(tmp_path: Path) -> None:
    node = helper.make_node("Gather", ["x", "i"], ["y"], axis=1)
    inputs = [info("x", [3, 4]), info("i", [], TensorProto.INT64)]
    model = model_of([node], inputs, [info("y", [3])])
    for index in (2, -1):
        values = {"x": X, "i": np.array(index)}
        ((actual, expected),) = both(model, tmp_path / "gather.onnx", values)
        assert np.array_equal(actual, expected)


def test_a_loop_of_no_rounds_is_its_initial_values(tmp_path: Path) -> None:
    path = tmp_path / "loop.onnx"
    for actual, expected in both(loop(rounds=0, limit=None), path, INPUTS):
        assert np.array_equal(actual, expected)
    assert transform(load_onnx(path)).operations == ()


@pytest.mark.parametrize(
    ("rounds", "limit"), [(5, None), (50, 30.0), (3, 30.0), (50, -100.0), (0, None)]
)
def test_results_of_rounds_are_collected(tmp_path: Path, rounds: int, limit: float | None) -> None:
    """With a limit, data decide how many rounds run: fewer than 50, or 3, or one."""
    model = loop(rounds=rounds, limit=limit, scan=True)
    for actual, expected in both(model, tmp_path / "loop.onnx", INPUTS):
        assert actual.shape == expected.shape
        np.testing.assert_allclose(actual, expected, rtol=1e-6)


@pytest.mark.parametrize("rounds", [None, 2**63 - 1])
def test_a_loop_that_never_ends_is_refused(tmp_path: Path, rounds: int | None) -> None:
    onnx.save(loop(rounds=rounds, limit=None), tmp_path / "loop.onnx")
    with pytest.raises(
        BadModel, match=r"'rounds' \(Loop\) never ends: its condition is always true"
    ):
        load_onnx(tmp_path / "loop.onnx")


@pytest.mark.parametrize("rounds", [None, 2**63 - 1])
def test_results_of_an_unknown_number_of_rounds_are_refused(
    tmp_path: Path, rounds: int | None
) -> None:
    onnx.save(loop(rounds=rounds, limit=30.0, scan=True), tmp_path / "loop.onnx")
    text = r"'rounds' \(Loop\): shapes depend on .* state the largest number of rounds"
    with pytest.raises(BadModel, match=text):
        load_onnx(tmp_path / "loop.onnx")


@pytest.mark.parametrize("rounds", [None, 2**63 - 1])
@pytest.mark.parametrize("limit", [1, 3])
def test_a_known_condition_decides_how_many_results_there_are(
    tmp_path: Path, rounds: int | None, limit: int
) -> None:
    """As TensorFlow's map functions are exported: a counter of the model's own ends the loop."""
    nodes = [
        helper.make_node("Add", ["k", "one"], ["next"]),
        helper.make_node("Less", ["next", "limit"], ["go_out"]),
        helper.make_node("Gather", ["x", "k"], ["row"]),
        helper.make_node("Neg", ["row"], ["made"]),
    ]
    integer = TensorProto.INT64
    inputs = [info("i", [], integer), info("go", [], TensorProto.BOOL), info("k", [], integer)]
    outputs = [info("go_out", [], TensorProto.BOOL), info("next", [], integer), info("made", [4])]
    body = helper.make_graph(nodes, "body", inputs, outputs)
    operands = ["" if rounds is None else "n", "", "zero"]
    node = helper.make_node("Loop", operands, ["last", "y"], name="rounds", body=body)
    weights = {"one": np.array(1), "zero": np.array(0), "limit": np.array(limit)}
    if rounds is not None:
        weights["n"] = np.array(rounds)
    ends = [info("last", [], integer), info("y", [None, 4])]
    model = model_of([node], [info("x", [3, 4])], ends, weights)
    for actual, expected in both(model, tmp_path / "map.onnx", {"x": X}):
        assert np.array_equal(actual, expected)


@pytest.mark.parametrize("rounds", [None, 2**63 - 1])
def test_an_endless_loop_with_results_is_refused(tmp_path: Path, rounds: int | None) -> None:
    onnx.save(loop(rounds=rounds, limit=None, scan=True), tmp_path / "loop.onnx")
    with pytest.raises(BadModel, match=r"'rounds' \(Loop\) never ends"):
        load_onnx(tmp_path / "loop.onnx")


def _growing(rounds: int | None, *, by_round: bool) -> onnx.ModelProto:
    """Return a loop that lengthens its state, or takes a slice that its round decides."""
    nodes = [
        helper.make_node("Unsqueeze", ["i", "first"], ["from"]),
        helper.make_node("Add", ["from", "one"], ["to"]),
        helper.make_node("Slice", ["x", "from", "to", "first"], ["part"]),
    ]
    if not by_round:
        nodes = [helper.make_node("ReduceMax", ["grown"], ["part"], keepdims=1)]
    nodes += [
        helper.make_node("Concat", ["grown", "part"], ["longer"], axis=0),
        helper.make_node("Identity", ["go"], ["go_on"]),
    ]
    inputs = [
        info("i", [], TensorProto.INT64),
        info("go", [], TensorProto.BOOL),
        info("grown", [1]),
    ]
    outputs = [info("go_on", [], TensorProto.BOOL), info("longer", [None]), info("part", [1])]
    body = helper.make_graph(nodes, "body", inputs, outputs)
    weights = {"first": np.array([0]), "one": np.array([1])}
    graph_inputs = [info("x", [6])]
    if rounds is None:
        graph_inputs.append(info("n", [], TensorProto.INT64))
    else:
        weights["n"] = np.array(rounds)
    start = helper.make_node("Slice", ["x", "first", "one"], ["start"])
    node = helper.make_node("Loop", ["n", "", "start"], ["y", "parts"], name="rounds", body=body)
    ends = [info("y", [None]), info("parts", [None, 1])]
    return model_of([start, node], graph_inputs, ends, weights)


@pytest.mark.parametrize("by_round", [True, False])
def test_loops_with_changing_shapes_are_unrolled(tmp_path: Path, by_round: bool) -> None:
    x = np.array([3, 1, 4, 1, 5, 9], np.float32)
    model = _growing(4, by_round=by_round)
    for actual, expected in both(model, tmp_path / "grow.onnx", {"x": x}):
        assert np.array_equal(actual, expected)


def test_a_loop_that_cannot_be_unrolled_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "grow.onnx"
    onnx.save(_growing(None, by_round=True), path)
    assert inputs_to_set(onnx.load(path)) == ["n"]
    with pytest.raises(BadModel, match=r"'rounds' \(Loop\): shapes depend on its rounds, and the"):
        load_onnx(path)
    onnx.save(_growing(5000, by_round=False), path)
    with pytest.raises(BadModel, match="more than 4,096 rounds, too many to unroll"):
        load_onnx(path)


@pytest.mark.parametrize("directions", [None, [1]])
def test_a_scan_of_batches(tmp_path: Path, directions: list[int] | None) -> None:
    """As opset 8 has it: every element of the batch is scanned on its own."""
    nodes = [
        helper.make_node("Add", ["total", "next"], ["sum"]),
        helper.make_node("Mul", ["sum", "next"], ["made"]),
    ]
    body = helper.make_graph(
        nodes,
        "body",
        [info("total", [2]), info("next", [2])],
        [info("sum", [2]), info("made", [2])],
    )
    attributes: dict[str, Any] = {"directions": directions} if directions else {}
    node = helper.make_node(
        "Scan", ["", "start", "x"], ["y", "z"], num_scan_inputs=1, body=body, **attributes
    )
    inputs = [info("start", [2, 2]), info("x", [2, 3, 2])]
    model = model_of([node], inputs, [info("y", [2, 2]), info("z", [2, 3, 2])], opset=8)
    values = {
        "start": np.arange(4, dtype=np.float32).reshape(2, 2),
        "x": np.arange(12, dtype=np.float32).reshape(2, 3, 2),
    }
    (last, _), (built, _) = both(model, tmp_path / "scan.onnx", values)
    order = values["x"][:, ::-1] if directions else values["x"]
    sums = values["start"][:, None] + order.cumsum(1)
    assert np.array_equal(last, sums[:, -1])
    assert np.array_equal(built, sums * order)
