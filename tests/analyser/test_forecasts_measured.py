"""What `tilescope fit` foretells of trainings, against trainings that do it."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilescope import analyser
from tilescope.analyser.advice.remedy import FitAdvice, Remedy, fit_advice
from tilescope.analyser.memory.liveness import curve
from tilescope.analyser.time.execution import execution
from tilescope.main import main

Nodes = list[onnx.NodeProto]
Weights = dict[str, tuple[int, ...]]
Made = tuple[Nodes, Weights, list[int]]

#: How near figures have to be, of what is measured.
_WITHIN = 0.1


def layers(*widths: int) -> Made:
    """Return dense layers, each with a Gelu."""
    nodes, weights, value = Nodes(), Weights(), "x"
    for i, sizes in enumerate(pairwise(widths)):
        weights[f"w{i}"] = sizes
        nodes += [
            helper.make_node("MatMul", [value, f"w{i}"], [f"m{i}"], f"fc{i}"),
            helper.make_node("Gelu", [f"m{i}"], [f"g{i}"], f"gelu{i}"),
        ]
        value = f"g{i}"
    return nodes, weights, [widths[0]]


def convolutions(channels: int, n: int, size: int) -> Made:
    """Return convolutions with normalisations over all but the channels, and a pool at the end."""
    nodes, weights, value = Nodes(), Weights(), "x"
    for i in range(n):
        weights |= {f"w{i}": (channels, channels, 3, 3), f"s{i}": (channels,), f"b{i}": (channels,)}
        nodes += [
            helper.make_node("Conv", [value, f"w{i}"], [f"c{i}"], f"conv{i}", pads=[1] * 4),
            helper.make_node(
                "InstanceNormalization", [f"c{i}", f"s{i}", f"b{i}"], [f"n{i}"], f"norm{i}"
            ),
            helper.make_node("Relu", [f"n{i}"], [f"r{i}"], f"relu{i}"),
        ]
        value = f"r{i}"
    nodes += [
        helper.make_node("GlobalAveragePool", [value], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flat"),
    ]
    return nodes, weights, [channels, size, size]


def attention(width: int, length: int, n: int) -> Made:
    """Return layers of attention with one head, and a mean over the places."""
    nodes, weights, value = Nodes(), Weights(), "x"
    for i in range(n):
        weights |= dict.fromkeys((f"{key}{i}" for key in "qkvo"), (width, width))
        weights |= {f"s{i}": (width,), f"b{i}": (width,)}
        nodes.append(
            helper.make_node("LayerNormalization", [value, f"s{i}", f"b{i}"], [f"n{i}"], f"norm{i}")
        )
        nodes += [
            helper.make_node("MatMul", [f"n{i}", f"{key}{i}"], [f"{key}x{i}"], f"{key}{i}")
            for key in "qkv"
        ]
        nodes += [
            helper.make_node("Transpose", [f"kx{i}"], [f"kt{i}"], f"turn{i}", perm=[0, 2, 1]),
            helper.make_node("MatMul", [f"qx{i}", f"kt{i}"], [f"a{i}"], f"scores{i}"),
            helper.make_node("Softmax", [f"a{i}"], [f"p{i}"], f"softmax{i}", axis=-1),
            helper.make_node("MatMul", [f"p{i}", f"vx{i}"], [f"m{i}"], f"mix{i}"),
            helper.make_node("MatMul", [f"m{i}", f"o{i}"], [f"o{i}x"], f"out{i}"),
            helper.make_node("Add", [value, f"o{i}x"], [f"y{i}"], f"add{i}"),
        ]
        value = f"y{i}"
    nodes.append(helper.make_node("GlobalAveragePool", [value], ["p"], "mean"))
    nodes.append(helper.make_node("Flatten", ["p"], ["f"], "flat"))
    return nodes, weights, [length, width]


@dataclass(frozen=True)
class Case:
    """A network, how it trains, and the remedies that are measured."""

    made: Made
    arguments: str
    remedies: tuple[str, ...]


CASES = {
    "layers": Case(layers(64, *[64] * 16, 10), "--tiles 4 --batch 64", ("recompute_standard",)),
    "convolutions": Case(
        convolutions(16, 6, 16), "--tiles 64 --batch 16", ("recompute_standard", "batch")
    ),
    "attention": Case(
        attention(64, 64, 4), "--tiles 64 --batch 8", ("recompute_standard", "batch")
    ),
    "attention in two micro-batches": Case(
        attention(64, 64, 3), "--tiles 64 --batch 8 --accumulate 2", ("recompute_standard", "batch")
    ),
}


def save(folder: Path, made: Made) -> None:
    """Save a model with an open batch, and data."""
    nodes, weights, shape = made
    random = np.random.default_rng(0)
    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *shape])],
        [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array((random.standard_normal(sizes) / 8).astype(np.float32), name)
            for name, sizes in weights.items()
        ],
    )
    opsets = [helper.make_opsetid("", 20)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), folder / "m.onnx")
    x = random.standard_normal((64, *shape)).astype(np.float32)
    np.savez(folder / "d.npz", x=x, labels=random.integers(0, 4, 64))


@dataclass(frozen=True)
class Measured:
    """The most that lives at one step over all tiles, and the cycles of a step."""

    live_bytes: int
    cycles: int
    advice: FitAdvice


def measured(path: Path) -> Measured:
    """Return what a report says."""
    with analyser.open(path) as report:
        live = curve(report)
        n_bytes = live.always_live_bytes + int(live.not_always_live_bytes.max())
        cycles = int(execution(report).run_cycles[0])
        return Measured(n_bytes, cycles, fit_advice(report))


def run(command: str) -> None:
    """Run what a page prints, and record one step."""
    assert main([*shlex.split(command)[1:], "--report-steps", "1", "--quiet"]) == 0


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Case], Measured]:
    """Return a function that trains a network and returns what its report says."""
    monkeypatch.chdir(tmp_path)

    def train(case: Case) -> Measured:
        save(tmp_path, case.made)
        run(
            "tilescope train m.onnx --loss cross-entropy --data d.npz --optimizer sgd:lr=0.001"
            f" --report base {case.arguments}"
        )
        return measured(tmp_path / "base")

    return train


def _of(advice: FitAdvice) -> dict[str, Remedy]:
    return {remedy.name: remedy for remedy in advice.remedies}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_remedy_of_a_training_does_what_was_foretold(
    name: str, trained: Callable[[Case], Measured], tmp_path: Path
) -> None:
    case = CASES[name]
    base = trained(case)
    assert base.advice.live_bytes == base.live_bytes
    remedies = _of(base.advice)
    assert set(case.remedies) <= set(remedies)
    for remedy in (remedies[name] for name in case.remedies):
        run(remedy.command)
        after = measured(tmp_path / shlex.split(remedy.command)[-1])
        assert remedy.live_bytes == pytest.approx(after.live_bytes, rel=_WITHIN), remedy.name
        assert after.live_bytes < base.live_bytes
        if remedy.cycles is not None:
            assert base.cycles + remedy.cycles == pytest.approx(after.cycles, rel=_WITHIN)


def test_what_is_computed_again(trained: Callable[[Case], Measured], tmp_path: Path) -> None:
    base = trained(Case(layers(*[16] * 16, 4), "--tiles 2 --batch 64", ()))
    remedies = _of(base.advice)
    again = [name for name in remedies if name.startswith("recompute_")]
    assert again
    for name in again:
        remedy = remedies[name]
        run(remedy.command)
        after = measured(tmp_path / shlex.split(remedy.command)[-1])
        assert remedy.live_bytes == pytest.approx(after.live_bytes, rel=_WITHIN), name
        assert not [key for key in _of(after.advice) if key.startswith("recompute")]
