"""The batch in parts: order of operations, what runs whole, values, memory, and bad input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper
from tests.engine.operators.graphs import info, model_of

from tilescope.engine import Engine, Trainer, compile_model, load_machine, load_onnx
from tilescope.engine.errors import BadModel, BadOption
from tilescope.engine.ir import BatchParts, Model, Recomputation
from tilescope.engine.training import Loss, Sgd, for_training
from tilescope.engine.transform import transform
from tilescope.engine.transform.split import split
from tilescope.engine.transform.stages import pipelined

_RNG = np.random.default_rng(5)
_MACHINE = load_machine("gc200", tiles_per_ipu=8)

Nodes = Sequence[onnx.NodeProto]


def _drawn(*shape: int) -> NDArray[np.float32]:
    drawn: NDArray[np.float32] = _RNG.standard_normal(shape).astype(np.float32)
    return drawn


def _loaded(
    folder: Path,
    nodes: Nodes,
    shape: Sequence[int],
    weights: dict[str, NDArray[Any]] | None = None,
    **options: Any,
) -> Model:
    path = folder / "model.onnx"
    outputs = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)]
    onnx.save(model_of(list(nodes), [info("x", list(shape))], outputs, weights or {}), path)
    return load_onnx(path, **options)


def _in_parts(model: Model, n_parts: int, **options: Any) -> Model:
    return replace(model, batch_parts=BatchParts(n_parts, **options))


def _keys(model: Model) -> list[str]:
    return [operation.operator.key for operation in transform(model).operations]


def _chain(folder: Path) -> Model:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="dense"),
        helper.make_node("Relu", ["h"], ["r"], name="relu"),
        helper.make_node("Softmax", ["r"], ["y"], name="softmax", axis=1),
    ]
    return _loaded(folder, nodes, [4, 6], {"w": _drawn(6, 2)})


def test_all_operations_of_a_part_come_before_those_of_the_next(tmp_path: Path) -> None:
    """With one place for the parts of a value, and one join at the end."""
    part = ["slice", "matmul", "unary", "softmax"]
    assert _keys(_in_parts(_chain(tmp_path), 2)) == [*part, *part, "concat"]
    assert _keys(_in_parts(_chain(tmp_path), 1)) == ["matmul", "unary", "softmax"]


def test_what_needs_the_batch_runs_whole(tmp_path: Path) -> None:
    """What follows it is in parts again; a mean over the batch is not."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="relu"),
        helper.make_node("CumSum", ["r", "zero"], ["s"], name="sums"),
        helper.make_node("Neg", ["s"], ["n"], name="negative"),
        helper.make_node("ReduceMean", ["n"], ["m"], name="mean", axes=[0]),
        helper.make_node("Exp", ["m"], ["y"], name="exp"),
    ]
    model = _loaded(tmp_path, nodes, [4, 6], {"zero": np.array(0)})
    parts = ["slice", "unary"] * 2
    keys = [*parts, "concat", "CumSum", *parts, "concat", "reduce", "unary"]
    assert _keys(_in_parts(model, 2)) == keys


def test_what_all_parts_read_is_computed_once(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Exp", ["z"], ["e"], name="weights"),
        helper.make_node("MatMul", ["x", "e"], ["y"], name="dense"),
    ]
    path = tmp_path / "model.onnx"
    inputs = [info("x", [4, 6]), info("z", [6, 2])]
    onnx.save(model_of(nodes, inputs, [info("y", [4, 2])]), path)
    keys = _keys(_in_parts(load_onnx(path), 2))
    assert keys == ["unary", "slice", "matmul", "slice", "matmul", "concat"]


def test_a_batch_normalisation_in_training_is_of_the_whole_batch(tmp_path: Path) -> None:
    weights = {name: np.ones(3, np.float32) for name in ("s", "b", "m", "v")}
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="relu"),
        helper.make_node(
            "BatchNormalization", ["r", *weights], ["n", "m2", "v2"], name="norm", training_mode=1
        ),
        helper.make_node("Exp", ["n"], ["y"], name="exp"),
    ]
    keys = _keys(_in_parts(_loaded(tmp_path, nodes, [4, 3, 2, 2], weights), 2))
    assert keys.count("norm") == 1
    assert keys.count("unary") == 4


