"""Pipelines: stages on several micro-batches at a time, with the values of one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tests.engine.many_threads import share_all

from tilescope.engine import Engine, compile_model, load_machine, load_onnx
from tilescope.engine.compiler.executable.executable import Executable, Node
from tilescope.engine.errors import BadModel
from tilescope.engine.execute.timeline import timeline_of
from tilescope.engine.ir import Model, Recomputation
from tilescope.engine.lower.pipeline import cycles_of
from tilescope.engine.operators.movement.ipu_copy import IPU_COPY
from tilescope.engine.operators.movement.stash import RESTORE, STASH
from tilescope.engine.session.trainer import Trainer
from tilescope.engine.training import Adam, Loss, Sgd, for_training
from tilescope.engine.transform import transform
from tilescope.engine.transform.split import split
from tilescope.engine.transform.stages import pipelined

MACHINES = {n: load_machine("gc200", n_ipus=n, tiles_per_ipu=8) for n in (1, 2, 3, 4)}
BATCH, WIDTH, CLASSES, MOST_ROUNDS = 4, 8, 5, 14
_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(MOST_ROUNDS, BATCH, WIDTH)).astype(np.float32)
LABELS = _RNG.integers(0, CLASSES, (MOST_ROUNDS, BATCH))

Arrays = dict[str, NDArray[Any]]


class Graph:
    """Collects nodes and weights of a model."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: Arrays = {}
        #: Stage by node.
        self.stages: dict[str, int] = {}

    def weight(self, name: str, *shape: int) -> str:
        scale = 1 / np.sqrt(shape[0])
        rng = np.random.default_rng(len(self.weights))
        self.weights[name] = rng.normal(size=shape, scale=scale).astype(np.float32)
        return name

    def constant(self, name: str, values: Any) -> str:
        self.weights[name] = np.asarray(values)
        return name

    def node(self, kind: str, inputs: Sequence[str], name: str, stage: int, **settings: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [f"{name}_out"], name=name, **settings))
        self.stages[name] = stage
        return f"{name}_out"

    def dense(self, value: str, i: int, stage: int, n_out: int = WIDTH) -> str:
        value = self.node("MatMul", [value, self.weight(f"w{i}", WIDTH, n_out)], f"fc{i}", stage)
        return self.node("Add", [value, self.weight(f"b{i}", n_out)], f"bias{i}", stage)

    def saved(self, folder: Path, output: str) -> Path:
        self.nodes[-1].output[0] = "y"
        for node in self.nodes:
            node.input[:] = ["y" if name == output else name for name in node.input]
        graph = helper.make_graph(
            self.nodes,
            "network",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [BATCH, WIDTH])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(w, name) for name, w in self.weights.items()],
        )
        path = folder / "network.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
        return path


def _chain(graph: Graph, n_stages: int) -> str:
    """Dense layers; the last one gives scores."""
    value = "x"
    for i in range(n_stages):
        value = graph.dense(value, i, i, CLASSES if i == n_stages - 1 else WIDTH)
        if i < n_stages - 1:
            value = graph.node("Relu", [value], f"relu{i}", i)
    return graph.node("Softmax", [value], "softmax", n_stages - 1, axis=1)


def _skips(graph: Graph, n_stages: int) -> str:
    """Like a chain, with the first layer's result added in every stage, and the input in the last.

    Nothing says where the additions of the second half run.
    """
    value = first = graph.dense("x", 0, 0)
    for i in range(1, n_stages):
        value = graph.node("Tanh", [graph.dense(value, i, i)], f"tanh{i}", i)
        value = graph.node("Add", [value, first], f"skip{i}", i)
        if 2 * i > n_stages:
            del graph.stages[f"skip{i}"]
    value = graph.node("Mul", [value, "x"], "gate", n_stages - 1)
    value = graph.dense(value, n_stages, n_stages - 1, CLASSES)
    return graph.node("Softmax", [value], "softmax", n_stages - 1, axis=1)


def _dropouts(graph: Graph, n_stages: int) -> str:
    """Dense layers, each with a dropout."""
    ratio = graph.constant("ratio", np.array(0.25, np.float32))
    yes = graph.constant("yes", np.array(True))
    value = "x"
    for i in range(n_stages):
        value = graph.node("Dropout", [graph.dense(value, i, i), ratio, yes], f"drop{i}", i)
    value = graph.dense(value, n_stages, n_stages - 1, CLASSES)
    return graph.node("Softmax", [value], "softmax", n_stages - 1, axis=1)


