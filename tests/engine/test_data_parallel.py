"""Training on replicas: the weights of one replica that sees all data."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tilescope.engine import load_machine, load_onnx
from tilescope.engine.compiler.executable.executable import ReplicaAccess
from tilescope.engine.errors import BadInput, BadModel, BadOption
from tilescope.engine.ir import IrBuilder, Model, ReplicaGroup, check_model
from tilescope.engine.operators.collectives import ALL_REDUCE
from tilescope.engine.session.compilation import compile_model
from tilescope.engine.session.engine import Engine
from tilescope.engine.session.trainer import Trainer
from tilescope.engine.training import Adam, Loss, Sgd, for_training
from tilescope.engine.transform import transform
from tilescope.engine.transform.merge_collectives import merge_collectives
from tilescope.engine.transform.split import split

_BATCH, _FEATURES, _CLASSES = 4, 12, 5


def network(*, dropout: float = 0.0, shared_by: ReplicaGroup | None = None) -> Model:
    """Return a net of two layers with trainable weights."""
    drawn = np.random.default_rng(0)
    weights = {
        "w1": drawn.standard_normal((_FEATURES, 16)).astype(np.float32) / 4,
        "w2": drawn.standard_normal((16, _CLASSES)).astype(np.float32) / 4,
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["h"], name="first"),
        helper.make_node("Relu", ["h"], ["r"], name="relu"),
        helper.make_node("MatMul", ["d" if dropout else "r", "w2"], ["y"], name="second"),
    ]
    if dropout:
        nodes.insert(2, helper.make_node("Dropout", ["r"], ["d"], name="drop", ratio=dropout))
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (_BATCH, _FEATURES))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (_BATCH, _CLASSES))],
        [
            helper.make_tensor(name, TensorProto.FLOAT, array.shape, array.reshape(-1).tolist())
            for name, array in weights.items()
        ],
    )
    opset = [helper.make_opsetid("", 11)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        onnx.save(model, path)
        groups = dict.fromkeys(weights, shared_by) if shared_by else None
        return load_onnx(path, trainable=["w1", "w2"], shared_by=groups)


def data(n_steps: int, n: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return inputs and labels of steps."""
    drawn = np.random.default_rng(1)
    x = drawn.standard_normal((n_steps, n, _FEATURES)).astype(np.float32)
    return x, drawn.integers(0, _CLASSES, (n_steps, n)).astype(np.int32)


def trained(
    optimiser: Any, n_replicas: int, n_rounds: int, steps: int = 4, **options: Any
) -> tuple[list[float], dict[str, NDArray[Any]]]:
    """Return the losses of the steps, and the weights after them."""
    n_ipus = options.pop("n_ipus", 1)
    machine = load_machine("gc200", n_ipus=n_ipus, n_replicas=n_replicas, tiles_per_ipu=8)
    model = for_training(
        network(), Loss(kind="cross-entropy"), optimiser, n_rounds, n_replicas=n_replicas, **options
    )
    x, labels = data(steps, _BATCH * n_replicas * n_rounds)
    front = tuple(n for n in (n_rounds, n_replicas) if n > 1)
    losses = []
    with Trainer(model, machine) as trainer:
        for batch, of_batch in zip(x, labels, strict=True):
            outputs = trainer.step(
                {
                    "x": batch.reshape(*front, _BATCH, _FEATURES),
                    "labels": of_batch.reshape(*front, _BATCH),
                }
            )
            losses.append(float(np.mean(outputs["loss"])))
        for replica in range(n_replicas):
            held = trainer.compiled.read_held(trainer.engine, replica)
            for name, array in trainer.weights().items():
                np.testing.assert_array_equal(held[name], array)
        return losses, {name: array for name, array in held.items() if array.shape}


_OPTIMISERS = {
    "sgd": Sgd(lr=0.3),
    "momentum": Sgd(lr=0.1, momentum=0.9, weight_decay=0.01),
    "combined": Sgd(lr=0.1, momentum=0.9, weight_decay=0.01, is_combined=True),
    "adam": Adam(lr=0.01),
    "clipped": Sgd(lr=0.3, clip_norm=0.05),
}


