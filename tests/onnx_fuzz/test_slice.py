"""A slice of ``make onnx-fuzz``, and what it would find."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.onnx_fuzz import compare
from tests.onnx_fuzz.compare import Outcome, compared, model_of_seed

from tilescope.engine.errors import BadModel

_N_SEEDS = 24


def test_random_graphs_agree_with_onnxruntime(tmp_path: Path) -> None:
    results = {seed: compared(seed, tmp_path / "m.onnx") for seed in range(_N_SEEDS)}
    problem = {
        s: why for s, why in results.items() if why[0] not in (Outcome.SAME, Outcome.NO_PEER)
    }
    assert problem == {}
    assert Counter(outcome for outcome, _ in results.values())[Outcome.SAME] >= _N_SEEDS * 3 // 4


def test_a_seed_gives_one_graph_and_many_give_all_operators() -> None:
    assert model_of_seed(7).SerializeToString() == model_of_seed(7).SerializeToString()
    drawn = {node.op_type for seed in range(400) for node in model_of_seed(seed).graph.node}
    assert len(drawn) >= 75


def test_wrong_values_types_and_failures_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = compare.ours

    def off(path: Path, inputs: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        return {name: array + array.dtype.type(1) for name, array in right(path, inputs).items()}

    def wide(path: Path, inputs: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        return {name: array.astype(np.float64) for name, array in right(path, inputs).items()}

    def refused(_: Path, __: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        raise BadModel("not this one")

    def broken(_: Path, __: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        raise IndexError("out of range")

    seed = next(s for s in range(_N_SEEDS) if compared(s, tmp_path / "m.onnx")[0] == Outcome.SAME)
    for ours, outcome in (
        (off, Outcome.WRONG),
        (wide, Outcome.WRONG),
        (refused, Outcome.REFUSED),
        (broken, Outcome.FAILED),
    ):
        monkeypatch.setattr(compare, "ours", ours)
        assert compared(seed, tmp_path / "m.onnx")[0] == outcome