def _norms(graph: Graph, n_stages: int) -> str:
    """Dense layers, each with a batch normalisation that keeps running statistics."""
    value = "x"
    for i in range(n_stages):
        value = graph.dense(value, i, i)
        inputs = [graph.weight(f"{kind}{i}", WIDTH) for kind in ("scale", "shift", "mean")]
        inputs.append(graph.constant(f"var{i}", np.ones(WIDTH, np.float32)))
        name = f"norm{i}"
        node = helper.make_node(
            "BatchNormalization",
            [value, *inputs],
            [f"{name}_out", f"mean{i}_now", f"var{i}_now"],
            name=name,
            training_mode=1,
        )
        graph.nodes.append(node)
        graph.stages[name] = i
        value = f"{name}_out"
    value = graph.dense(value, n_stages, n_stages - 1, CLASSES)
    return graph.node("Softmax", [value], "softmax", n_stages - 1, axis=1)


def _recurrent(graph: Graph, n_stages: int) -> str:
    """An LSTM in the first stage whose steps are the batch, a decision and a loop in the second."""
    hidden = WIDTH // 2
    value = graph.node(
        "Unsqueeze", ["x", graph.constant("one", np.array([1], np.int64))], "steps", 0
    )
    weights = [graph.weight(name, 1, 4 * hidden, size) for name, size in (("w", WIDTH), ("r", 4))]
    value = graph.node("LSTM", [value, *weights], "lstm", 0, hidden_size=hidden)
    shape = graph.constant("shape", np.array([BATCH, hidden], np.int64))
    value = graph.node("Reshape", [value, shape], "flat", 0)
    value = graph.node("MatMul", [value, graph.weight("u", hidden, WIDTH)], "up", 0)
    total = graph.node("ReduceSum", ["x"], "total", 1, keepdims=0)
    is_positive = graph.node(
        "Greater", [total, graph.constant("zero", np.array(0, np.float32))], "sign", 1
    )
    branches = [
        helper.make_graph(
            [helper.make_node("Mul", [value, graph.weight(w, WIDTH)], ["z"], name=f"times {w}")],
            w,
            [],
            [helper.make_tensor_value_info("z", TensorProto.FLOAT, [BATCH, WIDTH])],
        )
        for w in ("p", "q")
    ]
    settings = {"then_branch": branches[0], "else_branch": branches[1]}
    value = graph.node("If", [is_positive], "choice", 1, **settings)
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["s", graph.weight("v", WIDTH, WIDTH)], ["t"], name="turn"),
            helper.make_node("Tanh", ["t"], ["s_out"], name="bend"),
            helper.make_node("Identity", ["go"], ["go_out"], name="on"),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("s", TensorProto.FLOAT, [BATCH, WIDTH]),
        ],
        [
            helper.make_tensor_value_info("go_out", TensorProto.BOOL, []),
            helper.make_tensor_value_info("s_out", TensorProto.FLOAT, [BATCH, WIDTH]),
        ],
    )
    trips = graph.constant("trips", np.array(3, np.int64))
    go = graph.constant("go0", np.array(True))
    value = graph.node("Loop", [trips, go, value], "loop", 1, body=body)
    value = graph.dense(value, n_stages, n_stages - 1, CLASSES)
    return graph.node("Softmax", [value], "softmax", n_stages - 1, axis=1)


