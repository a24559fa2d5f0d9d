"""Splits of models by themselves."""

from __future__ import annotations

from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.engine.operators.graphs import info, model_of

from tilescope.engine import load_onnx
from tilescope.engine.errors import BadModel, BadOption
from tilescope.engine.ir import Model
from tilescope.engine.transform.balance import balance, other_cuts, parts_of
from tilescope.engine.transform.split import split

PLENTY = 1 << 40
WIDTHS = (32, 64, 16, 128, 8, 96, 24, 48)


@pytest.fixture
def model(tmp_path: Path) -> Model:
    """Return products of several sizes, one after the other, with a skip over two of them."""
    rng = np.random.default_rng(0)
    weights, nodes, name = {}, [], "x"
    for i, (rows, columns) in enumerate(pairwise(WIDTHS)):
        weights[f"w{i}"] = rng.standard_normal((rows, columns)).astype(np.float32)
        nodes.append(helper.make_node("MatMul", [name, f"w{i}"], [f"y{i}"], name=f"n{i}"))
        name = f"y{i}"
    path = tmp_path / "chain.onnx"
    inputs, outputs = [info("x", [4, WIDTHS[0]])], [info(name, [4, WIDTHS[-1]])]
    onnx.save(model_of(nodes, inputs, outputs, weights), path)
    return load_onnx(path)


def _split_at(model: Model, ends: tuple[int, ...]) -> dict[str, int]:
    names = [operation.name for operation in model.operations]
    return {name: sum(i >= end for end in ends) for i, name in enumerate(names)}


def _most(model: Model, ipus: dict[str, int]) -> tuple[float, int]:
    parts = parts_of(model, ipus)
    return max(part.work for part in parts), sum(part.crossing_bytes for part in parts)


@pytest.mark.parametrize("n_ipus", [1, 2, 3, 4, 7])
def test_no_other_cut_is_better(n_ipus: int, model: Model) -> None:
    """Of all cuts: least work of the busiest IPU, and of such cuts fewest bytes that cross."""
    chosen = _most(model, dict(balance(model, n_ipus, PLENTY)))
    cuts = combinations(range(1, len(model.operations)), n_ipus - 1)
    best = min(_most(model, _split_at(model, ends)) for ends in cuts)
    assert chosen[0] == pytest.approx(best[0])
    assert chosen[1] == best[1]


def test_work_and_bytes_of_parts(model: Model) -> None:
    """Counted from the widths: 4 rows times inner times columns, and what crosses one cut."""
    ipus = _split_at(model, (3,))
    products = np.array([a * b for a, b in pairwise(WIDTHS)])
    first, second = parts_of(model, ipus)
    assert first.work == pytest.approx(products[:3].sum() / products.sum())
    assert (first.first, first.last, second.first) == ("n0", "n2", "n3")
    assert first.weight_bytes == 4 * products[:3].sum()
    assert (first.crossing_bytes, second.crossing_bytes) == (0, 4 * 4 * WIDTHS[3])


def test_weights_fit(model: Model) -> None:
    """Where work would put too many weights on an IPU, memory decides."""
    whole = 4 * sum(a * b for a, b in pairwise(WIDTHS))
    even = parts_of(model, balance(model, 3, PLENTY))
    tight = parts_of(model, balance(model, 3, int(whole * 0.75)))
    assert max(part.weight_bytes for part in tight) <= 0.6 * 0.75 * whole + 4 * 128 * 16
    assert sum(part.weight_bytes for part in even) == whole


def test_ratios(model: Model) -> None:
    shares = [part.work for part in parts_of(model, balance(model, 2, PLENTY, [0.8, 0.2]))]
    assert shares[0] > 0.6 > shares[1]
    with pytest.raises(BadOption, match="2 shares whose sum is 1"):
        balance(model, 2, PLENTY, [0.8, 0.1])


def test_what_other_cuts_would_give(model: Model) -> None:
    ipus = dict(balance(model, 2, PLENTY))
    chosen = _most(model, ipus)
    cuts = other_cuts(model, ipus)
    assert len(cuts) == 2
    assert {cut.ipu for cut in cuts} == {0}
    for cut in cuts:
        moved = {**ipus, cut.node: 1 - ipus[cut.node]}
        assert (cut.slowest, cut.crossing_bytes) == _most(model, moved)
        assert cut.slowest >= chosen[0]


def test_a_split_of_all_nodes_can_be_used(model: Model) -> None:
    placed = split(model, balance(model, 4, PLENTY))
    assert {operation.placement.ipu for operation in placed.operations} == {0, 1, 2, 3}
    with pytest.raises(BadModel, match="7 nodes, too few for 8 IPUs"):
        balance(model, 8, PLENTY)


def test_weights_that_are_trained_count(model: Model, tmp_path: Path) -> None:
    trained = load_onnx(tmp_path / "chain.onnx", trainable=["*"])
    ipus = _split_at(model, (3,))
    assert [part.weight_bytes for part in parts_of(trained, ipus)] == [
        part.weight_bytes for part in parts_of(model, ipus)
    ]
