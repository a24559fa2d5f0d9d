"""Values in streaming memory: the same numbers as on the tiles, and less tile memory."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tilescope.engine import Engine, compile_model, resolve_options
from tilescope.engine.compiler.executable.executable import Executable, RemoteAccess, Step
from tilescope.engine.compiler.overlap import nodes_of
from tilescope.engine.errors import BadGraph, BadModel, BadOption
from tilescope.engine.frontend.onnx import load_onnx
from tilescope.engine.ir import KINDS, Location, LocationRule, Locations, Model, Placement, Purpose
from tilescope.engine.machine import load_machine
from tilescope.engine.session.trainer import LossNotFinite, Trainer
from tilescope.engine.training import (
    Adam,
    AutomaticScaling,
    ClipGroup,
    Descent,
    Lamb,
    Loss,
    Sgd,
    for_training,
)

MACHINE = load_machine("gc200", tiles_per_ipu=16)
_RNG = np.random.default_rng(0)
BATCH, WIDTHS = 8, (64, 96, 96, 64)
X = _RNG.normal(size=(6, BATCH, WIDTHS[0])).astype(np.float32)
LABELS = _RNG.integers(0, WIDTHS[-1], (6, BATCH))

Arrays = dict[str, NDArray[Any]]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of three dense layers."""
    nodes, weights, before = [], {}, "x"
    for i, (n_in, n_out) in enumerate(pairwise(WIDTHS)):
        weights[f"w{i}"] = _RNG.normal(size=(n_out, n_in), scale=0.2)
        weights[f"b{i}"] = _RNG.normal(size=n_out, scale=0.2)
        after = "y" if i == len(WIDTHS) - 2 else f"h{i}"
        gemm = [before, f"w{i}", f"b{i}"]
        nodes.append(helper.make_node("Gemm", gemm, [after], name=f"fc{i}", transB=1))
        if after != "y":
            nodes.append(helper.make_node("Relu", [after], [f"r{i}"], name=f"relu{i}"))
        before = f"r{i}"
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [BATCH, WIDTHS[0]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()],
    )
    path = tmp_path_factory.mktemp("models") / "network.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def off_chip(*kinds: str) -> Locations:
    return Locations({kind: LocationRule(Location(is_off_chip=True)) for kind in kinds})


def trained(network: Path, optimiser: Descent, *kinds: str, **options: Any) -> Model:
    model = load_onnx(network, trainable=["*"])
    model = replace(model, locations=off_chip(*kinds))
    return for_training(model, Loss(kind="cross-entropy"), optimiser, **options)


def batch(step: int, n_rounds: int = 1) -> Arrays:
    if n_rounds == 1:
        return {"x": X[step], "labels": LABELS[step]}
    chosen = slice(step * n_rounds, (step + 1) * n_rounds)
    return {"x": X[chosen], "labels": LABELS[chosen]}


def steps(trainer: Trainer, n_rounds: int = 1) -> NDArray[Any]:
    return np.array([trainer.step(batch(i, n_rounds))["loss"] for i in range(2)])


def moved_bytes(trainer: Trainer) -> tuple[int, int]:
    """Return the bytes that the programs of a trainer load and store."""
    loaded, stored = 0, 0
    for step in trainer.compiled.executable.steps:
        if isinstance(step.access, RemoteAccess):
            loaded += int(step.cost.remote_in_bytes.sum())
            stored += int(step.cost.remote_out_bytes.sum())
    return loaded, stored


ADAM = Adam(lr=1e-2, weight_decay=0.01)


@pytest.fixture(scope="module")
def plain(network: Path) -> dict[int, tuple[list[float], Arrays]]:
    """Return losses and held values of two steps on the tiles, by number of micro-batches."""
    of_rounds = {}
    for n_rounds in (1, 2):
        with Trainer(trained(network, ADAM, n_rounds=n_rounds), MACHINE) as trainer:
            losses = steps(trainer, n_rounds).tolist()
            of_rounds[n_rounds] = losses, trainer.compiled.read_held(trainer.engine)
    return of_rounds


@pytest.mark.parametrize(
    ("kinds", "n_rounds"),
    [
        (("optimizer-state",), 1),
        (("weights",), 1),
        (("activations",), 1),
        (("accumulators",), 2),
        (tuple(KINDS), 2),
    ],
)
def test_values_are_those_on_the_tiles(
    network: Path,
    plain: dict[int, tuple[list[float], Arrays]],
    kinds: tuple[str, ...],
    n_rounds: int,
) -> None:
    losses, held = plain[n_rounds]
    with Trainer(trained(network, ADAM, *kinds, n_rounds=n_rounds), MACHINE) as trainer:
        assert steps(trainer, n_rounds).tolist() == losses
        for name, array in trainer.compiled.read_held(trainer.engine).items():
            assert np.array_equal(array, held[name]), name