def test_the_batch_of_a_sequence_is_its_second_dimension(tmp_path: Path) -> None:
    weights = {"w": _drawn(1, 16, 3), "r": _drawn(1, 16, 4)}
    nodes = [helper.make_node("LSTM", ["x", "w", "r"], ["y"], name="lstm", hidden_size=4)]
    model = _in_parts(_loaded(tmp_path, nodes, [5, 4, 3], weights), 4)
    operations = transform(model).operations
    layers = [op for op in operations if op.operator.key == "LSTM"]
    assert [op.operand(0).shape for op in layers] == [(5, 1, 3)] * 4
    x = {"x": _drawn(5, 4, 3)}
    np.testing.assert_allclose(_run(model, x), _run(_in_parts(model, 1), x), rtol=1e-5, atol=1e-6)


def _run(model: Model, inputs: dict[str, NDArray[Any]]) -> NDArray[Any]:
    compiled = compile_model(model, _MACHINE)
    return compiled.run(Engine(compiled.executable), inputs)["y"]


def test_results_of_rows_are_those_of_the_whole(tmp_path: Path) -> None:
    """The same bits where nothing is summed in another order."""
    nodes = [
        helper.make_node("Exp", ["x"], ["e"], name="exp"),
        helper.make_node("Add", ["e", "b"], ["a"], name="add"),
        helper.make_node("Transpose", ["a"], ["t"], name="turn", perm=[1, 0, 2]),
        helper.make_node("ReduceMax", ["t"], ["m"], name="max", axes=[2]),
        helper.make_node("Mul", ["t", "m"], ["y"], name="mul"),
    ]
    model = _loaded(tmp_path, nodes, [8, 3, 5], {"b": _drawn(8, 1, 5)})
    x = {"x": _drawn(8, 3, 5)}
    expected = _run(model, x)
    for n_parts in (2, 4, 8):
        np.testing.assert_array_equal(_run(_in_parts(model, n_parts), x), expected)


def _wide(folder: Path) -> Model:
    """Return a narrow input and output, and wide values between them."""
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["h"], name="widen"),
        helper.make_node("Sin", ["h"], ["s"], name="sine"),
        helper.make_node("Add", ["s", "h"], ["a"], name="add"),
        helper.make_node("ReduceMax", ["a"], ["y"], name="max", axes=[1]),
    ]
    return _loaded(folder, nodes, [8, 1], {"w": _drawn(2048)})


def _peak(model: Model) -> int:
    """Return the most bytes alive at a time, on all tiles."""
    executable = compile_model(model, _MACHINE, outlines=False).executable
    return int(np.asarray(executable.memory.live.dense().sum(axis=-1)).max())


def test_values_on_the_way_are_of_one_part_at_a_time(tmp_path: Path) -> None:
    """Two wide values at a time, of the part; beside them, the input and the results so far.

    The input is alive until its last part is cut off, which is when all but two results exist.
    """
    model = _wide(tmp_path)
    wide = 2 * 8 * 2048 * 4
    assert _peak(model) == wide
    for n_parts in (2, 4):
        results = (n_parts - 2) * 8 // n_parts * 4
        assert _peak(_in_parts(model, n_parts)) == wide // n_parts + 8 * 4 + results


def _trained(model: Model, **options: Any) -> Model:
    return for_training(model, Loss(kind="cross-entropy"), Sgd(lr=0.1), **options)


