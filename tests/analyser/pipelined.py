"""Reports of a small model on three IPUs: pipelined, and on one IPU."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
from onnx import helper
from tests.engine.operators.graphs import info, model_of

from tilescope.main import main

__all__ = ["MICRO_BATCHES", "write_pipelines"]

MICRO_BATCHES = 6
_NAMES = ("first", "between", "second", "after", "third")


def write_pipelines(folder: Path) -> None:
    """Write the reports ``train``, ``run``, ``moved`` and ``one`` into a folder.

    ``train`` trains in three stages, and ``moved`` with one node more in the last of them;
    ``run`` is inference in three stages, and ``one`` training on one IPU.
    """
    rng = np.random.default_rng(0)
    shapes = {"w1": (6, 8), "w2": (8, 40), "w3": (40, 4)}
    weights = {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="between"),
        helper.make_node("MatMul", ["b", "w2"], ["c"], name="second"),
        helper.make_node("Relu", ["c"], ["d"], name="after"),
        helper.make_node("MatMul", ["d", "w3"], ["y"], name="third"),
    ]
    model = model_of(nodes, [info("x", [None, 6])], [info("y", [None, 4])], weights)
    before = Path.cwd()
    os.chdir(folder)
    try:
        onnx.save(model, "model.onnx")
        x, labels = rng.standard_normal((24, 6), np.float32), rng.integers(0, 4, 24)
        np.savez("data.npz", x=x, labels=labels)
        three = ("--ipus", 3, "--tiles", 8, "--pipeline")
        trained = (
            "train model.onnx --batch 2 --loss cross-entropy --data data.npz --quiet"
            f" --accumulate {MICRO_BATCHES} --output trained.onnx"
        ).split()
        commands = {
            "train": (*trained, *three, _stages(0, 0, 0, 1, 2)),
            "moved": (
                *trained,
                *three,
                _stages(0, 0, 0, 2, 2)
                .replace("between=0", "between=1")
                .replace("second=0", "second=1"),
            ),
            "run": ("run", "model.onnx", "--batch", 3, "--iterations", 5, *three, 3),
            "one": (*trained, "--tiles", 8),
        }
        for name, command in commands.items():
            assert main([*map(str, command), "--report", name]) == 0
    finally:
        os.chdir(before)


def _stages(*stages: int) -> str:
    """Return the argument of ``--pipeline`` for the stages of all nodes."""
    return ",".join(f"{name}={stage}" for name, stage in zip(_NAMES, stages, strict=True))
