"""A slice of the fuzz by attribute, what it draws, and faults that it found."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
import pytest
from numpy.typing import NDArray
from tests.onnx_fuzz import compare
from tests.onnx_fuzz.attributes import DRAWERS, drawn_case, model_of_case
from tests.onnx_fuzz.compare import Outcome
from tests.onnx_fuzz.one_node import compared_case

_N_SEEDS = 5
_MOST_SEEDS = 300

#: Attributes that are drawn at their defaults only, and why.
_DEFAULT_ONLY = {
    ("ConvTranspose", "pads"): "beside output_shape it has none",
    ("LSTM", "activation_alpha"): "tests of recurrent layers have all activations",
    ("LSTM", "activation_beta"): "as above",
    ("GRU", "activation_alpha"): "as above",
    ("GRU", "activation_beta"): "as above",
    ("RNN", "activation_alpha"): "as above",
    ("RNN", "activation_beta"): "as above",
    ("LSTM", "input_forget"): "onnxruntime and the reference compute it differently",
    ("LSTM", "layout"): "onnxruntime refuses 1",
    ("GRU", "layout"): "as above",
    ("RNN", "layout"): "as above",
    ("MaxPool", "storage_order"): "it changes the second output only",
    ("Resize", "antialias"): "onnxruntime and the reference compute it differently",
    ("Resize", "axes"): "tests of Resize",
    ("Resize", "keep_aspect_ratio_policy"): "tests of Resize",
    ("Resize", "extrapolation_value"): "tests of Resize",
    ("LayerNormalization", "stash_type"): "the type of the statistics, not of a result",
    ("RMSNormalization", "stash_type"): "as above",
    ("GroupNormalization", "stash_type"): "as above",
    ("TopK", "sorted"): "the order of an unsorted result is free",
    ("BatchNormalization", "spatial"): "dropped by opset 9",
    ("Dropout", "seed"): "random",
}


@pytest.mark.parametrize("name", DRAWERS)
def test_nodes_agree_with_onnxruntime_or_the_reference(name: str, tmp_path: Path) -> None:
    results = {seed: compared_case(name, seed, tmp_path / "m.onnx") for seed in range(_N_SEEDS)}
    bad = {s: why for s, why in results.items() if why[0] not in (Outcome.SAME, Outcome.NO_PEER)}
    assert bad == {}
    assert any(outcome == Outcome.SAME for outcome, _ in results.values())


def test_every_attribute_is_drawn_at_a_value_that_is_not_its_default() -> None:
    drawn: dict[str, dict[str, bool]] = {}
    for name in DRAWERS:
        for seed in range(_MOST_SEEDS):
            case = drawn_case(name, seed)
            schema = onnx.defs.get_schema(case.op_type, case.opset)
            visited = drawn.setdefault(case.op_type, dict.fromkeys(schema.attributes, False))
            for key, value in case.attributes.items():
                default = (
                    onnx.helper.get_attribute_value(schema.attributes[key].default_value)
                    if (schema.attributes[key].default_value.type)
                    else None
                )
                default = default.decode() if isinstance(default, bytes) else default
                visited[key] = visited.get(key, False) or value != default
    missing = {
        (op, key)
        for op, visited in drawn.items()
        for key, is_seen in visited.items()
        if not is_seen
    }
    assert missing - set(_DEFAULT_ONLY) == set()


def test_a_seed_gives_one_case() -> None:
    for name in DRAWERS:
        once, again = (model_of_case(drawn_case(name, 3)).SerializeToString() for _ in range(2))
        assert once == again


def test_a_wrong_value_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = compare.ours

    def off(path: Path, inputs: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        return {name: array + array.dtype.type(1) for name, array in right(path, inputs).items()}

    seed = next(s for s in range(20) if compared_case("gemm", s, tmp_path / "m")[0] == Outcome.SAME)
    monkeypatch.setattr(compare, "ours", off)
    assert compared_case("gemm", seed, tmp_path / "m.onnx")[0] == Outcome.WRONG