@pytest.mark.parametrize("kind", _OPTIMISERS)
@pytest.mark.parametrize(("n_replicas", "n_rounds"), [(2, 1), (4, 1), (2, 2), (3, 2)])
def test_replicas_train_as_one_that_sees_all_micro_batches(
    kind: str, n_replicas: int, n_rounds: int
) -> None:
    losses, weights = trained(_OPTIMISERS[kind], n_replicas, n_rounds)
    expected_losses, expected = trained(_OPTIMISERS[kind], 1, n_rounds * n_replicas)
    np.testing.assert_allclose(losses, expected_losses, rtol=2e-6)
    for name, array in weights.items():
        np.testing.assert_allclose(array, expected[name], rtol=2e-5, atol=2e-7)


def test_the_sum_over_replicas_instead_of_the_mean() -> None:
    losses, weights = trained(Sgd(lr=0.05), 2, 2, is_averaged=False)
    expected_losses, expected = trained(Sgd(lr=0.05), 1, 4, is_averaged=False)
    np.testing.assert_allclose(losses, expected_losses, rtol=2e-6)
    np.testing.assert_allclose(weights["w1"], expected["w1"], rtol=2e-5, atol=2e-7)


def test_two_replicas_of_equal_order_of_sums_train_to_the_same_bits() -> None:
    """Two gradients have one sum in any order."""
    losses, weights = trained(Sgd(lr=0.3), 2, 1)
    expected_losses, expected = trained(Sgd(lr=0.3), 1, 2)
    assert losses == expected_losses
    for name, array in weights.items():
        np.testing.assert_array_equal(array, expected[name])


def test_replicas_draw_other_numbers() -> None:
    machine = load_machine("gc200", n_replicas=3, tiles_per_ipu=8)
    model = for_training(
        network(dropout=0.5), Loss(kind="cross-entropy"), Sgd(lr=0.0), n_replicas=3
    )
    x, labels = data(1, _BATCH)
    with Trainer(model, machine) as trainer:
        outputs = trainer.step({"x": np.stack([x[0]] * 3), "labels": np.stack([labels[0]] * 3)})
    assert outputs["loss"].shape == (3,)
    assert len({*outputs["loss"].tolist()}) == 3


def test_replicas_infer_on_data_of_their_own() -> None:
    machine = load_machine("gc200", n_replicas=3, tiles_per_ipu=8)
    model = network()
    compiled = compile_model(model, machine)
    x = np.random.default_rng(2).standard_normal((3, _BATCH, _FEATURES)).astype(np.float32)
    with Engine(compiled.executable) as engine:
        outputs = compiled.run(engine, {"x": x})
        assert outputs["y"].shape == (3, _BATCH, _CLASSES)
        with pytest.raises(BadInput, match=r"takes an array of shape \(3, 4, 12\)"):
            compiled.run(engine, {"x": x[0]})
    one = compile_model(model, load_machine("gc200", tiles_per_ipu=8))
    with Engine(one.executable) as engine:
        for replica in range(3):
            expected = one.run(engine, {"x": x[replica]})["y"]
            np.testing.assert_array_equal(outputs["y"][replica], expected)


def test_the_program_is_compiled_once_and_costs_the_same_on_all_replicas() -> None:
    alone = for_training(network(), Loss(kind="cross-entropy"), Sgd(lr=0.1))
    model = for_training(network(), Loss(kind="cross-entropy"), Sgd(lr=0.1), n_replicas=4)
    machine = load_machine("gc200", n_replicas=4, tiles_per_ipu=8)
    with (
        Trainer(alone, load_machine("gc200", tiles_per_ipu=8)) as one,
        Trainer(model, machine, n_computed_replicas=1) as first,
    ):
        of_one = {step.debug.operation for step in one.engine.executable.steps}
        of_all = {step.debug.operation for step in first.engine.executable.steps}
        assert of_all - of_one >= {"gcl.allReduceCrossReplica"}
        x, labels = data(1, _BATCH)
        first.step({"x": np.stack([x[0]] * 4), "labels": np.stack([labels[0]] * 4)})
        n_cycles = int(first.engine.n_cycles().max())
    with Trainer(model, machine) as trainer:
        trainer.step({"x": np.stack([x[0]] * 4), "labels": np.stack([labels[0]] * 4)})
        assert int(trainer.engine.n_cycles().max()) == n_cycles


