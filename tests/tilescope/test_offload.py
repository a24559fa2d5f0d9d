"""``--offload`` of ``tilescope run`` and ``tilescope train``, and ``--shard``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from tests.tilescope.conftest import Outcome

Run = Callable[..., Outcome]
_OPTIONS = ("--tiles", 8, "--batch", 4)


@pytest.fixture
def product(tmp_path: Path) -> Path:
    """Return the file of a product with a weight of 64 KiB."""
    weight = np.random.default_rng(0).standard_normal((128, 128), np.float32)
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["y"], name="product")]
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "product",
        [info("x", onnx.TensorProto.FLOAT, [4, 128])],
        [info("y", onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    opset = [onnx.helper.make_opsetid("", 17)]
    path = tmp_path / "product.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=9), path)
    return path


def test_a_model_runs_with_weights_off_chip(tilescope: Run, product: Path) -> None:
    outcome = tilescope("run", product, "--tiles", 8, "--offload", "weights", "--verify")
    assert (outcome.code, outcome.err) == (0, "")
    summary = json.loads(tilescope("summary", "report", "--json").out)
    assert json.loads(summary["provenance"]["offload"]) == ["weights"]
    ipus = json.loads(tilescope("trace", "report", "--json").out)["ipus"]
    assert sum(ipu["remote_in_bytes"] for ipu in ipus) == 4 * 128 * 128
    insights = tilescope("insights", "report").out
    assert "Tiles wait for streaming memory for" in insights
    steps = tilescope("ops", "report", "--layer", "step").out
    assert "w/load" in steps


def test_a_program_of_the_cache_has_its_weights(tilescope: Run, product: Path) -> None:
    outputs = []
    for number in range(2):
        own = ("--offload", "weights", "--cache", "cache", "--no-report", "--quiet")
        outcome = tilescope("run", product, "--tiles", 8, *own, "--outputs", f"{number}.npz")
        assert (outcome.code, outcome.err) == (0, "")
        outputs.append(np.load(f"{number}.npz")["y"])
    assert outputs[0].any()
    assert np.array_equal(*outputs)


def test_training_keeps_states_off_chip_in_shards(tilescope: Run, model: Path) -> None:
    rng = np.random.default_rng(0)
    x, labels = rng.standard_normal((16, 6), np.float32), rng.integers(0, 4, 16)
    np.savez("data.npz", x=x, labels=labels)
    ends = ("--loss", "cross-entropy", "--data", "data.npz", "--optimizer", "adam", "--ipus", 2)
    replicas = ("--replicas", 2, "--json")
    own = ("--offload", "optimizer-state", "--shard", "optimizer-state:least=2")
    plain = json.loads(tilescope("train", model, *_OPTIONS, *ends, *replicas).out)
    outcome = tilescope("train", model, *_OPTIONS, *ends, *replicas, *own, "--report", "report")
    assert (outcome.code, outcome.err) == (0, "")
    np.testing.assert_allclose(json.loads(outcome.out)["losses"], plain["losses"], rtol=1e-5)
    facts = json.loads(tilescope("summary", "report", "--json").out)["provenance"]
    assert (facts["offload"], facts["shard"]) == ('["optimizer-state"]',) * 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--offload", "gradients"), "There is no kind of values 'gradients': choose weights"),
        (("--offload", "weights:least=none"), "expected KIND or KIND:least=N for --offload"),
        (("--io-tiles", "2"), "--io-tiles needs --offload"),
        (("--offload", "weights", "--io-tiles", "3"), "I/O tiles is 3: expected an even number"),
        (("--offload", "weights:most=3"), "expected KIND or KIND:least=N for --offload"),
    ],
)
def test_what_does_not_exist_is_refused(
    tilescope: Run, model: Path, options: tuple[str, ...], message: str
) -> None:
    outcome = tilescope("run", model, *_OPTIONS, *options)
    assert outcome.code == 2
    assert message in " ".join(outcome.err.split())