def state_bytes(trainer: Trainer, purpose: Purpose = Purpose.OPTIMISER_STATE) -> int:
    """Return the bytes of the variables of a purpose that a run begins with, without scalars."""
    variables = trainer.compiled.executable.graph.variables
    kept = [v for v in variables if v.values is not None and v.purpose == purpose]
    return sum(v.n_elements * v.dtype.n_bytes for v in kept if v.n_elements > 1)


PAIRS = [*pairwise(WIDTHS)]
N_PARAMETERS = sum(n_in * n_out + n_out for n_in, n_out in PAIRS)


def test_tile_memory_falls_by_what_moves(network: Path) -> None:
    adam = Adam(lr=1e-2)
    with Trainer(trained(network, adam), MACHINE) as trainer:
        moments_bytes = 2 * 4 * N_PARAMETERS  # two moments of every weight, in float32
        assert state_bytes(trainer) == moments_bytes
        assert state_bytes(trainer, Purpose.WEIGHT) == 4 * N_PARAMETERS
        assert moved_bytes(trainer) == (0, 0)
        peak = peak_bytes(trainer)
    with Trainer(trained(network, adam, "optimizer-state"), MACHINE) as trainer:
        assert state_bytes(trainer) == 0
        assert moved_bytes(trainer) == (moments_bytes, moments_bytes)
        largest_bytes = 2 * 4 * (WIDTHS[1] * WIDTHS[2])  # those of one weight are there at a time
        fallen_bytes = peak - peak_bytes(trainer)
        assert moments_bytes - 2 * largest_bytes < fallen_bytes < moments_bytes
    with Trainer(trained(network, adam, "weights"), MACHINE) as trainer:
        assert state_bytes(trainer, Purpose.WEIGHT) == 0
        loaded, stored = moved_bytes(trainer)
        biases = sum(WIDTHS[1:])
        # Forward, backward by the data but in the first layer, update; biases not by the data.
        weights = N_PARAMETERS - biases
        assert loaded == 4 * (3 * weights - WIDTHS[0] * WIDTHS[1] + 2 * biases)
        assert stored == 4 * N_PARAMETERS


def peak_bytes(trainer: Trainer) -> int:
    """Return the most bytes on all tiles at a time."""
    return int(trainer.compiled.executable.memory.excluding_gaps.sum())


def sharded(*off: str, least: int = 1) -> Locations:
    rule = LocationRule(Location(is_off_chip=bool(off), is_sharded=True), least_sharded=least)
    return Locations({"optimizer-state": rule})