def test_a_loss_that_is_no_number_names_the_operation_on_its_replica() -> None:
    machine = load_machine("gc200", n_replicas=2, tiles_per_ipu=8)
    model = for_training(network(), Loss(kind="cross-entropy"), Sgd(lr=0.1), n_replicas=2)
    x, labels = data(1, 2 * _BATCH)
    x = x.reshape(2, _BATCH, _FEATURES)
    x[1, 0, 0] = np.inf
    with (
        Trainer(model, machine) as trainer,
        pytest.raises(BadInput, match="The loss is no number in step 1"),
    ):
        trainer.step({"x": x, "labels": labels.reshape(2, _BATCH)})


@pytest.mark.parametrize(
    "optimiser", [Sgd(lr=0.1, momentum=0.9, is_combined=True), _OPTIMISERS["adam"]]
)
@pytest.mark.parametrize("stride", [1, 2])
def test_groups_of_replicas_train_weights_of_their_own(optimiser: Any, stride: int) -> None:
    """Each group ends with the weights that it has alone on a machine."""
    group = ReplicaGroup(2, stride)
    drawn = np.random.default_rng(3)
    starts = {
        name: [drawn.standard_normal(shape).astype(np.float32) / 4 for _ in range(2)]
        for name, shape in {"w1": (_FEATURES, 16), "w2": (16, _CLASSES)}.items()
    }
    x, labels = data(3, 4 * _BATCH)
    x, labels = x.reshape(3, 4, _BATCH, _FEATURES), labels.reshape(3, 4, _BATCH)

    def ended(members: list[int], shared_by: ReplicaGroup | None) -> list[dict[str, NDArray[Any]]]:
        machine = load_machine("gc200", n_replicas=len(members), tiles_per_ipu=8)
        model = for_training(
            network(shared_by=shared_by),
            Loss(kind="cross-entropy"),
            optimiser,
            n_replicas=len(members),
            is_averaged=False,
        )
        with Trainer(model, machine) as trainer:
            before = {
                name: [arrays[group.group_of(replica)] for replica in members]
                for name, arrays in starts.items()
            }
            trainer.compiled.write_held(trainer.engine, {}, before)
            for batch, of_batch in zip(x[:, members], labels[:, members], strict=True):
                trainer.step({"x": batch, "labels": of_batch})
            return trainer.compiled.read_replicas(trainer.engine)

    together = ended([0, 1, 2, 3], group)
    assert not np.allclose(together[0]["w1"], together[3]["w1"])
    for number in range(2):
        members = [replica for replica in range(4) if group.group_of(replica) == number]
        alone = ended(members, None)
        for replica, expected in zip(members, alone, strict=True):
            for name, array in expected.items():
                np.testing.assert_array_equal(together[replica][name], array)


def test_a_decay_that_begins_with_the_weight_of_one_group_is_refused() -> None:
    model = for_training(
        network(shared_by=ReplicaGroup(1)),
        Loss(kind="cross-entropy"),
        _OPTIMISERS["combined"],
        n_replicas=2,
    )
    with pytest.raises(BadOption, match=r"values of their own of 'w1'.*use no weight decay"):
        Trainer(model, load_machine("gc200", n_replicas=2, tiles_per_ipu=8))


def test_values_of_replicas_are_as_many_as_these() -> None:
    machine = load_machine("gc200", n_replicas=2, tiles_per_ipu=8)
    model = for_training(network(), Loss(kind="cross-entropy"), Sgd(lr=0.3), n_replicas=2)
    with Trainer(model, machine) as trainer:
        compiled, engine = trainer.compiled, trainer.engine
        array = compiled.read_held(engine)["w2"]
        with pytest.raises(BadInput, match="'w2' has arrays for 3 replicas; 2 are computed"):
            compiled.write_held(engine, {}, {"w2": [array] * 3})


def test_other_numbers_of_replicas_are_refused() -> None:
    model = for_training(network(), Loss(kind="cross-entropy"), Sgd(lr=0.1), n_replicas=2)
    with pytest.raises(BadModel, match="trained on 2 replicas, and the machine has 1"):
        Trainer(model, load_machine("gc200", tiles_per_ipu=8))


