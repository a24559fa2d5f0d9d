"""Models whose operations are on several IPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tilescope.engine import Engine, compile_model, load_machine, load_onnx
from tilescope.engine.errors import BadModel, BadOption
from tilescope.engine.ir import UNPLACED, Model, Operation, Recomputation, walk
from tilescope.engine.operators.movement.ipu_copy import IPU_COPY
from tilescope.engine.session.trainer import Trainer
from tilescope.engine.training import Adam, Loss, Sgd, for_training
from tilescope.engine.transform import transform
from tilescope.engine.transform.split import split

ONE, TWO = (load_machine("gc200", n_ipus=n, tiles_per_ipu=16) for n in (1, 2))
BATCH, WIDTHS = 6, (10, 12, 8)
_RNG = np.random.default_rng(0)
WEIGHTS = {
    "w1": _RNG.normal(size=(WIDTHS[0], WIDTHS[1]), scale=0.3),
    "b1": _RNG.normal(size=WIDTHS[1], scale=0.3),
    "w2": _RNG.normal(size=(WIDTHS[1], WIDTHS[1]), scale=0.3),
    "w3": _RNG.normal(size=(WIDTHS[1], WIDTHS[2]), scale=0.3),
}
X = _RNG.normal(size=(3, BATCH, WIDTHS[0])).astype(np.float32)
LABELS = _RNG.integers(0, WIDTHS[2], (3, BATCH))

Arrays = dict[str, NDArray[Any]]

#: Splits by name: a chain, one that goes there and back, and one with nodes that say nothing.
SPLITS: Mapping[str, Mapping[str, int]] = {
    "chain": {"fc1": 0, "bias": 0, "relu": 0, "fc2": 1, "skip": 1, "fc3": 1, "softmax": 1},
    "back": {"fc1": 1, "bias": 1, "relu": 0, "fc2": 1, "skip": 0, "fc3": 1, "softmax": 0},
    "some": {"fc2": 1},
}


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of three dense layers, with a sum around the second."""
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["m"], name="fc1"),
        helper.make_node("Add", ["m", "b1"], ["h"], name="bias"),
        helper.make_node("Relu", ["h"], ["r"], name="relu"),
        helper.make_node("MatMul", ["r", "w2"], ["n"], name="fc2"),
        helper.make_node("Add", ["n", "r"], ["s"], name="skip"),
        helper.make_node("MatMul", ["s", "w3"], ["z"], name="fc3"),
        helper.make_node("Softmax", ["z"], ["y"], name="softmax", axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [BATCH, WIDTHS[0]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w.astype(np.float32), name) for name, w in WEIGHTS.items()],
    )
    path = tmp_path_factory.mktemp("models") / "network.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def _ran(model: Model, x: NDArray[np.float32]) -> Arrays:
    compiled = compile_model(model, TWO)
    with Engine(compiled.executable) as engine:
        return compiled.run(engine, {"x": x})