def test_gradients_are_of_parts_and_summed_from_the_last_to_the_first(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="dense")]
    onnx.save(model_of(nodes, [info("x", [4, 6])], [info("y", [4, 2])], {"w": _drawn(6, 2)}), path)
    model = _trained(_in_parts(load_onnx(path, trainable=["w"]), 2))
    operations = transform(model).operations
    parts = [op for op in operations if op.name == "dense" and op.operator.key == "matmul"]
    gradients = [op for op in operations if op.operator.key == "matmul" and op not in parts]
    assert [op.operand(0).shape for op in parts] == [(2, 6)] * 2
    first = [
        op for op in operations if op.operator.key == "slice" and op.operand(0) in model.inputs
    ]
    starts = {op.output: op.attributes["starts"][0] for op in first}
    turned = {op.output: op.operand(0) for op in operations if op.operator.key == "transpose"}
    assert [starts[turned[op.operand(0)]] for op in gradients] == [2, 0]


def test_a_value_whose_gradient_is_asked_for_is_whole_there(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="dense"),
        helper.make_node("Sin", ["h"], ["s"], name="sine"),
        helper.make_node("MatMul", ["s", "v"], ["y"], name="second"),
    ]
    weights = {"w": _drawn(6, 5), "v": _drawn(5, 3)}
    model = _loaded(tmp_path, nodes, [4, 6], weights, trainable=["w", "v"])
    inputs = {"x": _drawn(4, 6), "labels": np.array([0, 2, 1, 1])}
    found = []
    for n_parts in (1, 2):
        trained = _trained(_in_parts(model, n_parts), anchors=["h"])
        compiled = compile_model(trained, _MACHINE)
        found.append(compiled.run(Engine(compiled.executable), inputs)["Gradient___h"])
    assert found[0].shape == (4, 5)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-7)


def test_dropout_draws_the_same_numbers(tmp_path: Path) -> None:
    weights = {"w": _drawn(6, 3), "ratio": np.array(0.5, np.float32), "yes": np.array(True)}
    nodes = [
        helper.make_node("Dropout", ["x", "ratio", "yes"], ["d"], name="drop"),
        helper.make_node("MatMul", ["d", "w"], ["y"], name="dense"),
    ]
    model = _loaded(tmp_path, nodes, [4, 6], weights, trainable=["w"])
    inputs = {"x": _drawn(4, 6), "labels": np.array([0, 2, 1, 1])}
    losses = []
    for n_parts in (1, 4):
        compiled = compile_model(_trained(_in_parts(model, n_parts)), _MACHINE)
        losses.append(compiled.run(Engine(compiled.executable), inputs)["loss"])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-6)


def test_parts_share_weights_that_take_in_a_factor(tmp_path: Path) -> None:
    """That of a batch normalisation, and of a power of two."""
    ones = {name: np.ones(2, np.float32) for name in ("s", "b", "m")}
    weights = {"w": _drawn(2, 3, 1, 1), "v": np.full(2, 3.0, np.float32), **ones}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("BatchNormalization", ["c", *ones, "v"], ["n"], name="norm"),
        helper.make_node("Mul", ["n", "two"], ["t"], name="twice"),
        helper.make_node("Flatten", ["t"], ["f"], name="flat"),
        helper.make_node("MatMul", ["f", "u"], ["y"], name="dense"),
    ]
    weights |= {"two": np.array(2, np.float32), "u": _drawn(8, 3)}
    model = transform(_in_parts(_loaded(tmp_path, nodes, [4, 3, 2, 2], weights), 2))
    keys = [operation.operator.key for operation in model.operations]
    assert keys == [*["slice", "convolution", "binary", "reshape", "matmul"] * 2, "concat"]
    known = [v for op in model.operations for v in op.operands if v.known is not None]
    assert len(known) == 6
    assert len(set(known)) == 3


def _constants(model: Model) -> list[str]:
    variables = compile_model(model, _MACHINE).executable.graph.variables
    return sorted(variable.name for variable in variables if variable.category == "constant")