def _transformer(graph: Graph, n_stages: int) -> str:
    """Attention and a layer of GELU in every stage but the last, which reads the first's table."""
    position = graph.constant("positions", np.array([[0, 2, 1, 3, 7, 6, 5, 4]], np.int64))
    table = graph.weight("table", WIDTH, WIDTH)
    ids = graph.node("Add", ["x", graph.constant("shift", np.array(3.5, np.float32))], "ids_f", 0)
    ids = graph.node(
        "Clip",
        [ids, *(graph.constant(f"end{i}", np.array(i, np.float32)) for i in (0, 7))],
        "ids_c",
        0,
    )
    ids = graph.node("Cast", [ids], "ids", 0, to=TensorProto.INT64)
    value = graph.node("Gather", [table, ids], "embedding", 0)
    place = graph.node("Gather", [graph.weight("place", WIDTH, WIDTH), position], "place_of", 0)
    value = graph.node("Add", [value, place], "embedded", 0)
    for i in range(n_stages - 1):
        parts = [
            graph.node(
                "MatMul", [value, graph.weight(f"{kind}{i}", WIDTH, WIDTH)], f"{kind}{i}_of", i
            )
            for kind in "qkv"
        ]
        turned = graph.node("Transpose", [parts[1]], f"turn{i}", i, perm=[0, 2, 1])
        scores = graph.node("MatMul", [parts[0], turned], f"scores{i}", i)
        share = graph.node("Softmax", [scores], f"share{i}", i, axis=-1)
        seen = graph.node("MatMul", [share, parts[2]], f"seen{i}", i)
        value = graph.node("Add", [value, seen], f"around{i}", i)
        norms = [graph.weight(f"{kind}{i}", WIDTH) for kind in ("scale", "shift")]
        value = graph.node("LayerNormalization", [value, *norms], f"norm{i}", i)
        inner = graph.node(
            "MatMul", [value, graph.weight(f"up{i}", WIDTH, 2 * WIDTH)], f"up{i}_of", i
        )
        half = graph.node(
            "Mul", [inner, graph.constant(f"half{i}", np.array(0.5, np.float32))], f"half{i}_of", i
        )
        root = graph.node(
            "Div",
            [inner, graph.constant(f"root{i}", np.array(2**0.5, np.float32))],
            f"root{i}_of",
            i,
        )
        above = graph.node(
            "Add",
            [
                graph.node("Erf", [root], f"erf{i}", i),
                graph.constant(f"one{i}", np.array(1, np.float32)),
            ],
            f"above{i}",
            i,
        )
        inner = graph.node("Mul", [half, above], f"gelu{i}", i)
        inner = graph.node(
            "MatMul", [inner, graph.weight(f"down{i}", 2 * WIDTH, WIDTH)], f"down{i}_of", i
        )
        value = graph.node("Add", [value, inner], f"sum{i}", i)
    last = n_stages - 1
    value = graph.node("ReduceMean", [value], "mean", last, axes=[1], keepdims=0)
    turned = graph.node("Transpose", [table], "turned", last, perm=[1, 0])
    return graph.node(
        "Softmax", [graph.node("MatMul", [value, turned], "scores", last)], "softmax", last, axis=1
    )


Maker = Callable[[Graph, int], str]
MODELS: Mapping[str, Maker] = {
    "chain": _chain,
    "skips": _skips,
    "dropouts": _dropouts,
    "norms": _norms,
    "recurrent": _recurrent,
    "transformer": _transformer,
}


def _model(
    folder: Path, name: str, n_stages: int, trainable: Sequence[str] | None = None
) -> tuple[Model, dict[str, int]]:
    """Return a model without stages, and its stages."""
    graph = Graph()
    path = graph.saved(folder, MODELS[name](graph, n_stages))
    if trainable is None:
        return load_onnx(path), graph.stages
    weights = [w for w, a in graph.weights.items() if a.dtype == np.float32 and a.ndim]
    return load_onnx(path, trainable=[*weights]), graph.stages


def _trained(model: Model, n_ipus: int, n_rounds: int, optimiser: Any, kind: str) -> Arrays:
    """Return the losses of two steps, and the weights and statistics after them."""
    trained = for_training(
        model, Loss(kind="nll"), optimiser, n_rounds, recomputation=Recomputation(kind)
    )
    with Trainer(trained, MACHINES[n_ipus]) as trainer:
        x, labels = X[:n_rounds], LABELS[:n_rounds]
        inputs: Arrays = {"x": x, "labels": labels}
        if n_rounds == 1:
            inputs = {name: array[0] for name, array in inputs.items()}
        losses = [trainer.step(inputs)["loss"] for _ in range(2)]
        return {"loss": np.array(losses), **trainer.compiled.read_held(trainer.engine)}


def _compare(actual: Arrays, expected: Arrays) -> None:
    assert actual.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(actual[name], array, err_msg=name)


@pytest.mark.parametrize(("name", "n_stages"), [("chain", 2), ("skips", 3), ("skips", 4)])
@pytest.mark.parametrize("n_rounds", [1, 2, 7])
def test_inference_gives_the_values_of_one_ipu(
    name: str, n_stages: int, n_rounds: int, tmp_path: Path
) -> None:
    model, stages = _model(tmp_path, name, n_stages)
    compiled = compile_model(model, MACHINES[1])
    with Engine(compiled.executable) as engine:
        expected = [compiled.run(engine, {"x": x})["y"] for x in X[:n_rounds]]
    piped = compile_model(pipelined(split(model, {}, stages), n_rounds), MACHINES[n_stages])
    with Engine(piped.executable) as engine:
        for _ in range(2):
            x = X[:n_rounds] if n_rounds > 1 else X[0]
            actual = piped.run(engine, {"x": x})["y"]
            np.testing.assert_array_equal(actual.reshape(n_rounds, BATCH, -1), expected)


