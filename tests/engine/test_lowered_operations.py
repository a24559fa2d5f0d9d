"""Operations that an earlier program had are not lowered again, and never taken for others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tests.engine.compiler.flat import flat

from tilescope import engine
from tilescope.engine.compiler import phase_costs
from tilescope.engine.compiler.cache import plans
from tilescope.engine.compiler.cycles.cycles import compute_cost
from tilescope.engine.compiler.exchange import exchanges
from tilescope.engine.compiler.exchange.exchange import exchange_of
from tilescope.engine.compiler.executable.executable import CompileRecord
from tilescope.engine.graph import ComputeSet
from tilescope.engine.graph.identity.arrangement import (
    arrangement_of,
    on_diagonal,
    padded,
    rearranged,
    weight,
)
from tilescope.engine.ir import Operation
from tilescope.engine.lower import fragments
from tilescope.engine.options.available_memory import AvailableMemory
from tilescope.engine.options.partials import PartialsTypes
from tilescope.engine.session import record_files
from tilescope.engine.session.compiled_model import CompiledModel
from tilescope.engine.training import Loss, Sgd, for_training

TILES = 32
Array = NDArray[Any]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_folder(tmp_path / "plans", monkeypatch)


def in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep plans and lowered operations in a folder."""
    monkeypatch.setattr(plans, "memo_folder", lambda: folder)


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list of the operations that are lowered from now on."""
    names: list[str] = []
    lower = fragments.lowered

    def noted(place: Any, operation: Operation) -> Any:
        names.append(operation.name)
        return lower(place, operation)

    monkeypatch.setattr(fragments, "lowered", noted)
    return names


def drawn(*shape: int, seed: int = 1) -> Array:
    """Return weights."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def saved(
    path: Path,
    nodes: list[Any],
    weights: dict[str, Array],
    shape: list[int],
    name: str = "edited",
) -> Path:
    """Save a model of an input ``x`` and an output ``y``."""
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        name,
        [info("x", TensorProto.FLOAT, shape)],
        [info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(values, key) for key, values in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)
    return path


