"""The workload of the stored report: a small network, a fixed seed, two IPUs of four tiles."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from tilescope.engine import Engine, compile_model, load_machine, resolve_options
from tilescope.engine.ir import IrBuilder, Model
from tilescope.engine.operators import OPERATORS
from tilescope.reports.schema import SCHEMA_VERSION

__all__ = ["GOLDEN", "make"]

GOLDEN = Path(__file__).parent / f"v{SCHEMA_VERSION}" / "small.pop"


def network() -> Model:
    """Return a model of a convolution, a relu, a pool and a product."""
    random = np.random.default_rng(7)
    builder = IrBuilder("small")

    def constant(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32)

    x = builder.input("image", (1, 3, 8, 8), "float32")
    weights = builder.constant(constant(8, 3, 3, 3), "conv/weights")
    y = builder.emit(
        OPERATORS["convolution"], [x, weights], name="conv", source="Conv", kernel=(3, 3),
        stride=(1, 1), dilation=(1, 1), padding_before=(1, 1), padding_after=(1, 1), groups=1,
    )  # fmt: skip
    y = builder.emit(OPERATORS["unary"], [y], name="relu", source="Relu", function="relu")
    y = builder.emit(
        OPERATORS["max_pool"], [y], name="pool", source="MaxPool", kernel=(2, 2), stride=(2, 2),
        dilation=(1, 1), padding_before=(0, 0), padding_after=(0, 0),
    )  # fmt: skip
    y = builder.emit(OPERATORS["reshape"], [y], name="flatten", source="Flatten", shape=(1, 128))
    weights = builder.constant(constant(128, 10), "dense/weights")
    y = builder.emit(OPERATORS["matmul"], [y, weights], name="dense", source="MatMul")
    return replace(builder.finish([("scores", y)]), front_end="onnx")


def make(path: Path) -> None:
    """Write the report of two runs of the network to `path`."""
    compiled = compile_model(network(), load_machine("gc200", n_ipus=2, tiles_per_ipu=4))
    with tempfile.TemporaryDirectory() as folder:
        options = resolve_options(code={"autoReport.all": True, "autoReport.directory": folder})
        with Engine(compiled.executable, options, provenance={"seed": "0"}) as engine:
            for _ in range(2):
                compiled.run(engine, compiled.random_inputs(0))
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(folder) / "profile.pop", path)
