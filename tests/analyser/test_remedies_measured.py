"""Remedies against the compiler: the command of each makes nothing worse, over ten reports."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilescope import analyser
from tilescope.analyser.advice.remedy import FitAdvice, fit_advice
from tilescope.analyser.time.figures import missing_bytes, tile_rows
from tilescope.main import main

Nodes = list[onnx.NodeProto]
Weights = dict[str, tuple[int, ...]]
Made = tuple[Nodes, Weights, list[int]]


def convolutions(channels: int, n: int, size: int, kernel: int = 3) -> Made:
    """Return convolutions one after the other, each with a Relu."""
    nodes, weights, value = Nodes(), Weights(), "x"
    for i in range(n):
        weights[f"w{i}"] = (channels, channels, kernel, kernel)
        pads = [kernel // 2] * 4
        nodes += [
            helper.make_node("Conv", [value, f"w{i}"], [f"c{i}"], f"conv{i}", pads=pads),
            helper.make_node("Relu", [f"c{i}"], [f"r{i}"], f"relu{i}"),
        ]
        value = f"r{i}"
    return nodes, weights, [channels, size, size]


def products(width: int, n: int) -> Made:
    """Return products with weights, each with a Tanh."""
    nodes, weights, value = Nodes(), Weights(), "x"
    for i in range(n):
        weights[f"w{i}"] = (width, width)
        nodes += [
            helper.make_node("MatMul", [value, f"w{i}"], [f"m{i}"], f"product{i}"),
            helper.make_node("Tanh", [f"m{i}"], [f"t{i}"], f"tanh{i}"),
        ]
        value = f"t{i}"
    return nodes, weights, [width]


def attention(width: int, length: int) -> Made:
    """Return attention of one head."""
    nodes = [helper.make_node("MatMul", ["x", key], [f"{key}x"], key) for key in "qkv"]
    nodes += [
        helper.make_node("Transpose", ["kx"], ["kt"], "turn", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["qx", "kt"], ["s"], "scores"),
        helper.make_node("Softmax", ["s"], ["p"], "softmax", axis=-1),
        helper.make_node("MatMul", ["p", "vx"], ["a"], "mix"),
        helper.make_node("MatMul", ["a", "o"], ["y"], "out"),
    ]
    return nodes, dict.fromkeys("qkvo", (width, width)), [length, width]


CASES: dict[str, tuple[Made, str]] = {
    "convolutions": (convolutions(32, 2, 24), "--tiles 2 --batch 2"),
    "convolutions that do not fit": (convolutions(64, 2, 28), "--tiles 2 --batch 4"),
    "wide kernels": (convolutions(32, 2, 24, kernel=5), "--tiles 4 --batch 2"),
    "convolutions in half": (convolutions(64, 2, 20), "--tiles 4 --batch 2 --precision half"),
    "one batch": (convolutions(64, 2, 16), "--tiles 4"),
    "products": (products(256, 2), "--tiles 2 --batch 64"),
    "products that do not fit": (products(512, 3), "--tiles 4 --batch 16"),
    "a long batch that does not fit": (products(256, 4), "--tiles 4 --batch 512"),
    "attention that does not fit": (attention(256, 128), "--tiles 4 --batch 2"),
    "products on two IPUs that do not fit": (
        products(512, 4),
        "--tiles 2 --ipus 2 --batch 8",
    ),
    "half that does not fit": (
        convolutions(128, 2, 28),
        "--tiles 4 --batch 4 --precision half",
    ),
}


@dataclass(frozen=True)
class Measured:
    """What tiles lack, over all of them, and how high addresses reach."""

    missing_bytes: int
    highest_bytes: int
    advice: FitAdvice


def measured(path: Path) -> Measured:
    """Return what a report says of memory."""
    with analyser.open(path) as report:
        highest = int(tile_rows(report)["including_gaps"].max())
        return Measured(int(missing_bytes(report).sum()), highest, fit_advice(report))


def save(path: Path, made: Made) -> None:
    """Save a model with an open batch."""
    nodes, weights, shape = made
    random = np.random.default_rng(0)
    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *shape])],
        [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(random.standard_normal(sizes).astype(np.float32), name)
            for name, sizes in weights.items()
        ],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)


def run(command: str) -> Callable[[], int]:
    """Return what runs a command that a page prints."""
    return lambda: main([*shlex.split(command)[1:], "--quiet"])


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_command_of_a_remedy_makes_nothing_worse(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built, arguments = CASES[name]
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "m.onnx", built)
    code = run(f"tilescope run m.onnx --report base {arguments}")()
    base = measured(tmp_path / "base")
    assert ("do not fit" in name or "does not fit" in name) == (not base.advice.fits), code
    commands = {remedy.name: remedy.command for remedy in base.advice.remedies if remedy.command}
    assert commands, "something can be tried"
    for remedy, command in commands.items():
        run(command)()
        after = measured(tmp_path / shlex.split(command)[-1])
        if base.missing_bytes:
            assert after.missing_bytes <= base.missing_bytes, (remedy, command)
        else:
            assert after.highest_bytes <= base.highest_bytes, (remedy, command)
    if base.advice.command:
        run(base.advice.command)()
        together = measured(tmp_path / shlex.split(base.advice.command)[-1])
        assert together.missing_bytes < base.missing_bytes