@pytest.mark.parametrize(
    "optimiser",
    [
        Lamb(lr=1e-2, weight_decay=0.1),
        Sgd(lr=0.1, momentum=0.9, clip_norm=0.1),
        Adam(lr=1e-2, clip_groups=(ClipGroup(weights=("w*",), norm=0.01),)),
        Adam(lr=1e-2, scaling=AutomaticScaling()),
    ],
    ids=["lamb", "clip", "groups", "scaling"],
)
def test_shards_of_replicas_are_the_whole(network: Path, optimiser: Descent) -> None:
    machine = load_machine("gc200", tiles_per_ipu=8, n_ipus=2, n_replicas=2)
    plain = trained(network, optimiser, n_replicas=2)
    data = [{k: np.stack([v, v[::-1]]) for k, v in batch(i).items()} for i in range(2)]
    with Trainer(plain, machine) as trainer:
        losses = [trainer.step(inputs)["loss"] for inputs in data]
        weights, before = trainer.weights(), state_bytes(trainer)
        held = trainer.compiled.read_held(trainer.engine)
    with Trainer(replace(plain, locations=sharded()), machine) as trainer:
        now = [trainer.step(inputs)["loss"] for inputs in data]
        np.testing.assert_allclose(now, losses, rtol=2e-6)
        for name, weight in trainer.weights().items():
            np.testing.assert_allclose(weight, weights[name], rtol=1e-4, atol=1e-6, err_msg=name)
        for name, array in trainer.compiled.read_held(trainer.engine).items():
            assert array.shape == held[name].shape
            np.testing.assert_allclose(array, held[name], rtol=1e-3, atol=1e-6, err_msg=name)
        n_states = 1 if isinstance(optimiser, Sgd) else 2
        shares = sum(-(-n // 2) for n in (*(a * b for a, b in PAIRS), *WIDTHS[1:]))
        assert before - state_bytes(trainer) == n_states * 4 * (N_PARAMETERS - shares)
        again = {
            name: array * 2 for name, array in trainer.compiled.read_held(trainer.engine).items()
        }
        trainer.set_weights(again)
        for name, array in trainer.compiled.read_held(trainer.engine).items():
            assert np.array_equal(array, again[name])


def test_a_step_that_is_taken_back_restores_streaming_memory(network: Path) -> None:
    with Trainer(trained(network, Adam(lr=1e-2), *KINDS), MACHINE) as trainer:
        trainer.step(batch(0))
        before = trainer.compiled.read_held(trainer.engine)
        with pytest.raises(LossNotFinite):
            trainer.step({**batch(1), "x": np.full_like(X[1], np.inf)})
        for name, array in trainer.compiled.read_held(trainer.engine).items():
            assert np.array_equal(array, before[name]), name


def test_a_checkpoint_has_what_is_off_chip_and_in_shards(network: Path, tmp_path: Path) -> None:
    machine = load_machine("gc200", tiles_per_ipu=8, n_ipus=2, n_replicas=2)
    adam = Adam(lr=1e-2)
    plain = trained(network, adam, n_replicas=2)
    data = [{k: np.stack([v, v[::-1]]) for k, v in batch(i).items()} for i in range(2)]
    with Trainer(replace(plain, locations=sharded("off")), machine) as trainer:
        trainer.step(data[0])
        trainer.save(tmp_path / "state.npz")
        held = trainer.compiled.read_held(trainer.engine)
        after = trainer.step(data[1])["loss"]
    with np.load(tmp_path / "state.npz") as saved:
        assert saved["Accl1___w1"].shape == (WIDTHS[2], WIDTHS[1])
    with Trainer(replace(plain, locations=sharded("off")), machine) as trainer:
        trainer.restore(tmp_path / "state.npz")
        for name, array in trainer.compiled.read_held(trainer.engine).items():
            assert np.array_equal(array, held[name])
        assert trainer.step(data[1])["loss"].tolist() == after.tolist()


def test_what_cannot_be_is_refused(network: Path, tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="no kind of values 'gradients': choose weights, opt"):
        off_chip("gradients")
    with pytest.raises(BadOption, match="'weights' cannot be sharded over replicas: shard optim"):
        Locations({"weights": LocationRule(Location(is_sharded=True))})
    with pytest.raises(BadOption, match="least elements of a value off chip are 0"):
        LocationRule(least_off_chip=0)
    path = tmp_path / "small.toml"
    path.write_text('base = "gc200"\n[common]\nstreaming_memory_bytes = 0\n')
    machine = load_machine(str(path), tiles_per_ipu=16)
    with pytest.raises(BadGraph, match=r"streaming memory of .* with 1 IPU holds 0 bytes"):
        Trainer(trained(network, Adam(), "optimizer-state"), machine)
    two = load_machine("gc200", tiles_per_ipu=8, n_ipus=2, n_replicas=2)
    model = replace(trained(network, Adam(), n_replicas=2), locations=sharded())
    with pytest.raises(BadModel, match="all 2 must be computed, not 1: leave out the sharding"):
        Trainer(model, two, n_computed_replicas=1)
    combined = Sgd(lr=0.1, momentum=0.9, is_combined=True)
    model = replace(trained(network, combined, n_replicas=2), locations=sharded())
    with pytest.raises(BadOption, match="is_combined adds gradients to the velocity of every"):
        Trainer(model, two)


def phased(model: Model, phases: dict[str, int]) -> Model:
    """Return a model whose nodes of some names are in phases."""
    return replace(
        model,
        operations=tuple(
            replace(op, placement=Placement(phase=phases[op.name])) if op.name in phases else op
            for op in model.operations
        ),
    )


PHASES = {"fc0": 0, "fc1": 1, "fc2": 2}


def test_phases_run_one_after_the_other(
    network: Path, plain: dict[int, tuple[list[float], Arrays]]
) -> None:
    losses, held = plain[1]
    model = phased(trained(network, ADAM, *KINDS), PHASES)
    with Trainer(model, MACHINE) as trainer:
        assert steps(trainer).tolist() == losses
        for name, array in trainer.compiled.read_held(trainer.engine).items():
            assert np.array_equal(array, held[name]), name
        names = [step.name for step in trainer.compiled.executable.steps if step.access]
        loads = [name.split("/")[0] for name in names if "/load" in name]
        weights = [name for name in dict.fromkeys(loads) if name.startswith("w")]
        assert weights == ["w0", "w1", "w2"]  # the forward pass
        # The backward pass needs the weights of all phases but the first, the last one first.
        assert [name for name in loads if name.startswith("w")][3:5] == ["w2", "w1"]
    inference = phased(load_onnx(network), PHASES)
    expected = on_tiles(inference)
    phases_, weights_ = off_chip("weights", "activations"), off_chip("weights")
    for locations in (phases_, weights_):
        result = on_tiles(replace(inference, locations=locations))
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)  # sums in another order


def on_tiles(model: Model) -> NDArray[Any]:
    compiled = compile_model(model, MACHINE)
    with Engine(compiled.executable, resolve_options(environ={})) as engine:
        return compiled.run(engine, {"x": X[0]})["y"]


def test_phases_out_of_order_are_refused(network: Path) -> None:
    model = phased(load_onnx(network), PHASES | {"fc1": 3})
    model = replace(model, locations=off_chip("weights"))
    sentence = (
        r"Node 'fc2' \(Gemm\) is in phase 2 and reads what Node 'relu1' \(Relu\) computes in phase"
        r" 3: phases run in ascending order, so state 3 or a later one for 'fc2'"
    )
    with pytest.raises(BadModel, match=sentence):
        compile_model(model, MACHINE)


def test_a_model_larger_than_the_tiles_runs_in_phases(network: Path) -> None:
    """The weights alone exceed all tiles: one phase of them fits at a time."""
    machine = load_machine("gc200", tiles_per_ipu=2)
    layers = {f"fc{i}": i for i in range(12)}
    width, n_bytes = 192, 12 * 192 * 192 * 4
    assert n_bytes > machine.capacity_bytes
    rng = np.random.default_rng(1)
    weights = {f"w{i}": rng.normal(size=(width, width), scale=0.07) for i in range(12)}
    nodes = [
        helper.make_node("MatMul", [f"h{i}", f"w{i}"], [f"h{i + 1}"], name=f"fc{i}")
        for i in range(12)
    ]
    graph = helper.make_graph(
        nodes,
        "deep",
        [helper.make_tensor_value_info("h0", TensorProto.FLOAT, [1, width])],
        [helper.make_tensor_value_info("h12", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()],
    )
    path = network.parent / "deep.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    model = phased(load_onnx(path), layers)
    assert compile_model(model, machine).executable.overfull_tiles.size
    compiled = compile_model(replace(model, locations=off_chip("weights")), machine)
    assert not compiled.executable.overfull_tiles.size
    x = rng.normal(size=(1, width)).astype(np.float32)
    with Engine(compiled.executable, resolve_options(environ={})) as engine:
        result = compiled.run(engine, {"h0": x})["h12"]
    expected = x.astype(np.float64)
    for weight in weights.values():
        expected = expected @ weight.astype(np.float32)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    remote = [s for s in compiled.executable.steps if isinstance(s.access, RemoteAccess)]
    assert sum(int(step.cost.remote_in_bytes.sum()) for step in remote) == n_bytes


@pytest.mark.parametrize("n_rounds", [1, 2])
def test_copies_run_beside_compute(
    network: Path, plain: dict[int, tuple[list[float], Arrays]], n_rounds: int
) -> None:
    losses, held = plain[n_rounds]
    locations = replace(off_chip(*KINDS), n_io_tiles=4)
    model = replace(trained(network, ADAM, n_rounds=n_rounds), locations=locations)
    with Trainer(model, MACHINE) as trainer:
        np.testing.assert_allclose(steps(trainer, n_rounds), losses, rtol=1e-5)
        for name, array in trainer.compiled.read_held(trainer.engine).items():
            np.testing.assert_allclose(array, held[name], rtol=1e-3, atol=1e-5, err_msg=name)
        executable = trainer.compiled.executable
        assert {"Overlap"} <= {node.kind for node in executable.nodes}
        io_tiles = set(executable.graph.io_tiles.tolist())
        for step in executable.steps:
            if isinstance(step.access, RemoteAccess):
                tiles = np.concatenate([v.map_tile for v in step.access.tensor.variables])
                assert set(tiles.tolist()) <= io_tiles
        if n_rounds == 1:
            one_after_the_other = sum(int(s.cost.cycles.max()) for s in steps_of_run(executable))
            assert trainer.engine.n_cycles().max() < one_after_the_other


def steps_of_run(executable: Executable) -> list[Step]:
    """Return the steps of the program of a run, which has no loop."""
    return [node.step for node in nodes_of(executable.roots[0]) if node.step is not None]


def test_io_tiles_that_cannot_be_are_refused(network: Path) -> None:
    with pytest.raises(BadOption, match="number of I/O tiles is 3: expected an even number"):
        Locations(n_io_tiles=3)
    model = replace(load_onnx(network), locations=replace(off_chip("weights"), n_io_tiles=16))
    with pytest.raises(BadModel, match="16 I/O tiles leave none to compute: gc200 has 16 tiles"):
        compile_model(model, MACHINE)
