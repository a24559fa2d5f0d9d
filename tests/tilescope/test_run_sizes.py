"""``tilescope run --batch`` and ``--set``: what a model leaves open."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.external_data_helper import convert_model_to_external_data
from tests.engine.operators.graphs import info, model_of
from tests.tilescope.conftest import Outcome

from tilescope.engine.frontend.onnx.onnx_file import OnnxFile

Run = Callable[..., Outcome]
COMMON = ("--tiles", "4", "--no-report")


@pytest.fixture
def reshaping(tmp_path: Path) -> Path:
    """Return a model that reshapes ``x`` to the sizes in ``sizes``."""
    path = tmp_path / "reshape.onnx"
    model = model_of(
        [helper.make_node("Reshape", ["x", "sizes"], ["y"], name="change")],
        [info("x", [4, 6]), info("sizes", [2], TensorProto.INT64)],
        [info("y", [None, None])],
    )
    onnx.save(model, path)
    return path


@pytest.fixture
def open_batch(tmp_path: Path) -> Path:
    path = tmp_path / "relu.onnx"
    node = helper.make_node("Relu", ["x"], ["y"])
    onnx.save(model_of([node], [info("x", [None, 6])], [info("y", [None, 6])]), path)
    return path


def test_a_setting_decides_a_shape(tilescope: Run, reshaping: Path) -> None:
    actual = tilescope("run", str(reshaping), *COMMON, "--set", "sizes=3,8", "--json")
    assert json.loads(actual.out)["outputs"][0]["shape"] == [3, 8]


def test_what_must_be_set_is_named(tilescope: Run, reshaping: Path) -> None:
    actual = tilescope("run", str(reshaping), *COMMON)
    assert actual.code == 2
    assert "Node 'change' (Reshape)" in actual.err
    assert "'sizes' is not: give the inputs that it depends on with --set" in actual.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sizes", "expected name=v0,v1"),
        ("sizes=a,b", "expected name=v0,v1"),
        ("other=1", "Unknown input 'other'; the model has x, sizes"),
        ("sizes=1.5,4", "Input 'sizes' takes int64, not float64"),
        ("sizes=1,2,3", "Input 'sizes' takes an array of shape (2), not (3,)"),
    ],
)
def test_bad_settings_are_one_sentence(
    tilescope: Run, reshaping: Path, text: str, words: str
) -> None:
    actual = tilescope("run", str(reshaping), *COMMON, "--set", text)
    assert actual.code == 2
    assert words in actual.err
    assert "Traceback" not in actual.err


def test_a_batch(tilescope: Run, open_batch: Path) -> None:
    actual = tilescope("run", str(open_batch), *COMMON, "--batch", "5", "--json")
    answer = json.loads(actual.out)
    assert answer["outputs"][0]["shape"] == [5, 6]
    assert answer["assumed_ones"] == []


def test_a_batch_that_no_input_leaves_open(tilescope: Run, reshaping: Path) -> None:
    actual = tilescope("run", str(reshaping), *COMMON, "--batch", "5", "--set", "sizes=3,8")
    assert actual.code == 2
    assert "No input leaves its first dimension open" in actual.err


@pytest.mark.parametrize("name", ["../../evil", "/etc/evil", "a/../../evil"])
def test_an_output_whose_name_leads_out_of_the_archive(
    tilescope: Run, tmp_path: Path, name: str
) -> None:
    path, outputs = tmp_path / "m.onnx", tmp_path / "out.npz"
    node = helper.make_node("Relu", ["x"], [name])
    onnx.save(model_of([node], [info("x", [4, 6])], [info(name, [4, 6])]), path)
    actual = tilescope("run", str(path), *COMMON, "--outputs", str(outputs))
    assert actual.code != 0
    assert f"the name of output {name!r} leads out of the archive" in " ".join(actual.err.split())
    assert not outputs.exists()


def test_the_digest_covers_external_weights(tmp_path: Path) -> None:
    digests = []
    for value in (1.0, 2.0):
        folder = tmp_path / str(value)
        folder.mkdir()
        weights = {"w": np.full((64, 64), value, np.float32)}
        node = helper.make_node("Add", ["x", "w"], ["y"])
        model = model_of([node], [info("x", [64, 64])], [info("y", [64, 64])], weights)
        convert_model_to_external_data(model, location="weights.bin", size_threshold=0)
        onnx.save(model, folder / "m.onnx")
        source = OnnxFile(folder / "m.onnx")
        digests.append(source.digest(source.outside))
    assert digests[0] != digests[1]


@pytest.fixture
def symbolic(tmp_path: Path) -> Path:
    """Return a model of two inputs that share a symbol, joined along another one."""
    node = helper.make_node("Concat", ["past", "new"], ["all"], axis=1)
    path = tmp_path / "cache.onnx"
    shapes: dict[str, list[str | int | None]] = {
        "past": ["batch", "past_length", 4],
        "new": ["batch", "length", 4],
    }
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    ]
    output = helper.make_tensor_value_info("all", TensorProto.FLOAT, ["batch", "total", 4])
    onnx.save(model_of([node], inputs, [output]), path)
    return path


def test_a_symbol_is_set_once_for_all_inputs(tilescope: Run, symbolic: Path) -> None:
    dims = ("--dim", "batch=2", "--dim", "past_length=3", "--dim", "length=1")
    finished = tilescope("run", symbolic, *COMMON, *dims, "--json")
    assert finished.json()["outputs"][0]["shape"] == [2, 4, 4]
    check = tilescope("models", "check", symbolic, *dims)
    assert check.code == 0
    assert check.out.splitlines()[-1] == f"Next: tilescope run {symbolic} {' '.join(dims)}"


def test_the_first_step_of_a_decoder_has_an_empty_past(tilescope: Run, symbolic: Path) -> None:
    for sizes in (
        ("--dim", "batch=1", "--dim", "past_length=0", "--dim", "length=2"),
        ("--shape", "past=1,0,4", "--shape", "new=1,2,4"),
    ):
        finished = tilescope("run", symbolic, *COMMON, *sizes, "--json")
        assert finished.json()["outputs"][0]["shape"] == [1, 2, 4]


def test_shapes_come_from_the_inputs(tilescope: Run, symbolic: Path, tmp_path: Path) -> None:
    past, new = np.ones((3, 0, 4), np.float32), np.full((3, 5, 4), 2, np.float32)
    np.savez(tmp_path / "in.npz", past=past, new=new)
    files = ("--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    assert tilescope("run", symbolic, *COMMON, *files).code == 0
    with np.load(tmp_path / "out.npz") as actual:
        assert np.array_equal(actual["all"], new)
    finished = tilescope("run", symbolic, *COMMON, *files, "--dim", "batch=2")
    assert (finished.code, len(finished.err.splitlines())) == (2, 1)
    assert "which is incompatible with (3, 0, 4)" in finished.err


@pytest.mark.parametrize(
    ("dim", "said"),
    [
        ("size=2", "Unknown symbolic dimension 'size'; the model has 'batch', 'past_length', 'le"),
        ("batch", "expected NAME=SIZE with a size of at least 0 for --dim, got batch"),
        ("batch=-1", "expected NAME=SIZE"),
        ("batch=x", "expected NAME=SIZE"),
        ("=3", "expected NAME=SIZE"),
    ],
)
def test_a_wrong_symbol_is_one_sentence(
    tilescope: Run, symbolic: Path, dim: str, said: str
) -> None:
    for command in (("run", symbolic, *COMMON), ("models", "check", symbolic)):
        finished = tilescope(*command, "--dim", dim)
        assert (finished.code, finished.out, len(finished.err.splitlines())) == (2, "", 1)
        assert said in finished.err
    twice = tilescope("run", symbolic, "--dim", "batch=1", "--dim", "batch=2")
    assert "--dim batch has two sizes, 1 and 2" in twice.err