@pytest.mark.parametrize(
    ("name", "n_stages", "n_rounds", "optimiser", "kind"),
    [
        ("chain", 2, 4, Sgd(lr=0.1, momentum=0.9), "none"),
        ("chain", 3, 3, Adam(lr=0.01), "all"),
        ("chain", 4, 9, Adam(lr=0.01), "none"),
        ("skips", 3, 5, Sgd(lr=0.1, momentum=0.9), "none"),
        ("skips", 4, 6, Adam(lr=0.01), "pipeline"),
        ("skips", 3, 4, Sgd(lr=0.1), "standard"),
        ("dropouts", 3, 5, Sgd(lr=0.1, momentum=0.9), "none"),
        ("dropouts", 2, 4, Sgd(lr=0.1), "pipeline"),
        ("norms", 2, 4, Sgd(lr=0.1, momentum=0.9), "none"),
        ("norms", 3, 6, Sgd(lr=0.1), "pipeline"),
        ("recurrent", 2, 4, Sgd(lr=0.1), "none"),
    ],
)
def test_training_gives_the_weights_of_one_ipu(
    name: str, n_stages: int, n_rounds: int, optimiser: Any, kind: str, tmp_path: Path
) -> None:
    """Losses, weights, running statistics, seeds and the optimiser's states, bit for bit."""
    model, stages = _model(tmp_path, name, n_stages, trainable=())
    expected = _trained(model, 1, n_rounds, optimiser, "none")
    piped = pipelined(split(model, {}, stages))
    _compare(_trained(piped, n_stages, n_rounds, optimiser, kind), expected)


@pytest.mark.parametrize("kind", ["none", "standard", "pipeline"])
def test_a_transformer_with_a_table_for_both_ends(kind: str, tmp_path: Path) -> None:
    """The first and the last stage are on one IPU; each has a sum of its gradients of the table.

    That is another order of additions than that of one IPU.
    """
    model, stages = _model(tmp_path, "transformer", 3, trainable=())
    expected = _trained(model, 1, 6, Adam(lr=0.01), "none")
    ipus = {name: (0, 1, 0)[stage] for name, stage in stages.items()}
    piped = pipelined(split(model, ipus, stages))
    actual = _trained(piped, 2, 6, Adam(lr=0.01), kind)
    assert actual.keys() - expected.keys() == {"Accum___table/1"}
    np.testing.assert_array_equal(actual["loss"][0], expected["loss"][0])
    for name, array in expected.items():
        np.testing.assert_allclose(actual[name], array, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    ("optimiser", "stashed"),
    [(Adam(lr=0.01), set()), (Sgd(lr=0.1, momentum=0.9, is_combined=True), {"Gradient___table"})],
    ids=["sums of their own", "one velocity"],
)
def test_no_gradient_of_a_table_for_both_ends_waits(
    optimiser: Any, stashed: set[str], tmp_path: Path
) -> None:
    """The last stage would keep the table's gradient of every micro-batch for the first one."""
    model, stages = _model(tmp_path, "transformer", 3, trainable=())
    ipus = {name: (0, 1, 0)[stage] for name, stage in stages.items()}
    trained = for_training(pipelined(split(model, ipus, stages)), Loss(kind="nll"), optimiser, 6)
    operations = transform(trained).operations
    waiting = {op.operand(0).name for op in operations if op.operator is STASH}
    assert {name for name in waiting if "table" in name} == stashed


def test_an_anchor_has_the_sum_of_all_stages(tmp_path: Path) -> None:
    """Of the gradients of a table that two stages read."""
    model, stages = _model(tmp_path, "transformer", 3, trainable=())
    ipus = {name: (0, 1, 0)[stage] for name, stage in stages.items()}

    def gradients(of: Model, n_ipus: int) -> NDArray[Any]:
        trained = for_training(of, Loss(kind="nll"), Sgd(lr=0.1), 4, anchors=["table"])
        with Trainer(trained, MACHINES[n_ipus]) as trainer:
            answer = trainer.step({"x": X[:4], "labels": LABELS[:4]})
            return answer["Gradient___table"]

    expected = gradients(model, 1)
    actual = gradients(pipelined(split(model, ipus, stages)), 2)
    assert expected.any()
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("n_rounds", range(1, 11))
def test_any_number_of_micro_batches(n_rounds: int, tmp_path: Path) -> None:
    """Also fewer than stages, so that never all of them work."""
    model, stages = _model(tmp_path, "dropouts", 3, trainable=())
    expected = _trained(model, 1, n_rounds, Sgd(lr=0.1, momentum=0.9), "none")
    piped = pipelined(split(model, {}, stages))
    _compare(_trained(piped, 3, n_rounds, Sgd(lr=0.1, momentum=0.9), "none"), expected)


