"""``tilescope run --precision``, ``--partials`` and ``--synthetic-data``, and narrowed types."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper
from tests.engine.operators.graphs import info, model_of
from tests.tilescope.conftest import Outcome

from tilescope.engine import compile_model, in_half, load_machine, load_onnx, with_synthetic_data
from tilescope.engine.errors import BadOption
from tilescope.engine.notice import Notice
from tilescope.engine.options.catalogue import CONVOLUTION_PARTIALS, MATMUL_PARTIALS

Run = Callable[..., Outcome]
TILES = ("--tiles", "4")
_RANDOM = np.random.default_rng(3)


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """Return a convolution, a resize by float scales, a mask far beyond half, and a product."""
    weights: dict[str, NDArray[Any]] = {
        "w": _RANDOM.standard_normal((8, 3, 3, 3)).astype(np.float32) / 8,
        "scales": np.array([1, 1, 1.3333334, 2], np.float32),
        "mask": np.where(np.arange(16) % 4, 0, -3.4e38).astype(np.float32),
        "m": _RANDOM.standard_normal((16, 5)).astype(np.float32) / 4,
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Resize", ["c", "", "scales"], ["r"], mode="linear"),
        helper.make_node("Add", ["r", "mask"], ["a"]),
        helper.make_node("Softmax", ["a"], ["s"], axis=-1),
        helper.make_node("Cast", ["s"], ["again"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["again", "m"], ["y"]),
    ]
    path = tmp_path / "network.onnx"
    inputs, outputs = [info("x", [1, 3, 6, 8])], [info("y", [1, 8, 8, 5])]
    onnx.save(model_of(nodes, inputs, outputs, weights), path)
    return path


def test_a_model_of_floats_runs_in_half(tilescope: Run, network: Path, tmp_path: Path) -> None:
    x = _RANDOM.standard_normal((1, 3, 6, 8)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    finished = tilescope(
        "run", str(network), *TILES, "--report", tmp_path / "half", "--precision", "half",
        "--inputs", tmp_path / "x.npz", "--outputs", tmp_path / "y.npz", "--json",
    )  # fmt: skip
    assert finished.code == 0, finished.err
    assert json.loads(finished.out)["outputs"] == [
        {"name": "y", "dtype": "float16", "shape": [1, 8, 8, 5]}
    ]
    actual = np.load(tmp_path / "y.npz")["y"]
    session = onnxruntime.InferenceSession(str(network), providers=["CPUExecutionProvider"])
    expected = session.run(None, {"x": x})[0]
    np.testing.assert_allclose(actual, expected, atol=4e-3)
    facts = tilescope("summary", tmp_path / "half", "--json").json()["provenance"]
    assert facts["precision"] == "half"


def test_a_model_in_half_is_otherwise_the_same_model(network: Path) -> None:
    """What is not of its values, such as its opset, is compared between reports."""
    model = replace(load_onnx(network), notices=(Notice("info", "odd", "Odd."),))
    changed = {"inputs", "outputs", "operations"}
    for field in {field.name for field in fields(model)} - changed:
        assert getattr(in_half(model), field) == getattr(model, field), field
    assert model.opset > 0


def test_only_operands_that_are_float_by_definition_stay_float(network: Path) -> None:
    model = in_half(load_onnx(network))
    floats = [
        value.name
        for operation in model.operations
        for value in operation.operands
        if value.dtype == "float32"
    ]
    assert floats == ["scales"]
    (mask,) = [v for o in model.operations for v in o.operands if v.name == "mask"]
    assert np.unique(np.asarray(mask.known)).tolist() == [-65504, 0]


def test_a_region_is_in_half_too(tmp_path: Path) -> None:
    def branch(name: str, operator: str) -> onnx.GraphProto:
        node = helper.make_node(operator, ["x", "one"], [name])
        return helper.make_graph([node], name, [], [info(name, [4])])

    model = model_of(
        [
            helper.make_node(
                "If", ["p"], ["y"], then_branch=branch("t", "Add"), else_branch=branch("e", "Mul")
            )
        ],
        [info("x", [4]), info("p", [], TensorProto.BOOL)],
        [info("y", [4])],
        {"one": np.ones(4, np.float32) * 3},
    )
    onnx.save(model, tmp_path / "if.onnx")
    built = in_half(load_onnx(tmp_path / "if.onnx"))
    assert built.outputs[0][1].dtype == "float16"
    (decision,) = built.operations
    for region in decision.regions.values():
        assert {v.dtype for o in region.operations for v in (*o.operands, *o.results)} == {
            "float16"
        }


def test_small_weights_do_not_become_zero_and_doubles_stay(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Div", ["x", "small"], ["q"]),
        helper.make_node("Add", ["d", "wide"], ["z"]),
    ]
    model = model_of(
        nodes,
        [info("x", [2]), info("d", [2], TensorProto.DOUBLE)],
        [info("q", [2]), info("z", [2], TensorProto.DOUBLE)],
        {"small": np.array([1e-12, -1e-12], np.float32), "wide": np.ones(2)},
    )
    onnx.save(model, tmp_path / "small.onnx")
    built = in_half(load_onnx(tmp_path / "small.onnx"))
    small = built.operations[0].operands[1]
    assert np.asarray(small.known).tolist() == [2**-24, -(2**-24)]
    assert built.outputs[1][1].dtype == "float64"


def test_partials_set_both_options(tilescope: Run, network: Path, tmp_path: Path) -> None:
    finished = tilescope("run", str(network), *TILES, "--report", tmp_path, "--partials", "half")
    assert finished.code == 0, finished.err
    options = {
        option["name"]: (option["value"], option["origin"])
        for option in tilescope("summary", tmp_path, "--json").json()["options"]
    }
    assert options[CONVOLUTION_PARTIALS] == ("half", "command line")
    assert options[MATMUL_PARTIALS] == ("half", "command line")


@pytest.mark.parametrize("mode", ["zeros", "random_normal", "random_uniform"])
def test_synthetic_data_are_not_copied(
    tilescope: Run, network: Path, tmp_path: Path, mode: str
) -> None:
    finished = tilescope(
        "run", str(network), *TILES, "--report", tmp_path / "on", "--synthetic-data", mode,
        "--iterations", "2", "--json",
    )  # fmt: skip
    assert finished.code == 0, finished.err
    assert json.loads(finished.out)["outputs"] == []
    assert tilescope("run", str(network), *TILES, "--report", tmp_path / "off").code == 0
    with_data, without = (
        tilescope("summary", tmp_path / name, "--json").json() for name in ("on", "off")
    )
    assert with_data["execution"]["host_bytes_in_bytes"] == 0
    assert with_data["execution"]["host_bytes_out_bytes"] == 0
    assert without["execution"]["host_bytes_in_bytes"] == 3 * 6 * 8 * 4
    computed = [actual["execution"]["compute_cycles"] for actual in (with_data, without)]
    assert computed[0] == 2 * computed[1]
    assert with_data["memory"]["always_live_bytes"] >= (
        without["memory"]["always_live_bytes"] + 3 * 6 * 8 * 4 - 4 * 400
    )


def test_synthetic_data_are_what_is_computed_with(network: Path) -> None:
    model = load_onnx(network)
    data = {mode: with_synthetic_data(model, mode, 7).data for mode in ("zeros", "random_uniform")}
    assert data["zeros"] is not None
    assert not data["zeros"]["x"].any()
    uniform = data["random_uniform"]
    assert uniform is not None
    assert 0 <= uniform["x"].min() < 0.1
    assert 0.9 < uniform["x"].max() <= 1
    compiled = compile_model(
        with_synthetic_data(model, "random_uniform", 7), load_machine("gc200", tiles_per_ipu=4)
    )
    (held,) = [v for v in compiled.executable.graph.variables if v.name == "x"]
    assert held.values is not None
    assert held.values.tolist() == uniform["x"].reshape(-1).tolist()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--precision", "quarter"), "Unknown precision 'quarter': expected float or half"),
        (
            ("--synthetic-data", "ones"),
            "Unknown synthetic data 'ones': expected zeros, random_normal, random_uniform",
        ),
        (("--partials", "int8"), "float or half"),
        (
            ("--synthetic-data", "zeros", "--outputs", "y.npz"),
            "--synthetic-data and --outputs are mutually exclusive",
        ),
    ],
)
def test_what_is_not_allowed(
    tilescope: Run, network: Path, arguments: tuple[str, ...], said: str
) -> None:
    finished = tilescope("run", str(network), *TILES, "--no-report", *arguments)
    assert finished.code == 2
    assert said in finished.err
    assert len(finished.err.strip().splitlines()) == 1


def _wide(path: Path, kind: int, **weights: Any) -> Path:
    model = model_of(
        [helper.make_node("Mul", ["x", "w"], ["y"])],
        [info("x", [4], kind)],
        [info("y", [4], kind)],
        weights,
    )
    onnx.save(model, path)
    return path


def test_types_of_64_bits_are_said(tilescope: Run, tmp_path: Path) -> None:
    doubles = _wide(tmp_path / "double.onnx", TensorProto.DOUBLE, w=np.full(4, 0.1))
    finished = tilescope("run", str(doubles), *TILES, "--report", tmp_path / "double")
    text = (
        "The machine has no float64: 'x' and 2 more are computed in float32: digits beyond the"
        " seventh are lost."
    )
    assert text in " ".join(finished.out.split())
    (notice,) = tilescope("summary", tmp_path / "double", "--json").json()["notices"]
    assert (notice["severity"], notice["code"], notice["message"]) == (
        "info", "narrowed_type", text,
    )  # fmt: skip

    integers = _wide(tmp_path / "int.onnx", TensorProto.INT64, w=np.full(4, 2**20))
    finished = tilescope("run", str(integers), *TILES, "--no-report", "--json")
    assert finished.json()["notices"] == [
        "The machine has no int64: 'y' is computed in int32: results beyond 2,147,483,647 wrap"
        " around."
    ]


def test_types_of_the_machine_are_no_notice(tilescope: Run, network: Path, tmp_path: Path) -> None:
    finished = tilescope("run", str(network), *TILES, "--report", tmp_path, "--json")
    assert finished.json()["notices"] == []
    assert tilescope("summary", tmp_path, "--json").json()["notices"] == []


def test_an_output_may_be_a_double(tmp_path: Path) -> None:
    model = model_of(
        [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.DOUBLE)],
        [info("x", [2])],
        [info("y", [2], TensorProto.DOUBLE)],
    )
    onnx.save(model, tmp_path / "cast.onnx")
    assert load_onnx(tmp_path / "cast.onnx").outputs[0][1].dtype == "float64"


def test_an_unknown_mode_is_refused(network: Path) -> None:
    with pytest.raises(BadOption, match="Unknown synthetic data 'noise'"):
        with_synthetic_data(load_onnx(network), "noise")