def test_the_gradients_of_all_ipus_travel_together() -> None:
    """One sum for both weights, which are on two IPUs, in as many steps as one of them takes."""
    machine = load_machine("gc200", n_ipus=2, n_replicas=4, tiles_per_ipu=8)
    placed = split(network(), {"first": 0, "relu": 0, "second": 1})
    model = for_training(placed, Loss(kind="cross-entropy"), Sgd(lr=0.1), n_replicas=4)
    reductions = [op for op in transform(model).operations if op.operator is ALL_REDUCE]
    assert [len(op.inputs) for op in reductions] == [2]
    with Trainer(model, machine, n_computed_replicas=1) as trainer:
        engine = trainer.engine
        sends = [s for s in engine.executable.steps if isinstance(s.access, ReplicaAccess)]
        assert all((step.cost.link_out_bytes.dense() > 0).all() for step in sends)
        x, labels = data(1, _BATCH)
        trainer.step({"x": np.stack([x[0]] * 4), "labels": np.stack([labels[0]] * 4)})
        (timeline, _) = engine.timelines()
    ids = [step.step_id for step in sends]
    n_sends = int(timeline.count[np.isin(timeline.step_id, ids)].sum())
    assert n_sends == 2 * 3, "three steps around the ring to reduce, and three to gather"


@pytest.mark.parametrize("kind", _OPTIMISERS)
@pytest.mark.parametrize("n_rounds", [1, 3])
def test_every_optimiser_sums_the_gradients_of_all_weights_at_once(
    kind: str, n_rounds: int
) -> None:
    """Also one that updates a weight right after its sum: its updates come after all sums."""
    model = for_training(
        network(), Loss(kind="cross-entropy"), _OPTIMISERS[kind], n_rounds, n_replicas=4
    )
    transformed = transform(model)
    operations = transformed.closing if n_rounds > 1 else transformed.operations
    reductions = [op for op in operations if op.operator is ALL_REDUCE]
    assert [len(op.inputs) for op in reductions] == [2]


def test_what_reads_a_sum_comes_after_those_that_travel_with_it() -> None:
    builder = IrBuilder("net")
    x, y = (builder.input(name, (4,), "float32") for name in "xy")
    group: dict[str, Any] = {"operation": "add", "size": 2, "stride": 1}
    first = builder.emit(ALL_REDUCE, [x], name="first", source="sum", **group)
    again = builder.emit(ALL_REDUCE, [first], name="again", source="sum", **group)
    other = builder.emit(ALL_REDUCE, [y], name="other", source="sum", **group)
    largest = builder.emit(
        ALL_REDUCE, [y], name="max", source="max", **{**group, "operation": "max"}
    )
    model = builder.finish([("a", again), ("b", other), ("c", largest)])
    merged = merge_collectives(model)
    check_model(merged)
    assert [len(op.inputs) for op in merged.operations] == [1, 2, 1]


def test_a_checkpoint_keeps_what_differs_between_replicas(tmp_path: Path) -> None:
    """Running statistics are those of the data that a replica has seen."""
    drawn = np.random.default_rng(0)
    constants = {
        "w": drawn.standard_normal((3, 3, 1, 1)).astype(np.float32),
        "scale": np.ones(3, np.float32),
        "bias": np.zeros(3, np.float32),
        "mean": np.zeros(3, np.float32),
        "variance": np.ones(3, np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node(
            "BatchNormalization",
            ["c", "scale", "bias", "mean", "variance"],
            ["y", "", ""],
            training_mode=1,
        ),
    ]
    shape = (2, 3, 4, 4)
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    path = tmp_path / "net.onnx"
    opset = [helper.make_opsetid("", 15)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    machine = load_machine("gc200", n_replicas=2, tiles_per_ipu=8)
    model = for_training(
        load_onnx(path, trainable=["*"]), Loss(kind="identity"), Sgd(lr=0.1), n_replicas=2
    )
    batches = drawn.standard_normal((4, 2, *shape)).astype(np.float32)
    with Trainer(model, machine) as trainer:
        for batch in batches[:2]:
            trainer.step({"x": batch})
        trainer.save(tmp_path / "half.npz")
        for batch in batches[2:]:
            trainer.step({"x": batch})
        whole = trainer.compiled.read_replicas(trainer.engine)
    assert not np.array_equal(whole[0]["mean"], whole[1]["mean"])
    with Trainer(model, machine) as trainer:
        trainer.restore(tmp_path / "half.npz")
        for batch in batches[2:]:
            trainer.step({"x": batch})
        continued = trainer.compiled.read_replicas(trainer.engine)
    for before, after in zip(whole, continued, strict=True):
        for name, array in before.items():
            np.testing.assert_array_equal(after[name], array, name)
    with (
        Trainer(model, machine, n_computed_replicas=1) as trainer,
        pytest.raises(BadInput, match=r"values of 2 replicas .* and 1 are computed"),
    ):
        trainer.restore(tmp_path / "half.npz")
