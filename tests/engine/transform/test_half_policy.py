"""Policies of half: in which type the operators of a model compute."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.engine.operators.graphs import info, model_of

from tilescope.engine import (
    Engine,
    HalfPolicy,
    compile_model,
    in_half,
    load_machine,
    load_onnx,
)
from tilescope.engine.errors import BadOption
from tilescope.engine.ir import Model, walk
from tilescope.engine.ir.half_policy import HALF_POLICIES, MIXED, Precision
from tilescope.engine.operators.table import OPERATORS

_RANDOM = np.random.default_rng(1)
_WEIGHTS = {
    "w": _RANDOM.normal(size=(6, 4)).astype(np.float32),
    "v": _RANDOM.normal(size=(4, 3)).astype(np.float32),
}


def _loaded(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    outputs: Sequence[onnx.ValueInfoProto],
    inputs: Sequence[onnx.ValueInfoProto] = (info("x", [2, 6]),),
    trainable: Sequence[str] = (),
) -> Model:
    onnx.save(model_of([*nodes], [*inputs], [*outputs], _WEIGHTS), path / "model.onnx")
    return load_onnx(path / "model.onnx", trainable=trainable)


def _network(path: Path, trainable: Sequence[str] = ()) -> Model:
    """Return a product, a square, a sum of both, a softmax, and another product."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="/encoder/product"),
        helper.make_node("ReduceSumSquare", ["h"], ["s"], name="/encoder/square"),
        helper.make_node("Mul", ["h", "s"], ["m"], name="/encoder/scaled"),
        helper.make_node("Relu", ["h"], ["r"], name="/head/relu"),
        helper.make_node("Softmax", ["r"], ["p"], name="/head/share"),
        helper.make_node("MatMul", ["p", "v"], ["y"], name="/head/product"),
    ]
    return _loaded(path, nodes, [info("m", [2, 4]), info("y", [2, 3])], trainable=trainable)


def _types(model: Model) -> dict[str, str]:
    """Return the types of results by node, without casts."""
    return {o.name: o.output.dtype for o in walk(model.operations) if o.source != "Cast"}


def _casts(model: Model) -> list[str]:
    return [o.name for o in model.operations if o.source == "Cast"]


def test_the_mixed_policy_keeps_in_float_what_leaves_the_range(tmp_path: Path) -> None:
    model = in_half(_network(tmp_path), policy=MIXED)
    assert _types(model) == {
        "encoder/product": "float16",
        "encoder/square": "float32",
        "encoder/scaled": "float32",
        "head/relu": "float16",
        "head/share": "float16",
        "head/product": "float16",
    }
    assert _casts(model) == ["h/float", "y/float"]  # one for both readers; outputs are float
    assert {value.dtype for _, value in model.outputs} == {"float32"}
    assert {value.dtype for value in model.inputs} == {"float16"}


def test_entries_name_kinds_nodes_and_patterns(tmp_path: Path) -> None:
    model = _network(tmp_path)

    def computed(**entries: Sequence[str]) -> dict[str, str]:
        types = _types(in_half(model, policy=HalfPolicy.named("throughout", **entries)))
        return {name: dtype for name, dtype in types.items() if dtype == "float32"}

    assert not computed()
    assert [*computed(keep_float=["Softmax"])] == ["head/share"]
    encoder = ["encoder/product", "encoder/square", "encoder/scaled"]
    assert [*computed(keep_float=["/encoder/*"])] == encoder
    # Nodes named in full go before kinds and patterns, and float before half.
    assert [*computed(keep_float=["/encoder/*"], in_half=["/encoder/square"])] == [
        "encoder/product",
        "encoder/scaled",
    ]
    assert [*computed(keep_float=["Softmax"], in_half=["*"])] == ["head/share"]
    mixed = HalfPolicy.named("mixed", in_half=["ReduceSumSquare"])
    assert "float32" not in _types(in_half(model, policy=mixed)).values()


@pytest.mark.parametrize(
    ("entries", "sentence"),
    [
        (
            {"keep_float": ["Sofmax"]},
            "keep_float: the model has no operator and no node 'Sofmax'; close names are Softmax",
        ),
        (
            {"in_half": ["/hed/*"]},
            "in_half: the model has no operator and no node '/hed/*'; close names are head/relu,"
            " head/share",
        ),
        (
            {"keep_float": ["zzz"]},
            "keep_float: the model has no operator and no node 'zzz'; it has MatMul, Mul,"
            " ReduceSumSquare, Relu, Softmax",
        ),
        (
            {"half_partials": ["Softmax"]},
            "half_partials: the model has no operator and no node with partial sums 'Softmax'; it"
            " has MatMul",
        ),
        (
            {"keep_float": ["Softmax"], "in_half": ["Softmax"]},
            "'Softmax' is kept in float and computed in half: choose one",
        ),
    ],
)
def test_names_of_nothing_are_refused(
    tmp_path: Path, entries: dict[str, list[str]], sentence: str
) -> None:
    with pytest.raises(BadOption) as refused:
        in_half(_network(tmp_path), policy=HalfPolicy.named("throughout", **entries))
    assert str(refused.value) == sentence


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(BadOption, match="Unknown policy 'most': expected throughout or mixed"):
        HalfPolicy.named("most")