@pytest.mark.parametrize("ipus", [(0, 0, 0, 0), (0, 1, 0, 1), (0, 0, 1, 1), (1, 0, 0, 2)])
@pytest.mark.parametrize("kind", ["none", "pipeline"])
def test_several_stages_on_one_ipu(ipus: Sequence[int], kind: str, tmp_path: Path) -> None:
    """Sequential, interleaved and grouped stages."""
    model, stages = _model(tmp_path, "skips", 4, trainable=())
    expected = _trained(model, 1, 9, Sgd(lr=0.1, momentum=0.9), "none")
    placed = split(model, {node: ipus[stage] for node, stage in stages.items()}, stages)
    actual = _trained(pipelined(placed), max(ipus) + 1, 9, Sgd(lr=0.1, momentum=0.9), kind)
    _compare(actual, expected)


def _piped(
    folder: Path, name: str, n_stages: int, n_rounds: int, ipus: Sequence[int] = ()
) -> Executable:
    """Return the program of a training step, of as many stages as IPUs or on some IPUs."""
    model, stages = _model(folder, name, n_stages, trainable=())
    ipus = ipus or range(n_stages)
    placed = split(model, {node: ipus[stage] for node, stage in stages.items()}, stages)
    trained = for_training(pipelined(placed), Loss(kind="nll"), Sgd(lr=0.1), n_rounds)
    return compile_model(trained, MACHINES[max(ipus) + 1]).executable


def _named(node: Node) -> list[Any]:
    """Return the names of blocks, loops with their counts, and functions."""
    inside = [item for child in node.children for item in _named(child)]
    if node.kind == "Block":
        return [(node.name, inside)]
    if node.kind == "Repeat":
        return [(node.repeat_count, inside)]
    return [node.name] if node.kind == "Call" else inside


def test_the_program_reads_as_a_pipeline(tmp_path: Path) -> None:
    """Fill, main and drain; a cycle loads, works, stores and copies."""
    executable = _piped(tmp_path, "chain", 2, 7)
    blocks: dict[str, Any] = dict(
        item for item in _named(executable.roots[0]) if isinstance(item, tuple)
    )
    load = ["forward 0: load", "forward 1, backward 1: load"]
    both, store = ["forward 0", "forward 1, backward 1"], ["forward 1, backward 1: store"]
    assert blocks == {
        "fill": [load[0], both[0], "copies", *load, *both, *store, "copies"],
        "main": [(5, [*load, *both, "backward 0", *store, "copies"])],
        "drain": [load[1], both[1], "backward 0", *store, "copies", "backward 0", "copies"],
    }


@pytest.mark.parametrize("n_stages", [1, 3, 5])
@pytest.mark.parametrize("n_rounds", [1, 2, 3, 5, 9])
def test_every_stage_does_every_round_once(n_stages: int, n_rounds: int) -> None:
    cycles = [c.stages for c in cycles_of(n_stages, n_rounds) for _ in range(c.n_cycles)]
    assert len(cycles) == n_rounds + n_stages - 1
    for stage in range(n_stages):
        active = [cycle for cycle, stages in enumerate(cycles) if stage in stages]
        assert active == list(range(stage, stage + n_rounds))


def _counts(executable: Executable, n_ipus: int) -> list[dict[str, int]]:
    """Return how often steps run on every IPU, by name."""
    with Engine(executable) as engine:
        counts: list[dict[str, int]] = []
        for line in engine.timelines()[:n_ipus]:
            of_ipu: dict[str, int] = {}
            for step, count in zip(line.step_id.tolist(), line.count.tolist(), strict=True):
                if executable.steps[step].kind == "OnTileExecute":
                    name = executable.steps[step].name
                    of_ipu[name] = of_ipu.get(name, 0) + count
            counts.append(of_ipu)
    return counts


