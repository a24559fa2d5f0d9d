"""Hostile and unusual files: refused in one sentence, or run with the right values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.engine.operators.graphs import both, info, model_of

from tilescope.engine import Engine, compile_model, load_machine, load_onnx, resolve_options
from tilescope.engine.errors import EngineError
from tilescope.engine.frontend.onnx.facts.census import take_census

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((4, 6)).astype(np.float32)
IMAGES = RANDOM.standard_normal((1, 6, 8, 8)).astype(np.float32)
_WHATEVER = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)


def _model(
    op_type: str,
    names: Sequence[str] = ("x",),
    weights: dict[str, np.ndarray] | None = None,
    shape: Sequence[int | None] = (4, 6),
    **attributes: Any,
) -> onnx.ModelProto:
    """Return a model of one node with an output without a shape."""
    node = helper.make_node(op_type, list(names), ["y"], name="node", **attributes)
    return model_of([node], [info("x", list(shape))], [_WHATEVER], weights or {})


def _integers(*numbers: int) -> dict[str, np.ndarray]:
    return {"k": np.array(numbers, np.int64)}


def _with_strings() -> onnx.ModelProto:
    model = _model("Cast", ["k"], to=TensorProto.FLOAT)
    model.graph.initializer.append(numpy_helper.from_array(np.array(["abc"], object), "k"))
    return model


def _with_too_many_bytes() -> onnx.ModelProto:
    model = _model("Add", ["x", "k"], {"k": X})
    model.graph.initializer[0].raw_data += bytes(16)
    return model


def _with_a_negative_size() -> onnx.ModelProto:
    model = _model("Relu")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -5
    return model


def _with_two_imports() -> onnx.ModelProto:
    model = _model("Relu")
    model.opset_import.append(helper.make_opsetid("", 9))
    return model


def _with_another_output_type() -> onnx.ModelProto:
    model = _model("Relu")
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.INT32, [4, 6]))
    return model


def _with_sparse_positions(*places: int) -> onnx.ModelProto:
    model = _model("Add", ["x", "k"])
    values = helper.make_tensor("k", TensorProto.FLOAT, [2], [1.0, 2.0])
    indices = helper.make_tensor("i", TensorProto.INT64, [2], places)
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4, 6]))
    return model


def _of_many_nodes() -> onnx.ModelProto:
    names = ["x", *(f"h{i}" for i in range(10_999)), "y"]
    nodes = [helper.make_node("Neg", [a], [b], name=f"to_{b}") for a, b in pairwise(names)]
    return model_of(nodes, [info("x", [4, 6])], [_WHATEVER])


def _product_in_a_branch() -> onnx.ModelProto:
    """Return a model with an outer product in one branch of an If."""
    square = helper.make_tensor_value_info("h", TensorProto.FLOAT, [10**6, 10**6])
    sum_of = helper.make_tensor_value_info("s", TensorProto.FLOAT, [])
    nodes = [
        helper.make_node("MatMul", ["a", "b"], ["h"], name="outer"),
        helper.make_node("ReduceSum", ["h"], ["s"], keepdims=0),
    ]
    product = helper.make_graph(nodes, "then", [], [sum_of], value_info=[square])
    zero = helper.make_graph(
        [helper.make_node("ReduceSum", ["b"], ["z"], keepdims=0)],
        "else",
        [],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, [])],
    )
    node = helper.make_node("If", ["c"], ["y"], then_branch=product, else_branch=zero)
    inputs = [info("a", [10**6, 1]), info("b", [1, 10**6]), info("c", [], TensorProto.BOOL)]
    return model_of([node], inputs, [_WHATEVER])


def _not_a_number() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Cast", ["k"], ["s"], to=TensorProto.INT64),
        helper.make_node("Reshape", ["x", "s"], ["y"], name="node"),
    ]
    weights = {"k": np.array([np.nan, 4], np.float32)}
    return model_of(nodes, [info("x", [4, 6])], [_WHATEVER], weights)


def _run(path: Path, code_bytes: int = 212_992, **inputs: np.ndarray) -> np.ndarray:
    """Return the output of a model on 4 tiles, of which so many bytes hold code."""
    machine = load_machine("gc200", tiles_per_ipu=4)
    rest = machine.non_interleaved_bytes + machine.interleaved_bytes - code_bytes
    machine = replace(machine, non_interleaved_bytes=code_bytes, interleaved_bytes=rest)
    compiled = compile_model(load_onnx(path), machine)
    with Engine(compiled.executable, resolve_options(environ={})) as engine:
        return compiled.run(engine, inputs)["y"]


WINDOW = (1, 1, 8, 8)
KERNEL = {"k": np.ones((1, 1, 2, 2), np.float32)}
HUGE = [2**62] * 4
REFUSED: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "dimensions": (lambda: _model("Relu", shape=[1] * 70), "at most 32 dimensions"),
    "reshape": (
        lambda: _model("Reshape", ["x", "k"], _integers(*[1] * 70), [1]),
        "70 dimensions; at most 32",
    ),
    "strings": (_with_strings, "Initializer 'k' holds strings"),
    "negative constant": (
        lambda: _model("ConstantOfShape", ["k"], _integers(-3)),
        "a constant of shape (-3,): sizes are 0 or more",
    ),
    "huge constant": (
        lambda: _model("ConstantOfShape", ["k"], _integers(2**40, 2**20)),
        "together at most",
    ),
    "type": (lambda: _model("Cast", to=999), "element type 999, which ONNX does not define"),
    "nan": (_not_a_number, "cannot reshape 'x'"),
    "unsqueeze": (
        lambda: _model("Unsqueeze", ["x", "k"], _integers(0, 0)),
        "an axis is named twice in [0, 0]",
    ),
    "squeeze": (
        lambda: _model("Squeeze", ["x", "k"], _integers(0, 0), [1, 4]),
        "an axis is named twice in [0, 0]",
    ),
    "bytes": (_with_too_many_bytes, "Initializer 'k' does not hold what it declares"),
    "positions": (lambda: _with_sparse_positions(1, 24), "out of range [0, 23]"),
    "pool padding": (
        lambda: _model("MaxPool", shape=WINDOW, kernel_shape=[2, 2], pads=HUGE),
        "at most 16,777,216 is possible",
    ),
    "padding": (
        lambda: _model("Conv", ["x", "k"], KERNEL, WINDOW, pads=HUGE),
        "at most 16,777,216 is possible",
    ),
    "wide padding": (
        lambda: _model("MaxPool", shape=WINDOW, kernel_shape=[2, 2], pads=[2] * 4),
        "windows would lie in padding only",
    ),
    "negative size": (_with_a_negative_size, "has sizes [-5, 6]"),
    "imports": (_with_two_imports, "imports domain 'ai.onnx' in versions 17 and 9"),
    "axis": (
        lambda: _model("Flatten", shape=[2, 3, 4], axis=-5),
        "axis -5 is out of range for rank 3",
    ),
    "kernel": (
        lambda: _model("Conv", ["x", "k"], KERNEL, WINDOW, kernel_shape=[3, 3]),
        "a kernel_shape of [3, 3]",
    ),
    "sum": (
        lambda: _model(
            "Gemm", ["x", "k", "c"], {"k": X.T.copy(), "c": np.ones((3, 4, 4), np.float32)}
        ),
        "does not broadcast to the product's (4, 4)",
    ),
    "types": (
        lambda: _model("Add", ["x", "k"], {"k": X.astype(np.int32)}),
        "cannot combine float32 and int32",
    ),
    "output": (_with_another_output_type, "declared as int32 but computed as float32"),
    "outer product": (
        lambda: _model("Expand", ["x", "k"], _integers(10**6, 10**6, 4, 6)),
        "takes 96,000,000,000,000 bytes: gc200 has",
    ),
    "product of vectors": (
        lambda: model_of(
            [helper.make_node("MatMul", ["a", "b"], ["y"])],
            [info("a", [10**6, 1]), info("b", [1, 10**6])],
            [_WHATEVER],
        ),
        "Value 'y' of shape (1000000, 1000000) takes 4,000,000,000,000 bytes: gc200 has 2,555,904"
        " on all 4 tiles",
    ),
    "one-hot": (
        lambda: model_of(
            [helper.make_node("OneHot", ["i", "k", "v"], ["y"])],
            [info("i", [2], TensorProto.INT64)],
            [_WHATEVER],
            {"k": np.array(1 << 40), "v": np.array([0, 1], np.float32)},
        ),
        "Value 'y' of shape (2, 1099511627776) takes",
    ),
    "product in a branch": (_product_in_a_branch, "Value 'h' of shape (1000000, 1000000) takes"),
    "many nodes": (_of_many_nodes, "takes 11,002 steps or more, one for every operation"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_hostile_model_is_refused_in_a_sentence(tmp_path: Path, name: str) -> None:
    make, words = REFUSED[name]
    path = tmp_path / "hostile.onnx"
    onnx.save(make(), path)
    with pytest.raises(EngineError) as refused:
        _run(path, code_bytes=1 << 15, x=X)
    assert words in str(refused.value)


def _in_two_numbers_of_groups() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["h"], group=3),
        helper.make_node("Conv", ["h", "c"], ["y"], group=2),
    ]
    weights = {
        name: RANDOM.standard_normal(shape).astype(np.float32)
        for name, shape in {"k": (6, 2, 3, 3), "c": (4, 3, 3, 3)}.items()
    }
    return model_of(nodes, [info("x", [1, 6, 8, 8])], [_WHATEVER], weights)


def _with_a_long_name() -> onnx.ModelProto:
    name = "n" * 1_000_000
    nodes = [helper.make_node("Neg", ["x"], [name]), helper.make_node("Relu", [name], ["y"])]
    return model_of(nodes, [info("x", [4, 6])], [_WHATEVER])


def _with_initializers_as_inputs() -> onnx.ModelProto:
    model = _model("Add", ["x", "k"], {"k": X})
    model.graph.input.append(info("k", [4, 6]))
    return model


@pytest.mark.parametrize(
    ("make", "x"),
    [
        (_in_two_numbers_of_groups, IMAGES),
        (_with_a_long_name, X),
        (_with_initializers_as_inputs, X),
    ],
)
def test_an_unusual_model_runs(
    tmp_path: Path, make: Callable[[], onnx.ModelProto], x: np.ndarray
) -> None:
    ((actual, expected),) = both(make(), tmp_path / "m.onnx", {"x": x})
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_nodes_in_another_order(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["h"], ["y"]), helper.make_node("Neg", ["x"], ["h"])]
    onnx.save(model_of(nodes, [info("x", [4, 6])], [_WHATEVER]), tmp_path / "m.onnx")
    assert np.array_equal(_run(tmp_path / "m.onnx", x=X), np.maximum(-X, 0))


def test_a_sparse_initializer(tmp_path: Path) -> None:
    dense = np.zeros((4, 6), np.float32)
    dense.reshape(-1)[[1, 5]] = 1, 2
    onnx.save(_with_sparse_positions(1, 5), tmp_path / "sparse.onnx")
    (operation,) = load_onnx(tmp_path / "sparse.onnx").operations
    (value,) = (v for v in operation.operands if v.known is not None)
    assert np.array_equal(np.asarray(value.known), dense)


def test_the_largest_integer_bounds_nothing(tmp_path: Path) -> None:
    bounds = {"low": np.array(3, np.int64), "high": np.array(2**63 - 1, np.int64)}
    node = helper.make_node("Clip", ["x", "low", "high"], ["y"])
    kind = TensorProto.INT64
    model = model_of([node], [info("x", [5], kind)], [info("y", [5], kind)], bounds)
    ((actual, expected),) = both(model, tmp_path / "m.onnx", {"x": np.arange(5)})
    assert np.array_equal(actual, expected)


def test_the_mean_of_integers_divides_their_sum(tmp_path: Path) -> None:
    """Of 49 ones it is 1; as a product with a rounded reciprocal it was 0."""
    node = helper.make_node("ReduceMean", ["x"], ["y"], axes=[1])
    kind = TensorProto.INT32
    model = model_of([node], [info("x", [2, 49], kind)], [info("y", [2, 1], kind)])
    x = np.stack([np.ones(49, np.int32), np.arange(49, dtype=np.int32)])
    ((actual, expected),) = both(model, tmp_path / "m.onnx", {"x": x})
    assert np.array_equal(actual, expected)
    assert actual[0] == 1


def test_a_batch_normalisation_beyond_halves(tmp_path: Path) -> None:
    """Its factor is 300 / √1e-6 = 300,000, which no half holds."""
    scale, variance = (np.full(3, v, np.float32) for v in (300, 1e-6))
    zeros = np.zeros(3, np.float32)
    halves = {"s": scale, "b": zeros, "m": zeros}
    node = helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"], epsilon=0.0)
    kind = TensorProto.FLOAT16
    model = model_of([node], [info("x", [1, 3, 4], kind)], [info("y", [1, 3, 4], kind)])
    for name, array in halves.items():
        model.graph.initializer.append(numpy_helper.from_array(array.astype(np.float16), name))
    model.graph.initializer.append(numpy_helper.from_array(variance, "v"))
    x = np.full((1, 3, 4), 0.1, np.float16)
    onnx.save(model, tmp_path / "m.onnx")
    actual = _run(tmp_path / "m.onnx", x=x)
    np.testing.assert_allclose(actual, 29_993, rtol=2e-3)


def _of_a_long_range() -> onnx.ModelProto:
    numbers = {"a": np.array(0), "b": np.array(1 << 60), "c": np.array(1)}
    node = helper.make_node("Range", list(numbers), ["y"], name="range")
    output = helper.make_tensor_value_info("y", TensorProto.INT64, None)
    return model_of([node], [info("x", [4, 6])], [output], numbers)


def _of_a_function_that_calls_itself() -> onnx.ModelProto:
    model = _model("Relu")
    call = helper.make_node("F", ["a"], ["b"], domain="own")
    imports = [helper.make_opsetid("own", 1)]
    model.functions.append(helper.make_function("own", "F", ["a"], ["b"], [call], imports))
    model.graph.node[0].op_type, model.graph.node[0].domain = "F", "own"
    model.opset_import.extend(imports)
    return model


def _of_a_later_opset() -> onnx.ModelProto:
    model = _model("Relu")
    model.opset_import[0].version = 1 << 31
    return model


def _of_trees_without_attributes() -> onnx.ModelProto:
    model = _model("TreeEnsemble", [""])
    model.graph.node[0].domain = "ai.onnx.ml"
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 5))
    return model


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_of_trees_without_attributes, "'node' (TreeEnsemble)"),
        (_of_a_long_range, "a range of 1,152,921,504,606,846,976 elements"),
        (lambda: _model("Einsum", equation="..i...->i"), "'..i...->i' does not fit"),
        (_of_a_function_that_calls_itself, "functions that cannot be inlined"),
        (_of_a_later_opset, "needs opset 2147483648; the newest supported is"),
    ],
    ids=["trees", "range", "dots", "recursion", "opset"],
)
def test_a_hostile_model_is_checked_at_once(
    tmp_path: Path, make: Callable[[], onnx.ModelProto], words: str
) -> None:
    """ONNX's own inference makes all numbers of a range, and never ends for two dots."""
    path = tmp_path / "hostile.onnx"
    onnx.save(make(), path)
    try:
        text = take_census(path).problem
    except EngineError as error:
        text = str(error)
    assert words in text