@pytest.mark.parametrize("name", SPLITS)
def test_values_are_those_of_one_ipu(name: str, network: Path) -> None:
    model = load_onnx(network)
    compiled = compile_model(model, ONE)
    with Engine(compiled.executable) as engine:
        expected = compiled.run(engine, {"x": X[0]})["y"]
    (actual,) = _ran(split(model, SPLITS[name]), X[0]).values()
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("name", SPLITS)
def test_what_an_operation_computes_is_on_its_ipu(name: str, network: Path) -> None:
    """Vertices and variables of an operation are on tiles of its IPU, and of no other one."""
    model = transform(split(load_onnx(network), SPLITS[name]))
    assert all(operation.placement.ipu is not None for operation in model.operations)
    ipus = {operation.name: operation.placement.ipu for operation in model.operations}
    assert SPLITS[name].items() <= ipus.items()
    executable = compile_model(split(load_onnx(network), SPLITS[name]), TWO).executable
    seen = set()
    for of_set in executable.graph.compute_sets:
        top = of_set.debug
        while top.parent is not None and top.parent.parent is not None:
            top = top.parent
        if top.name not in ipus:
            continue
        seen.add(top.name)
        for batch in of_set.batches:
            assert set(batch.tile // TWO.tiles_per_ipu) == {ipus[top.name]}, top.name
    assert seen >= {"fc1", "fc2", "fc3", "softmax"}


def _copies(model: Model) -> list[tuple[str, int]]:
    found = [op for op in walk(model.operations) if op.operator is IPU_COPY]
    return [(op.operand(0).name, op.attributes["ipu"]) for op in found]


def test_a_value_crosses_once_however_many_read_it(network: Path) -> None:
    """The result of the relu is read by two operations of the other IPU."""
    model = transform(split(load_onnx(network), SPLITS["chain"]))
    assert _copies(model) == [("r", 1)]


def test_a_model_that_says_nothing_stays_as_it_is(network: Path) -> None:
    model = transform(load_onnx(network))
    assert {operation.placement for operation in model.operations} == {UNPLACED}


@pytest.mark.parametrize("name", SPLITS)
@pytest.mark.parametrize("n_rounds", [1, 3])
@pytest.mark.parametrize("optimiser", [Sgd(lr=0.1, momentum=0.9), Adam(lr=0.01)])
@pytest.mark.parametrize("kind", ["none", "all"])
def test_training_gives_the_weights_of_one_ipu(
    name: str, n_rounds: int, optimiser: Any, kind: str, network: Path
) -> None:
    """Three micro-batches, in one step or in three; gradients follow their operations."""
    held, losses = [], []
    for machine, ipus in ((ONE, {}), (TWO, SPLITS[name])):
        model = split(load_onnx(network, trainable=list(WEIGHTS)), ipus)
        trained = for_training(
            model, Loss(kind="nll"), optimiser, n_rounds, recomputation=Recomputation(kind)
        )
        with Trainer(trained, machine) as trainer:
            if n_rounds > 1:
                losses.append(trainer.step({"x": X, "labels": LABELS})["loss"])
            else:
                steps = [
                    trainer.step({"x": x, "labels": labels})["loss"]
                    for x, labels in zip(X, LABELS, strict=True)
                ]
                losses.append(np.array(steps))
            held.append(trainer.compiled.read_held(trainer.engine))
    np.testing.assert_array_equal(losses[0], losses[1])
    assert held[0].keys() == held[1].keys()
    for weight, array in held[0].items():
        np.testing.assert_array_equal(array, held[1][weight], err_msg=weight)


def test_gradients_run_where_their_operations_do(network: Path) -> None:
    model = split(load_onnx(network, trainable=list(WEIGHTS)), SPLITS["chain"])
    trained = transform(for_training(model, Loss(kind="nll"), Sgd(lr=0.1)))
    backward = [op for op in trained.operations if op.origin is not None and op.training_pass]
    own = {op.name: op for op in backward if op.origin.name in SPLITS["chain"]}  # type: ignore[union-attr]
    assert len(own) > len(SPLITS["chain"])
    for operation in own.values():
        assert operation.origin is not None
        assert operation.placement.ipu == SPLITS["chain"][operation.origin.name], operation
    # An update runs where its weight is, whose first reader is in the forward pass.
    updates = {u.held.name: u for u in trained.updates}
    made = {v: op for op in trained.operations for v in op.results}
    assert made[updates["w1"].value].placement.ipu == 0
    assert made[updates["w3"].value].placement.ipu == 1


def test_an_operation_and_its_region_are_on_one_ipu(tmp_path: Path) -> None:
    """A branch reads what is computed on another IPU; one that is there itself is refused."""
    branch = [
        helper.make_graph(
            [helper.make_node("Mul", ["h", factor], ["z"], name=f"times {factor}")],
            f"times {factor}",
            [],
            [helper.make_tensor_value_info("z", TensorProto.FLOAT, [4])],
        )
        for factor in ("two", "three")
    ]
    nodes = [
        helper.make_node("Relu", ["x"], ["h"], name="relu", __ipu_number=0),
        helper.make_node(
            "If",
            ["condition"],
            ["y"],
            name="if",
            then_branch=branch[0],
            else_branch=branch[1],
            __ipu_number=1,
        ),
    ]
    graph = helper.make_graph(
        nodes,
        "choice",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [4]),
            helper.make_tensor_value_info("condition", TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
        [
            numpy_helper.from_array(np.array(2, np.float32), "two"),
            numpy_helper.from_array(np.array(3, np.float32), "three"),
        ],
    )
    path = tmp_path / "choice.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    model = load_onnx(path)
    x = np.array([-1, 0, 1, 2], np.float32)
    for condition, factor in ((True, 2), (False, 3)):
        compiled = compile_model(model, TWO)
        with Engine(compiled.executable) as engine:
            result = compiled.run(engine, {"x": x, "condition": np.array(condition)})
        np.testing.assert_array_equal(result["y"], factor * np.maximum(x, 0))
    with pytest.raises(BadModel, match="run on one IPU"):
        transform(split(model, {"*times*": 0}))


def test_a_weight_that_a_branch_reads_crosses(tmp_path: Path) -> None:
    """A region does not capture what the device holds, and reads it all the same."""
    branch = [
        helper.make_graph(
            [helper.make_node(kind, ["h", "w"], ["z"], name=f"branch {kind}")],
            f"branch {kind}",
            [],
            [helper.make_tensor_value_info("z", TensorProto.FLOAT, [4])],
        )
        for kind in ("Add", "Mul")
    ]
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["h"], name="first", __ipu_number=0),
        helper.make_node(
            "If",
            ["condition"],
            ["y"],
            name="if",
            then_branch=branch[0],
            else_branch=branch[1],
            __ipu_number=1,
        ),
    ]
    w = np.array([1, 2, 3, 4], np.float32)
    graph = helper.make_graph(
        nodes,
        "weight in branch",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [4]),
            helper.make_tensor_value_info("condition", TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
        [numpy_helper.from_array(w, "w")],
    )
    path = tmp_path / "branch.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    model = load_onnx(path, trainable=["w"])
    assert ("w", 1) in _copies(transform(model))
    x = np.array([-1, 0, 1, 2], np.float32)
    compiled = compile_model(model, TWO)
    with Engine(compiled.executable) as engine:
        for condition, expected in ((True, x * w + w), (False, x * w * w)):
            result = compiled.run(engine, {"x": x, "condition": np.array(condition)})
            np.testing.assert_array_equal(result["y"], expected)


def test_what_is_wrong_is_said(network: Path) -> None:
    model = load_onnx(network)
    with pytest.raises(BadOption, match="No node is called 'fc9': the model has fc1, bias"):
        split(model, {"fc9": 0})
    with pytest.raises(BadModel, match=r"'fc3' \(MatMul\) is on IPU 2, but gc200 has 2"):
        compile_model(split(model, {"fc3": 2}), TWO)


def test_hints_and_places_are_kept_by_a_copy(network: Path) -> None:
    """A placement is part of what a model is: its digest changes with it."""
    model = split(load_onnx(network), SPLITS["chain"])
    stated: list[Operation] = [
        replace(op, placement=replace(op.placement, stage=3)) for op in model.operations
    ]
    kept = transform(replace(model, operations=tuple(stated)))
    assert {op.placement.stage for op in kept.operations} == {3}
