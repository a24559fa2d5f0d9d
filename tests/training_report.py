"""A report of a training that the engine wrote, made once a process."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tilescope.engine import Engine, load_machine, resolve_options
from tilescope.engine.frontend.onnx import load_onnx
from tilescope.engine.session.compilation import compile_model
from tilescope.engine.session.compiled_model import CompiledModel
from tilescope.engine.training import Loss, Sgd, for_training

__all__ = [
    "LABELS",
    "N_STEPS",
    "RECORDED",
    "X",
    "compiled_training",
    "engine_of",
    "training_report",
]

#: Steps of the report, and those whose run it has.
N_STEPS, RECORDED = 9, (0, 4, 8)
_RNG = np.random.default_rng(5)
_WEIGHTS = {
    "w1": _RNG.normal(size=(12, 8), scale=0.3),
    "b1": np.zeros(12),
    "w2": _RNG.normal(size=(4, 12), scale=0.3),
    "b2": np.zeros(4),
}
X = _RNG.normal(size=(8, 8)).astype(np.float32)
LABELS = _RNG.integers(0, 4, 8)


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="tilescope-training-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def compiled_training(momentum: float = 0.0, n_rounds: int = 1) -> CompiledModel:
    """Return a compiled step of two dense layers with a relu between them."""
    path = _folder() / "network.onnx"
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["h"], name="fc1", transB=1),
        helper.make_node("Relu", ["h"], ["r"], name="relu"),
        helper.make_node("Gemm", ["r", "w2", "b2"], ["y"], name="fc2", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w.astype(np.float32), name) for name, w in _WEIGHTS.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    model = for_training(
        load_onnx(path, trainable=list(_WEIGHTS)),
        Loss(kind="cross-entropy"),
        Sgd(lr=0.1, momentum=momentum),
        n_rounds,
    )
    return compile_model(model, load_machine("gc200", tiles_per_ipu=16))


def engine_of(compiled: CompiledModel, folder: Path) -> Engine:
    """Return an engine that writes a report of up to 100 runs."""
    options = {
        "autoReport.all": True,
        "autoReport.directory": str(folder),
        "autoReport.executionProfileProgramRunCount": 100,
    }
    return Engine(compiled.executable, resolve_options(environ={}, code=options))


@cache
def training_report(momentum: float = 0.0, n_rounds: int = 1) -> Path:
    """Return the directory of a report of `N_STEPS` steps, of which it has the runs `RECORDED`."""
    compiled = compiled_training(momentum, n_rounds)
    folder = _folder() / f"report-{momentum}-{n_rounds}"
    many = (n_rounds,) if n_rounds > 1 else ()
    inputs: dict[str, NDArray[Any]] = {
        "x": np.broadcast_to(X, (*many, *X.shape)),
        "labels": np.broadcast_to(LABELS, (*many, 8)),
    }
    with engine_of(compiled, folder) as engine:
        engine.load()
        for step in range(N_STEPS):
            with engine.recording(step in RECORDED):
                outputs = compiled.run(engine, inputs)
            engine.record_step(step, step // 3, float(np.mean(outputs["loss"])), 0.1)
    return folder