def test_masters_are_read_in_float_where_the_operator_is(tmp_path: Path) -> None:
    model = _network(tmp_path, trainable=["*"])
    policy = HalfPolicy.named("throughout", keep_float=["/head/product"])
    built = in_half(model, has_masters=True, policy=policy)
    (last,) = [o for o in built.operations if o.name == "head/product"]
    assert last.operand(1) in model.parameters
    assert _casts(built) == ["w/half", "p/float"]
    # Without masters, a weight is half for all of its readers.
    built = in_half(model, policy=policy)
    assert {parameter.dtype for parameter in built.parameters} == {"float16"}
    assert _casts(built) == ["p/float", "v/float"]


def test_regions_have_the_type_of_their_operator(tmp_path: Path) -> None:
    body = helper.make_graph(
        [
            helper.make_node("Exp", ["a"], ["e"]),
            helper.make_node("Identity", ["more"], ["go"]),
        ],
        "body",
        [info("i", [], TensorProto.INT64), info("more", [], TensorProto.BOOL), info("a", [2, 6])],
        [info("go", [], TensorProto.BOOL), info("e", [2, 6])],
    )
    counts = np.array(3, np.int64)
    nodes = [
        helper.make_node("Constant", [], ["n"], value=onnx.numpy_helper.from_array(counts)),
        helper.make_node("Loop", ["n", "", "x"], ["y"], name="loop", body=body),
    ]
    model = _loaded(tmp_path, nodes, [info("y", [2, 6])])
    for keep, expected in (((), "float16"), (("loop",), "float32")):
        built = in_half(model, policy=HalfPolicy.named("mixed", keep_float=keep))
        loop = next(o for o in built.operations if o.name == "loop")
        (region,) = loop.regions.values()
        assert region.inputs[-1].dtype == region.outputs[-1].dtype == loop.output.dtype == expected
        assert "float32" in {o.output.dtype for o in region.operations if o.source == "Exp"}


def test_values_that_the_model_has_in_half_stay(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Exp", ["x"], ["e"], name="exp"),
        helper.make_node("Cast", ["e"], ["y"], name="cast", to=TensorProto.FLOAT),
        helper.make_node("Log", ["y"], ["z"], name="log"),
    ]
    inputs = [info("x", [2, 6], TensorProto.FLOAT16)]
    model = in_half(_loaded(tmp_path, nodes, [info("z", [2, 6])], inputs), policy=MIXED)
    types = {o.name: o.output.dtype for o in model.operations}
    assert types["exp"] == "float16"
    assert types["log"] == "float32"


def test_partial_sums_are_half_where_the_policy_says(tmp_path: Path) -> None:
    policy = HalfPolicy.named("throughout", half_partials=["/head/*"])
    model = in_half(_network(tmp_path), policy=policy)
    hints = {o.name: o.hints.partials_type for o in model.operations if o.source == "MatMul"}
    assert hints == {"encoder/product": None, "head/product": "half"}


def test_a_notice_says_what_the_policy_did(tmp_path: Path) -> None:
    model = _network(tmp_path)
    assert not in_half(model).notices
    (notice,) = in_half(model, policy=MIXED).notices
    assert notice.code == "half_policy"
    assert notice.message == (
        "Policy 'mixed' of half: operators 4 in half (MatMul 2, Relu 1, Softmax 1), 2 in float"
        " (ReduceSumSquare 1, Mul 1); 2 casts"
    )


def test_large_squares_stay_finite_on_the_machine(tmp_path: Path) -> None:
    model = _network(tmp_path)
    x = np.full((2, 6), 100, np.float32)
    results = {}
    for name, policy in HALF_POLICIES.items():
        compiled = compile_model(
            in_half(model, policy=policy), load_machine("gc200", tiles_per_ipu=4)
        )
        with Engine(compiled.executable) as engine, np.errstate(over="ignore"):
            results[name] = compiled.run(engine, {"x": x.astype(np.float16)})["m"]
    assert not np.isfinite(results["throughout"]).all()
    h = x @ _WEIGHTS["w"]
    np.testing.assert_allclose(results["mixed"], h * np.square(h).sum(), rtol=4e-3)


def test_rules_name_operators_once() -> None:
    kinds = [kind for rule in MIXED.rules for kind in rule.kinds]
    assert len(kinds) == len(set(kinds))
    functions = {"AffineGrid", "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"}
    assert set(kinds) - set(OPERATORS) <= functions
    assert all(rule.precision != Precision.OPERANDS and rule.reason for rule in MIXED.rules)
