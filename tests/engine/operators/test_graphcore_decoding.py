"""The search for labels: results of the machine are those in numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.engine.operators.graphcore import DOMAIN, MACHINE
from tests.engine.operators.graphs import info, model_of

from tilescope.engine import Engine, compile_model, load_onnx
from tilescope.engine.transform import transform


@pytest.mark.parametrize(
    ("n_steps", "n_classes", "width", "n_paths"), [(5, 4, 3, 2), (3, 3, 8, 8), (1, 2, 4, 4)]
)
@pytest.mark.parametrize("blank", [0, 1])
def test_the_machine_finds_what_numpy_does(
    n_steps: int, n_classes: int, width: int, n_paths: int, blank: int, tmp_path: Path
) -> None:
    """Also where there are fewer labels than paths."""
    rng = np.random.default_rng([n_steps, width, blank])
    logs = np.log(rng.dirichlet(np.ones(n_classes), (n_steps, 2))).astype(np.float32)
    steps = np.array([n_steps, max(1, n_steps - 2)], np.int32)
    node = helper.make_node(
        "CtcBeamSearchDecoder",
        ["logs", "steps"],
        ["best", "lengths", "labels"],
        domain=DOMAIN,
        blank=blank,
        beam_width=width,
        top_paths=n_paths,
    )
    paths = [2, n_paths]
    outputs = [
        info("best", paths),
        info("lengths", paths, TensorProto.UINT32),
        info("labels", [*paths, n_steps], TensorProto.UINT32),
    ]
    inputs = [info("logs", logs.shape), info("steps", steps.shape, TensorProto.INT32)]
    model = model_of([node], inputs, outputs, {})
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    onnx.save(model, tmp_path / "search.onnx")
    loaded = load_onnx(tmp_path / "search.onnx")
    compiled = compile_model(loaded, MACHINE)
    with Engine(compiled.executable) as engine:
        actual = compiled.run(engine, {"logs": logs, "steps": steps})
    search = next(
        op for op in transform(loaded).operations if op.operator.name == "ctc_beam_search"
    )
    assert search.operator.evaluate is not None
    best, lengths, labels = search.operator.evaluate(search, [logs, steps])
    np.testing.assert_allclose(actual["best"], best, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(actual["lengths"], lengths)
    for path in np.ndindex(*lengths.shape):
        n = lengths[path]
        np.testing.assert_array_equal(actual["labels"][path][:n], labels[path][:n])