@pytest.mark.parametrize(("n_stages", "n_rounds"), [(2, 5), (3, 4), (4, 12)])
def test_cycles_and_idle_cycles(n_stages: int, n_rounds: int, tmp_path: Path) -> None:
    """The copy step runs in G + 2P - 2 cycles; a stage is idle in 2(P - 1) of them."""
    counts = _counts(_piped(tmp_path, "chain", n_stages, n_rounds), n_stages)
    for ipu, of_ipu in enumerate(counts):
        n_cycles = of_ipu["ipuCopies/ipuCopy"]
        assert n_cycles == n_rounds + 2 * n_stages - 2
        for name in (f"fc{ipu}/matmul/convolve", f"fc{ipu}:MatMulWeightsGrad/matmul/convolve"):
            idle = n_cycles - of_ipu[name]
            assert idle == 2 * (n_stages - 1)
            assert idle / n_cycles == 2 * (n_stages - 1) / (n_rounds + 2 * (n_stages - 1))


@pytest.mark.parametrize(("name", "n_stages"), [("chain", 2), ("skips", 3), ("dropouts", 4)])
def test_a_micro_batch_more_takes_one_cycle_more(name: str, n_stages: int, tmp_path: Path) -> None:
    """Cycles are affine in the micro-batches once all stages work at a time, in a loop."""
    fewest = 2 * n_stages  # 2P - 1 stages: of as many micro-batches, main is no loop yet

    def cycles(n_rounds: int) -> NDArray[Any]:
        executable = _piped(tmp_path, name, n_stages, n_rounds)
        lines = timeline_of(executable.roots[0], executable.machine)
        return np.array([line.n_cycles for line in lines])

    first = cycles(fewest)
    one = cycles(fewest + 1) - first
    for n_more in (2, 5, 500):
        np.testing.assert_array_equal(cycles(fewest + n_more) - first, n_more * one)


@pytest.mark.parametrize(("n_stages", "n_rounds"), [(2, 5), (3, 4), (4, 9)])
def test_equal_stages_run_side_by_side(n_stages: int, n_rounds: int, tmp_path: Path) -> None:
    """Of cycles in which some IPU works, one is idle in a share of (P - 1) / (G + P - 1)."""
    graph = Graph()
    value = "x"
    for i in range(n_stages):
        # Every stage reads its input twice, so that none may write over it at first.
        bent = graph.node("Tanh", [value], f"tanh{i}", i)
        value = graph.node("Mul", [bent, value], f"tanh{i}_gate", i)
    path = graph.saved(tmp_path, value)
    model = pipelined(split(load_onnx(path), {}, graph.stages), n_rounds)
    executable = compile_model(model, MACHINES[n_stages]).executable
    works: list[tuple[int, int]] = []
    with Engine(executable) as engine:
        for line in engine.timelines():
            for entry, step in enumerate(line.step_id.tolist()):
                if "tanh" not in executable.steps[step].name:
                    continue
                first, period = int(line.start[entry]), int(line.period[entry])
                length = int(line.end[entry]) - first
                times = range(int(line.count[entry]))
                works += [(first + i * period, first + i * period + length) for i in times]
    assert len({end - start for start, end in works}) <= 2
    busy = sum(end - start for start, end in works)
    some = sorted(set(works))
    assert all(end <= start for (_, end), (start, _) in pairwise(some))
    total = n_stages * sum(end - start for start, end in some)
    assert 1 - busy / total == pytest.approx((n_stages - 1) / (n_rounds + n_stages - 1), abs=1e-12)


def _inside(node: Node) -> list[Node]:
    return [node, *(inner for child in node.children for inner in _inside(child))]


@pytest.mark.parametrize("name", ["chain", "skips", "dropouts", "norms"])
def test_no_stage_waits_for_another_one_while_it_works(name: str, tmp_path: Path) -> None:
    """External syncs are in loads, stores and the copy step, which is one exchange."""
    executable = _piped(tmp_path, name, 3, 6)
    exchanges = 0
    for function in executable.functions:
        steps = [node.step for node in _inside(function) if node.step is not None]
        external = [step for step in steps if step.cost.sync_zone == "external"]
        if function.name == "copies":
            exchanges += sum(step.kind == "GlobalExchange" for step in steps)
        elif ":" not in function.name:
            assert not external, (function.name, external)
    assert exchanges == 1