def image_nodes() -> list[Any]:
    """Return convolutions, a pool, sums, a product and a softmax."""
    node = helper.make_node
    same: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    return [
        node("Conv", ["x", "w1", "b1"], ["c1"], name="first", **same),
        node("Relu", ["c1"], ["r1"], name="cut1"),
        node("Conv", ["r1", "w2"], ["c2"], name="second", group=4, **same),
        node("Add", ["c2", "r1"], ["s"], name="sum"),
        node("Relu", ["s"], ["r2"], name="cut2"),
        node("MaxPool", ["r2"], ["p"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", ["p"], ["f"], name="flatten"),
        node("MatMul", ["f", "w3"], ["m"], name="product"),
        node("Add", ["m", "b3"], ["n"], name="bias"),
        node("Softmax", ["n"], ["y"], name="shares"),
    ]


def image_weights(seed: int = 1) -> dict[str, Array]:
    """Return the weights of `image_nodes`."""
    shapes = {"w1": (8, 3, 3, 3), "b1": (8,), "w2": (8, 2, 3, 3), "w3": (128, 10), "b3": (10,)}
    return {name: drawn(*shape, seed=seed + i) for i, (name, shape) in enumerate(shapes.items())}


def image_model(path: Path, edit: Callable[[list[Any]], None] | None = None, seed: int = 1) -> Path:
    """Save a small network, after an edit of its nodes."""
    nodes = image_nodes()
    if edit is not None:
        edit(nodes)
    return saved(path, nodes, image_weights(seed), [1, 3, 8, 8])


def compiled(path: Path, **options: Any) -> CompiledModel:
    """Compile the model of a file."""
    machine = engine.load_machine("gc200", tiles_per_ipu=TILES)
    return engine.compile_model(engine.load_onnx(path), machine, **options)


def content(model: CompiledModel) -> list[Any]:
    """Return all that a program consists of."""
    return flat(replace(model.executable.alone, record=CompileRecord()))


def other(nodes: list[Any], name: str, **changes: Any) -> None:
    """Change the type of a node, or its attributes."""
    (node,) = (node for node in nodes if node.name == name)
    for key, value in changes.items():
        if key == "op_type":
            node.op_type = value
        else:
            (attribute,) = (item for item in node.attribute if item.name == key)
            attribute.CopyFrom(helper.make_attribute(key, value))


def renamed(nodes: list[Any], name: str) -> None:
    """Give the second relu another name."""
    nodes[4].name = name


def inserted(nodes: list[Any]) -> None:
    """Insert a sigmoid after the first sum."""
    other_sum = next(node for node in nodes if node.name == "sum")
    other_sum.output[0] = "before"
    place = nodes.index(other_sum) + 1
    nodes.insert(place, helper.make_node("Sigmoid", ["before"], ["s"], name="new"))


def removed(nodes: list[Any]) -> None:
    """Remove the second relu."""
    del nodes[4]
    nodes[4].input[0] = "s"


EDITS: dict[str, tuple[Callable[[list[Any]], None], int]] = {
    "another function": (lambda nodes: other(nodes, "cut2", op_type="Sigmoid"), 3),
    "a function in the middle": (inserted, 4),
    "without a function": (removed, 3),
    "another pool": (lambda nodes: other(nodes, "pool", op_type="AveragePool"), 4),
    "another name": (partial(renamed, name="other"), 3),
}


def test_an_unchanged_model_is_not_lowered_again(tmp_path: Path, lowered: list[str]) -> None:
    path = image_model(tmp_path / "model.onnx")
    cold = compiled(path)
    assert len(lowered) > 10
    lowered.clear()
    assert content(compiled(path)) == content(cold)
    assert lowered == []


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_model_pays_for_what_changed(
    name: str, tmp_path: Path, lowered: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    edit, most = EDITS[name]
    path = image_model(tmp_path / "edited.onnx", edit)
    in_folder(tmp_path / "without", monkeypatch)
    anew = compiled(path)
    in_folder(tmp_path / "plans", monkeypatch)
    compiled(image_model(tmp_path / "model.onnx"))
    lowered.clear()
    assert content(compiled(path)) == content(anew)
    assert 0 < len(lowered) <= most, lowered
    lowered.clear()
    assert content(compiled(path)) == content(anew)
    assert lowered == []


def test_other_weights_are_laid_out_without_lowering(
    tmp_path: Path, lowered: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = image_model(tmp_path / "retrained.onnx", seed=40)
    in_folder(tmp_path / "without", monkeypatch)
    anew = compiled(path)
    in_folder(tmp_path / "plans", monkeypatch)
    first = compiled(image_model(tmp_path / "model.onnx"))
    lowered.clear()
    retrained = compiled(path)
    assert lowered == []
    assert content(retrained) == content(anew) != content(first)


def test_contents_that_decide_vertices_belong_to_the_key(
    tmp_path: Path, lowered: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def selecting(path: Path, *places: int) -> Path:
        nodes = [
            helper.make_node("Gather", ["x", "places"], ["g"], name="select", axis=0),
            helper.make_node("Relu", ["g"], ["y"], name="cut"),
        ]
        return saved(path, nodes, {"places": np.array(places, np.int64)}, [6, 24])

    paths = [
        selecting(tmp_path / f"{i}.onnx", *places) for i, places in enumerate(((0, 3), (5, 1)))
    ]
    in_folder(tmp_path / "without", monkeypatch)
    anew = compiled(paths[1])
    in_folder(tmp_path / "plans", monkeypatch)
    compiled(paths[0])
    lowered.clear()
    assert content(compiled(paths[1])) == content(anew)
    assert "select" in lowered
    for path in paths:
        lowered.clear()
        compiled(path)
        assert lowered == []


@pytest.mark.parametrize(
    "options",
    [
        {"available_memory": AvailableMemory(0.1, 0.1)},
        {"partials": PartialsTypes("half", "half")},
    ],
)
def test_options_that_plans_read_belong_to_the_key(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = image_model(tmp_path / "model.onnx")
    in_folder(tmp_path / "without", monkeypatch)
    anew = compiled(path, **options)
    in_folder(tmp_path / "plans", monkeypatch)
    compiled(path)
    assert content(compiled(path, **options)) == content(anew)


def test_machines_have_operations_of_their_own(tmp_path: Path, lowered: list[str]) -> None:
    path = image_model(tmp_path / "model.onnx")
    compiled(path)
    lowered.clear()
    engine.compile_model(engine.load_onnx(path), engine.load_machine("gc200", tiles_per_ipu=16))
    assert len(lowered) > 10


def test_operations_inside_loops_are_taken(tmp_path: Path, lowered: list[str]) -> None:
    weights = {"W": drawn(1, 32, 4), "R": drawn(1, 32, 8)}
    node = helper.make_node("LSTM", ["x", "W", "R"], ["y"], hidden_size=8, name="layer")
    path = saved(tmp_path / "model.onnx", [node], weights, [5, 2, 4])
    cold = compiled(path)
    lowered.clear()
    assert content(compiled(path)) == content(cold)
    assert lowered == []


def test_a_trained_model_is_the_same_program(tmp_path: Path, lowered: list[str]) -> None:
    machine = engine.load_machine("gc200", tiles_per_ipu=TILES)

    def step() -> CompiledModel:
        nodes = image_nodes()[:-1]
        nodes[-1].output[0] = "y"
        weights = image_weights()
        path = saved(tmp_path / "model.onnx", nodes, weights, [1, 3, 8, 8])
        model = engine.load_onnx(path, trainable=tuple(weights))
        trained = for_training(model, Loss(kind="mse", labels="labels"), Sgd(lr=0.01))
        return engine.compile_model(trained, machine)

    cold = step()
    n_cold = len(lowered)
    lowered.clear()
    assert content(step()) == content(cold)
    assert len(lowered) < n_cold / 4


def damages(whole: bytes) -> list[bytes]:
    """Return a file that is empty, cut short, or has another bit."""
    place = len(whole) // 2
    return [b"", whole[:-1], whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]]


@pytest.mark.parametrize("kind", ["fragments", "lowered"])
def test_damaged_files_are_lowered_again(kind: str, tmp_path: Path, lowered: list[str]) -> None:
    path = image_model(tmp_path / "model.onnx")
    cold = compiled(path)
    n_cold = len(lowered)
    (file,) = (tmp_path / "plans" / "lowered").glob(f"*.{kind}")
    for damaged in damages(file.read_bytes()):
        file.write_bytes(damaged)
        lowered.clear()
        assert content(compiled(path)) == content(cold)
        assert len(lowered) == n_cold
    file.unlink()
    lowered.clear()
    assert content(compiled(path)) == content(cold)
    assert len(lowered) == n_cold


@pytest.fixture
def costed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the compute sets whose phases are costed from now on."""
    names: list[str] = []

    def noted_exchange(compute_sets: list[ComputeSet], *args: Any, **options: Any) -> Any:
        names.extend(f"exchange {compute_set.name}" for compute_set in compute_sets)
        return exchange_of(compute_sets, *args, **options)

    def noted_compute(compute_set: ComputeSet, *args: Any) -> Any:
        names.append(f"compute {compute_set.name}")
        return compute_cost(compute_set, *args)

    monkeypatch.setattr(exchanges, "exchange_of", noted_exchange)
    monkeypatch.setattr(phase_costs, "compute_cost", noted_compute)
    return names


def test_phases_of_an_earlier_program_are_not_costed_again(
    tmp_path: Path, costed: list[str]
) -> None:
    cold = compiled(image_model(tmp_path / "model.onnx"))
    n_cold = len(costed)
    assert n_cold > 20
    costed.clear()
    assert content(compiled(tmp_path / "model.onnx")) == content(cold)
    assert costed == []
    compiled(image_model(tmp_path / "edited.onnx", EDITS["another function"][0]))
    assert 0 < len(costed) < n_cold / 4
    costed.clear()
    machine = engine.load_machine("gc200", tiles_per_ipu=16)
    engine.compile_model(engine.load_onnx(tmp_path / "model.onnx"), machine)
    assert costed, "another machine has costs of its own"


def test_damaged_costs_are_computed_again(
    tmp_path: Path, costed: list[str], lowered: list[str]
) -> None:
    path = image_model(tmp_path / "model.onnx")
    cold = compiled(path)
    n_cold = len(costed)
    lowered.clear()
    (file,) = (tmp_path / "plans" / "lowered").glob("*.costs")
    for damaged in damages(file.read_bytes()):
        file.write_bytes(damaged)
        costed.clear()
        assert content(compiled(path)) == content(cold)
        assert len(costed) == n_cold
    assert lowered == []


def test_an_index_names_a_bounded_number_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lowered: list[str]
) -> None:
    monkeypatch.setattr(record_files, "_MOST_FILES", 3)
    base = image_model(tmp_path / "model.onnx")
    cold = compiled(base)
    for i in range(5):
        compiled(image_model(tmp_path / "e.onnx", partial(renamed, name=f"cut {i}")))
    lowered.clear()
    assert content(compiled(base)) == content(cold)
    assert lowered == [], "the file used most stays"


def test_what_takes_too_many_bytes_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_files, "_MOST_BYTES", 1000)
    path = image_model(tmp_path / "model.onnx")
    compiled(path)
    assert not (tmp_path / "plans" / "lowered").exists()


def test_an_arrangement_leads_from_other_weights_to_the_same_places() -> None:
    first, second = drawn(6, 4, 2, 3), drawn(6, 4, 2, 3, seed=2)

    def laid(array: Array) -> Array:
        turned = array.reshape(2, 3, 4, 6).transpose(0, 2, 1, 3).swapaxes(0, 1)
        parts = np.split(padded(turned, (0, 1, 0, 2)), 2, axis=3)
        return on_diagonal(parts[1], 1, 0).reshape(-1)

    arranged = laid(weight("w", first))
    arrangement = arrangement_of(arranged)
    assert arrangement is not None
    assert np.array_equal(arranged, laid(first))
    assert np.array_equal(rearranged(second, arrangement[1]), laid(second))


UNKNOWN: dict[str, Callable[[Array], Array]] = {
    "a sum": lambda array: array + 1,
    "a concatenation": lambda array: np.concatenate([array, array]),
    "a row": lambda array: array[0],
    "a selection": lambda array: array[[1, 0]],
    "a comparison": lambda array: np.where(array > 0, array, 0),
    "another type": lambda array: array.astype(np.float16),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_else_is_done_with_weights_is_no_arrangement(name: str) -> None:
    assert arrangement_of(UNKNOWN[name](weight("w", drawn(3, 4)))) is None