def test_parts_read_the_same_constants(tmp_path: Path) -> None:
    """On the tiles, too: what is laid out in the same way is there once."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="dense"),
        helper.make_node("Add", ["h", "b"], ["y"], name="bias"),
    ]
    model = _loaded(tmp_path, nodes, [4, 6], {"w": _drawn(6, 2), "b": _drawn(2)})
    assert len(_constants(model)) == 2
    for n_parts in (2, 4):
        assert _constants(_in_parts(model, n_parts)) == _constants(model)


def _sequences(folder: Path) -> Model:
    """Return a convolution, a batch normalisation in training, an LSTM, a dropout and a product."""
    weights = {
        "k": _drawn(8, 3, 3),
        "w": _drawn(1, 16, 8),
        "r": _drawn(1, 16, 4),
        "v": _drawn(4, 5),
        **{name: np.full(8, 0.5, np.float32) for name in ("s", "b", "m", "q")},
        "zero": np.array([0]),
        "ratio": np.array(0.25, np.float32),
        "yes": np.array(True),
    }
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["c"], name="conv", pads=[1, 1]),
        helper.make_node(
            "BatchNormalization", ["c", "s", "b", "m", "q"], ["n", "m2", "q2"], name="norm",
            training_mode=1,
        ),
        helper.make_node("Transpose", ["n"], ["t"], name="turn", perm=[2, 0, 1]),
        helper.make_node("LSTM", ["t", "w", "r"], ["", "h"], name="lstm", hidden_size=4),
        helper.make_node("Squeeze", ["h", "zero"], ["z"], name="squeeze"),
        helper.make_node("Dropout", ["z", "ratio", "yes"], ["d"], name="drop"),
        helper.make_node("MatMul", ["d", "v"], ["y"], name="dense"),
    ]  # fmt: skip
    return _loaded(folder, nodes, [6, 3, 10], weights, trainable=["k", "w", "r", "v", "s", "b"])


@pytest.mark.parametrize("recomputation", ["none", "standard"])
def test_steps_of_a_training_are_those_of_the_whole(recomputation: str, tmp_path: Path) -> None:
    """Sums of gradients round otherwise, by part."""
    model, found = _sequences(tmp_path), []
    for n_parts in (1, 3):
        drawn = np.random.default_rng(2)
        in_parts = _in_parts(model, n_parts)
        trained = _trained(in_parts, recomputation=Recomputation(recomputation))
        with Trainer(trained, _MACHINE) as trainer:
            for _ in range(4):
                x, labels = drawn.standard_normal((6, 3, 10)), drawn.integers(0, 5, 6)
                loss = trainer.step({"x": x.astype(np.float32), "labels": labels})["loss"]
            found.append({"loss": loss, **trainer.weights()})
    for name, whole in found[0].items():
        np.testing.assert_allclose(found[1][name], whole, rtol=1e-4, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("is_joined", [True, False])
def test_parts_are_joined_between_stages_if_asked_for(tmp_path: Path, *, is_joined: bool) -> None:
    stages = {"dense": 0, "relu": 1, "softmax": 1}
    model = pipelined(split(_chain(tmp_path), {}, stages), 2)
    borders = ("ipu", "stage") if is_joined else ()
    operations = transform(_in_parts(model, 2, joined_between=borders)).operations
    copies = [op for op in operations if op.operator.key == "ipu_copy"]
    assert [op.operand(0).shape for op in copies] == ([(4, 2)] if is_joined else [(2, 2)] * 2)


def test_bad_parts_are_refused(tmp_path: Path) -> None:
    model = _chain(tmp_path)
    with pytest.raises(
        BadModel, match=r"3 parts do not divide the batch of '.*', which is 4, axis 0"
    ):
        transform(_in_parts(model, 3))
    with pytest.raises(BadOption, match="A batch has 0 parts: expected at least 1"):
        BatchParts(0)
    with pytest.raises(BadOption, match="cannot be joined between 'tile': choose of ipu, stage"):
        BatchParts(2, joined_between=("tile",))
    nodes = [helper.make_node("Exp", ["x"], ["y"], name="exp")]
    with pytest.raises(BadModel, match="has no batch to be computed in 2 parts: its first input"):
        transform(_in_parts(_loaded(tmp_path, nodes, []), 2))