def test_stashes_hold_the_micro_batches_between_two_stages(tmp_path: Path) -> None:
    """What a stage keeps: 2d + 1 micro-batches at distance d from the last one, none there."""
    executable = _piped(tmp_path, "chain", 3, 9)
    stashes = [v for v in executable.graph.variables if v.name.endswith("/stash")]
    per_ipu, one = MACHINES[3].tiles_per_ipu, BATCH * WIDTH
    assert sorted((v.name, v.shape, *set(v.map_tile // per_ipu)) for v in stashes) == [
        ("Stash/relu0_out/stash", (3, one), 1),  # of relu's gradient on IPU 0, of fc1's on IPU 1
        ("Stash/relu0_out/stash", (5, one), 0),
        ("Stash/relu1_out/stash", (3, one), 1),
        ("Stash/x/stash", (5, one), 0),
    ]
    assert {v.purpose for v in stashes} == {"stash"}


def test_slots_take_one_step_and_no_exchange(tmp_path: Path) -> None:
    """Every tile counts by itself what a stash and its restore read."""
    executable = _piped(tmp_path, "chain", 3, 9)
    kinds: dict[str, list[str]] = {}
    for step in executable.steps:
        kinds.setdefault(step.name.partition("/")[0], []).append(step.kind)
    assert kinds["Slot"] == ["OnTileExecute"] * 4  # of stages 0, 1, 3 and 4
    assert set(kinds["Stash"]) == set(kinds["Restore"]) == {"OnTileExecute"}


def test_what_is_computed_again_is_not_stashed(tmp_path: Path) -> None:
    """With recomputation of stages, only what reaches a stage is."""
    model, stages = _model(tmp_path, "chain", 3, trainable=())
    kept = {}
    for kind in ("none", "pipeline"):
        trained = for_training(
            pipelined(split(model, {}, stages)),
            Loss(kind="nll"),
            Sgd(lr=0.1),
            6,
            recomputation=Recomputation(kind),
        )
        operations = transform(trained).operations
        kept[kind] = {op.operand(0).name for op in operations if op.operator is STASH}
    assert kept == {"none": {"x", "relu0_out", "relu1_out"}, "pipeline": {"x", "relu0_out"}}


def test_what_a_stage_sends_is_not_live_outside_of_it(tmp_path: Path) -> None:
    """In cycles in which a stage does nothing, what it would send is of no round."""
    executable = _piped(tmp_path, "chain", 3, 9)
    memory, variables = executable.memory, executable.graph.variables
    always = {v.name for v in variables if memory.is_always_live[v.variable_id]}
    assert {name for name in always if name.startswith("Stash/")}
    sent = {op.operand(0).name for op in _copies(tmp_path)}
    assert sent
    assert not {name for name in always if name.split("/")[0] in sent}


def _copies(folder: Path) -> list[Any]:
    model, stages = _model(folder, "chain", 3, trainable=())
    trained = for_training(pipelined(split(model, {}, stages)), Loss(kind="nll"), Sgd(lr=0.1), 9)
    return [op for op in transform(trained).operations if op.operator is IPU_COPY]


def test_a_value_passes_every_stage_on_its_way(tmp_path: Path) -> None:
    """A value for the last of four stages passes two IPUs; those that read it share it."""
    model, stages = _model(tmp_path, "skips", 4)
    ways = [
        (op.placement.stage, op.placement.ipu)
        for op in transform(pipelined(split(model, {}, stages), 8)).operations
        if op.operator is IPU_COPY and op.operand(0).name == "bias0_out"
    ]
    assert ways == [(0, 1), (1, 2), (2, 3)]


def test_stages_of_one_ipu_need_no_copies(tmp_path: Path) -> None:
    model, stages = _model(tmp_path, "skips", 3)
    placed = split(model, dict.fromkeys(stages, 0), stages)
    operations = transform(pipelined(placed, 8)).operations
    assert not [op for op in operations if op.operator is IPU_COPY]
    stashed = {op.operand(0).name: op.output.shape[0] for op in operations if op.operator is STASH}
    assert stashed["bias0_out"] == 3
    assert sum(op.operator is RESTORE for op in operations) > 3


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    model, stages = _model(tmp_path, "chain", 3, trainable=())

    def refused(message: str, stated: Mapping[str, int], ipus: Mapping[str, int] = {}) -> None:
        with pytest.raises(BadModel, match=message):
            transform(pipelined(split(model, ipus, stated), 4))

    refused(
        "none in stage 1: stages of a pipeline follow each other",
        {n: 2 * (s > 0) for n, s in stages.items()},
    )
    refused("stages 1, 2, 3, and none in stage 0", {n: s + 1 for n, s in stages.items()})
    refused(
        r"'bias0' \(Add\) of stage 0 reads 'fc0_out', which .* of stage 1 computes",
        {**stages, "fc0": 1},
    )
    refused(
        r"Stage 0 is on two IPUs: Node 'fc0' \(MatMul\) on IPU 0, and Node 'bias0' \(Add\) on IPU",
        stages,
        {"fc0": 0, "bias0": 1},
    )
    with pytest.raises(BadModel, match="is on IPU 2, but gc200 has 2"):
        compile_model(pipelined(split(model, {}, stages), 4), MACHINES[2])
    trained = for_training(
        model, Loss(kind="nll"), Sgd(lr=0.1), recomputation=Recomputation("pipeline")
    )
    with pytest.raises(BadModel, match="is of the stages of a pipeline, and 'network' has none"):
        transform(trained)


def test_a_parameter_on_two_ipus_is_refused(tmp_path: Path) -> None:
    """Tied weights: on one IPU they are read by both stages, and updated once."""
    graph = Graph()
    value = graph.node("MatMul", ["x", graph.weight("w", WIDTH, WIDTH)], "first", 0)
    value = graph.node("Tanh", [value], "tanh", 0)
    value = graph.node("MatMul", [value, "w"], "second", 1)
    path = graph.saved(tmp_path, graph.node("Softmax", [value], "softmax", 1, axis=1))
    model = load_onnx(path, trainable=["w"])
    trained = for_training(
        pipelined(split(model, {}, graph.stages)), Loss(kind="nll"), Sgd(lr=0.1), 4
    )
    message = "'w' is read in stage 0 on IPU 0 and in stage 1 on IPU 1: a pipeline does not copy"
    with pytest.raises(BadModel, match=message):
        transform(trained)
    expected = _trained(model, 1, 5, Sgd(lr=0.1, momentum=0.9), "none")
    placed = split(model, dict.fromkeys(graph.stages, 0), graph.stages)
    actual = _trained(pipelined(placed), 1, 5, Sgd(lr=0.1, momentum=0.9), "none")
    assert actual.keys() - expected.keys() == {"Accum___w/1"}
    for name, array in expected.items():
        np.testing.assert_allclose(actual[name], array, rtol=1e-5, atol=1e-6, err_msg=name)


def test_weights_that_every_micro_batch_changes(tmp_path: Path) -> None:
    """Without accumulation, the first of two stages reads weights of three micro-batches ago."""
    graph = Graph()
    value = graph.node("MatMul", ["x", graph.weight("w", WIDTH, WIDTH)], "first", 0)
    value = graph.node("MatMul", [value, graph.weight("v", WIDTH, 1)], "second", 1)
    path = graph.saved(tmp_path, value)
    model = pipelined(split(load_onnx(path, trainable=["w", "v"]), {}, graph.stages), 7)
    loss = Loss(kind="identity", reduction="sum")
    with Trainer(for_training(model, loss, Sgd(lr=0.01)), MACHINES[2]) as trainer:
        actual = trainer.step({"x": X[:7]})["loss"]
        held = trainer.weights()
    w, v = graph.weights["w"].astype(float), graph.weights["v"].astype(float)
    expected, waiting = [], list[Any]()
    for x in X[:7].astype(float):
        hidden = x @ w
        expected.append((hidden @ v).sum())
        # The gradient reaches the first stage two cycles later, after the forward pass there.
        waiting.append(np.outer(x.sum(0), v[:, 0]))
        v = v - 0.01 * hidden.sum(0)[:, None]
        if len(waiting) > 2:
            w = w - 0.01 * waiting.pop(0)
    for gradient in waiting:
        w = w - 0.01 * gradient
    np.testing.assert_allclose(actual, expected, rtol=1e-4)
    np.testing.assert_allclose(held["w"], w, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(held["v"], v, rtol=1e-4, atol=1e-5)


def test_micro_batches_are_stated_once(tmp_path: Path) -> None:
    model, stages = _model(tmp_path, "chain", 2, trainable=())
    trained = for_training(pipelined(split(model, {}, stages), 4), Loss(kind="nll"), Sgd(lr=0.1), 4)
    with pytest.raises(BadModel, match="with 4 micro-batches and trained with 4: state"):
        transform(trained)


@pytest.mark.parametrize("n_threads", [2, 3])
def test_threads_compute_the_same_bits(
    n_threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, stages = _model(tmp_path, "dropouts", 3, trainable=())
    piped = pipelined(split(model, {}, stages))
    expected = _trained(piped, 3, 6, Sgd(lr=0.1, momentum=0.9), "none")
    share_all(monkeypatch, n_threads)
    _compare(_trained(piped, 3, 6, Sgd(lr=0.1, momentum=0.9), "none"), expected)
