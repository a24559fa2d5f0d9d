"""``tilescope models check``: what a model is made of, without its weights."""

from __future__ import annotations

import itertools
import json
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper
from onnx.external_data_helper import convert_model_to_external_data
from tests.engine.operators.graphs import info, model_of
from tests.tilescope.conftest import Outcome

from tilescope.engine import compile_model, load_machine, load_onnx
from tilescope.engine.frontend.onnx.facts.census import Census, take_census

Run = Callable[..., Outcome]
_LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
_LARGE = 4096  # elements: more than a skeleton keeps


def _saved(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    weights: Mapping[str, NDArray[Any]] | None = None,
    opset: int = 17,
) -> Path:
    onnx.save(model_of(nodes, inputs, outputs, weights, opset), path)
    return path


def _ones(*shape: int) -> NDArray[np.float32]:
    return np.ones(shape, np.float32)


def test_notices_are_shown(tilescope: Run, tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    path = _saved(tmp_path / "m.onnx", nodes, [info("x", [2, 3])], [info("y", [6])])
    text = "Output 'y' is declared as (6) but computed as (2, 3): its computed shape counts"
    assert tilescope("models", "check", path, "--json").json()["notices"] == [text]
    assert text in " ".join(tilescope("models", "check", path).out.split())
    finished = tilescope("run", path, "--tiles", "4", "--report", tmp_path / "report")
    assert text in " ".join(finished.out.split())
    (notice,) = tilescope("summary", tmp_path / "report", "--json").json()["notices"]
    assert (notice["severity"], notice["code"], notice["message"]) == (
        "warning", "output_shape", text,
    )  # fmt: skip


# Multiply-adds and parameters as published for these networks, counted by other programs.
@pytest.mark.parametrize(
    ("name", "multiply_adds", "n_parameters"),
    [
        ("light_resnet50", 4_089_184_256, 25_610_152),
        ("light_squeezenet", 349_152_352, 1_235_496),
        ("light_shufflenet", None, None),
    ],
)
def test_known_networks(name: str, multiply_adds: int | None, n_parameters: int | None) -> None:
    actual = take_census(_LIGHT / f"{name}.onnx")
    assert (actual.n_unknown, actual.missing, actual.problem) == (0, {}, "")
    if multiply_adds is not None:
        assert actual.multiply_adds == pytest.approx(multiply_adds, rel=1e-5)
        assert actual.n_parameters == n_parameters


def _of_node(
    tmp_path: Path,
    node: onnx.NodeProto,
    x: Sequence[int],
    weights: Mapping[str, NDArray[Any]],
    opset: int = 17,
) -> Census:
    inputs, outputs = [info("x", x)], [info(node.output[-1], None)]  # type: ignore[arg-type]
    return take_census(_saved(tmp_path / "node.onnx", [node], inputs, outputs, weights, opset))


def test_multiply_adds_by_hand(tmp_path: Path) -> None:
    node = helper.make_node
    conv = _of_node(tmp_path, node("Conv", ["x", "w"], ["y"], group=2), (1, 4, 8, 8),
                    {"w": _ones(6, 2, 3, 3)})  # fmt: skip
    assert conv.multiply_adds == (6 * 6 * 6) * (2 * 3 * 3)
    turned = _of_node(tmp_path, node("ConvTranspose", ["x", "w"], ["y"]), (1, 4, 8, 8),
                      {"w": _ones(4, 5, 3, 3)})  # fmt: skip
    assert turned.multiply_adds == (4 * 8 * 8) * (5 * 3 * 3)
    gemm = _of_node(tmp_path, node("Gemm", ["x", "w"], ["y"], transA=1), (7, 3),
                    {"w": _ones(7, 5)})  # fmt: skip
    assert gemm.multiply_adds == 3 * 5 * 7
    lstm = _of_node(tmp_path, node("LSTM", ["x", "w", "r"], ["", "y"], hidden_size=5), (6, 2, 3),
                    {"w": _ones(1, 20, 3), "r": _ones(1, 20, 5)})  # fmt: skip
    assert lstm.multiply_adds == 6 * 2 * 20 * (3 + 5)
    einsum = _of_node(tmp_path, node("Einsum", ["x", "w"], ["y"], equation="...ij,jk->...ik"),
                      (4, 2, 3), {"w": _ones(3, 5)})  # fmt: skip
    assert einsum.multiply_adds == 4 * 2 * 3 * 5
    attention = _of_node(
        tmp_path, node("Attention", ["x", "k", "v"], ["y"]), (2, 3, 4, 8),
        {"k": _ones(2, 3, 6, 8), "v": _ones(2, 3, 6, 10)}, 23,
    )  # fmt: skip
    assert attention.multiply_adds == 2 * 3 * 4 * 6 * (8 + 10)


def test_memory_by_hand(tmp_path: Path) -> None:
    """Two branches of x meet: x, and the larger branch, live at once; relu is in place."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "v"], ["c"]),
        helper.make_node("Add", ["c", "a2"], ["y"]),
    ]
    nodes.insert(0, helper.make_node("MatMul", ["x", "u"], ["a2"]))
    weights = {"w": _ones(4, 100), "v": _ones(100, 4), "u": _ones(4, 4), "unused": _ones(50)}
    path = _saved(tmp_path / "m.onnx", nodes, [info("x", [2, 4])], [info("y", [2, 4])], weights)
    actual = take_census(path)
    assert actual.n_parameters == 400 + 400 + 16
    assert actual.weight_bytes == 4 * 816
    assert actual.activation_bytes == 4 * (8 + 200 + 8)
    half = take_census(path, precision="half")
    assert (half.weight_bytes, half.activation_bytes) == (2 * 816, 2 * 216)


@pytest.mark.parametrize("name", ["light_squeezenet", "light_shufflenet"])
def test_a_compiled_model_takes_no_less(name: str) -> None:
    path = _LIGHT / f"{name}.onnx"
    memory = compile_model(load_onnx(path), load_machine("gc200")).executable.memory
    assert take_census(path).least_bytes <= int(memory.excluding_gaps.sum())


def test_weights_are_not_read(tmp_path: Path) -> None:
    """A weight of 1 GiB, as a hole in the file: no memory, no time."""
    small = model_of(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [info("x", [1, 2**14])],
        [info("y", [1, 2**14])],
    )
    weight = helper.make_tensor("w", TensorProto.FLOAT, [0], b"", raw=True)
    weight.dims[:] = [2**14, 2**14]
    head, n_bytes = weight.SerializeToString(), 2**30

    def varint(value: int) -> bytes:
        actual = bytearray()
        while value > 127:
            actual.append(value & 127 | 128)
            value >>= 7
        return bytes((*actual, value))

    raw = b"\x4a" + varint(n_bytes)  # field 9 of TensorProto
    field = b"\x2a" + varint(len(head) + len(raw) + n_bytes)  # field 5 of GraphProto
    graph = small.graph.SerializeToString()
    small.ClearField("graph")
    size = len(graph) + len(field) + len(head) + len(raw) + n_bytes
    path = tmp_path / "large.onnx"
    with path.open("wb") as file:
        file.write(small.SerializeToString() + b"\x3a" + varint(size) + graph + field + head + raw)
        file.truncate(file.tell() + n_bytes)
    tracemalloc.start()
    actual = take_census(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (actual.n_parameters, actual.multiply_adds) == (2**28, 2**28)
    assert actual.problem == ""
    assert peak < 2**25


def test_the_skeleton_has_what_decides_shapes(tmp_path: Path) -> None:
    """Large constants, in nodes and outside, external ones, and subgraphs."""
    big = helper.make_tensor("c", TensorProto.FLOAT, [_LARGE], np.ones(_LARGE, np.float32))

    def branch(k: str) -> onnx.GraphProto:
        node = helper.make_node("Mul", ["x", k], [f"{k}x"])
        weight = helper.make_tensor(k, TensorProto.FLOAT, [_LARGE], np.ones(_LARGE, np.float32))
        return helper.make_graph([node], k, [], [info(f"{k}x", [_LARGE])], [weight])

    nodes = [
        helper.make_node("Constant", [], ["c"], value=big),
        helper.make_node("Add", ["x", "c"], ["a"]),
        helper.make_node("Mul", ["a", "e"], ["m"]),
        helper.make_node("If", ["p"], ["b"], then_branch=branch("k"), else_branch=branch("l")),
        helper.make_node("Sum", ["m", "b"], ["s"]),
        helper.make_node("Reshape", ["s", "sizes"], ["y"]),
    ]
    inputs = [info("x", [_LARGE]), info("p", [], TensorProto.BOOL)]
    weights = {"e": _ones(_LARGE), "sizes": np.array([64, -1])}
    model = model_of(nodes, inputs, [info("y", [64, 64])], weights)
    convert_model_to_external_data(model, location="weights.bin", size_threshold=_LARGE)
    onnx.save(model, tmp_path / "external.onnx")
    (tmp_path / "weights.bin").unlink()
    actual = take_census(tmp_path / "external.onnx")
    assert (actual.problem, actual.n_unknown) == ("", 0)
    assert actual.n_parameters == 4 * _LARGE
    assert actual.operators["Mul"] == 3


def test_the_screen(tilescope: Run) -> None:
    finished = tilescope("models", "check", _LIGHT / "light_squeezenet.onnx")
    assert (finished.code, finished.err) == (0, "")
    lines = finished.out.splitlines()
    assert len(lines) <= 24
    assert any(line.startswith("Parameters") and "1,235,496" in line for line in lines)
    assert lines[-1].startswith("Next: tilescope run ")
    actual = json.loads(
        tilescope("models", "check", _LIGHT / "light_squeezenet.onnx", "--json").out
    )
    assert actual["is_ready"] is True
    assert actual["least_bytes"] == actual["weight_bytes"] + actual["activation_bytes"]
    assert actual["capacity_bytes"] == 638_976 * 1472


def test_what_speaks_against_a_run(tilescope: Run, tmp_path: Path) -> None:
    node = helper.make_node
    unsupported = _saved(
        tmp_path / "unsupported.onnx",
        [node("StringNormalizer", ["x"], ["s"], name="first"), node("Relu", ["f"], ["y"])],
        [info("x", [2], TensorProto.STRING), info("f", [2])],
        [info("y", [2])],
    )
    finished = tilescope("models", "check", unsupported)
    assert finished.code == 1
    assert "StringNormalizer 1 (first)" in finished.out
    assert "operators StringNormalizer are not supported" in finished.out

    reshaped = _saved(
        tmp_path / "reshape.onnx",
        [node("Reshape", ["x", "sizes"], ["y"])],
        [info("x", [None, 6]), info("sizes", [2], TensorProto.INT64)],
        [info("y", [None, None])],
    )
    finished = tilescope("models", "check", reshaped)
    assert finished.code == 1
    assert "give its values with --set sizes=..." in finished.out
    assert tilescope("models", "check", reshaped, "--set", "sizes=3,2").code == 0
    assert tilescope("models", "check", reshaped, "--set", "sizes=3,3").code == 1

    opened = _saved(
        tmp_path / "open.onnx", [node("Relu", ["x"], ["y"])], [info("x", [None, None])],
        [info("y", [None, None])],
    )  # fmt: skip
    finished = tilescope("models", "check", opened)
    assert finished.code == 1
    assert "set the sizes of 'x' with --shape x=1,N" in finished.out
    assert tilescope("models", "check", opened, "--shape", "x=2,3").code == 0

    large = _saved(
        tmp_path / "large.onnx", [node("MatMul", ["x", "x"], ["y"])], [info("x", [16384, 16384])],
        [info("y", [16384, 16384])],
    )  # fmt: skip
    finished = tilescope("models", "check", large)
    assert finished.code == 1
    assert "The model does not fit: use a smaller batch or smaller inputs or --precision half" in (
        finished.out
    )


@pytest.mark.parametrize(
    ("n_weights", "says_half", "n_ipus"),
    [(4, True, 2), (9, False, 4)],  # 1 and 2.25 GiB of 0.88
)
def test_weights_that_exceed_all_tiles(
    tilescope: Run, tmp_path: Path, n_weights: int, says_half: bool, n_ipus: int
) -> None:
    """The weights are a hole in their file, and are not read."""
    side = 8192
    names = [f"w{i}" for i in range(n_weights)]
    values = ["x", *(f"y{i}" for i in range(n_weights))]
    nodes = [
        helper.make_node("MatMul", [x, w], [y])
        for x, w, y in zip(values[:-1], names, values[1:], strict=True)
    ]
    model = model_of(nodes, [info("x", [1, side])], [info(values[-1], [1, side])])
    for index, name in enumerate(names):
        weight = model.graph.initializer.add(name=name, data_type=1, dims=[side, side])
        weight.data_location = TensorProto.EXTERNAL
        weight.external_data.add(key="location", value="w.bin")
        weight.external_data.add(key="offset", value=str(4 * side * side * index))
        weight.external_data.add(key="length", value=str(4 * side * side))
    path = tmp_path / "large.onnx"
    onnx.save(model, path)
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(4 * side * side * n_weights)
    checked = tilescope("models", "check", path)
    assert checked.code == 1
    assert ("--precision half" in checked.out) == says_half
    assert f"{n_ipus} IPUs or more (--ipus {n_ipus})." in checked.out
    assert "smaller batch" not in checked.out
    finished = tilescope("run", path, "--no-report")
    assert finished.code == 4
    assert finished.err.count("\n") == 1
    assert f"take {4 * side * side * n_weights:,} bytes, and all 1,472 tiles" in finished.err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not an ONNX file or is truncated"),
        (b"\xff" * 64, "is not an ONNX file or is truncated"),
        (b"\x3a\xff\xff\xff\xff\x0f", "is not an ONNX file or is truncated"),
        (None, "does not exist: give the path of an .onnx file"),
    ],
)
def test_what_is_no_model(tilescope: Run, tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "bad.onnx"
    if content is not None:
        path.write_bytes(content)
    finished = tilescope("models", "check", path)
    assert (finished.code, finished.out) == (2, "")
    assert said in finished.err
    assert finished.err.count("\n") == 1


@pytest.mark.parametrize("command", [["models", "check"], ["run", "--no-report"]])
def test_the_name_of_a_model_in_the_catalogue_says_how_to_fetch_it(
    tilescope: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    finished = tilescope(*command, "opennsfw")
    assert (finished.code, finished.out) == (2, "")
    assert "Model opennsfw does not exist: give the path of an .onnx file" in finished.err
    assert "'tilescope models fetch opennsfw' prints that of the model" in finished.err
    assert finished.err.count("\n") == 1
    assert "fetch" not in tilescope(*command, "mine.onnx").err


def test_a_name_that_no_node_computes(tilescope: Run, tmp_path: Path) -> None:
    node = helper.make_node("Relu", ["nowhere"], ["y"])
    path = _saved(tmp_path / "loose.onnx", [node], [info("x", [1])], [info("y", [1])])
    finished = tilescope("models", "check", path)
    assert finished.code == 1
    assert "no node computes 'nowhere', which the graph reads" in finished.out


def test_a_truncated_model(tilescope: Run, tmp_path: Path) -> None:
    path = tmp_path / "cut.onnx"
    full = (_LIGHT / "light_squeezenet.onnx").read_bytes()
    path.write_bytes(full[: len(full) // 2])
    assert tilescope("models", "check", path).code == 2


@pytest.mark.parametrize(
    "arguments",
    [("--shape", "z=1,2"), ("--set", "z=1"), ("--precision", "quarter"), ("--shape", "x=1,2,3")],
)
def test_wrong_arguments(tilescope: Run, tmp_path: Path, arguments: tuple[str, str]) -> None:
    path = _saved(
        tmp_path / "relu.onnx", [helper.make_node("Relu", ["x"], ["y"])], [info("x", [None, 6])],
        [info("y", [None, 6])],
    )  # fmt: skip
    finished = tilescope("models", "check", path, *arguments)
    assert (finished.code, finished.out) == (2, "")
    assert finished.err.count("\n") == 1


def test_a_model_whose_code_does_not_fit_is_no_yes(tilescope: Run, tmp_path: Path) -> None:
    """Every node is a step of its own, and the control code of all steps exceeds a tile."""
    names = [f"v{number}" for number in range(20_001)]
    nodes = [
        helper.make_node(("Sin", "Cos")[i % 2], [first], [second])
        for i, (first, second) in enumerate(itertools.pairwise(names))
    ]
    path = _saved(tmp_path / "deep.onnx", nodes, [info("v0", [4])], [info(names[-1], [4])])
    machine = tmp_path / "long_code.toml"
    machine.write_text('base = "gc200"\n[common]\ncontrol_code_bytes_per_step = 20\n')
    check = ("models", "check", path, "--machine", machine)
    text = tilescope(*check)
    assert "Its code may not fit: control code alone may take" in text.out
    assert "add --compile to be sure" in text.out
    finished = tilescope(*check, "--compile", "--json")
    assert finished.code == 1
    actual = finished.json()
    assert actual["is_ready"] is False
    assert actual["control_code_bytes"] > actual["code_capacity_bytes"]
    assert "control code at least" in actual["compiled"]["problem"]
    assert "The model does not fit" in actual["advice"][0]


def test_a_compiled_check_agrees_with_the_run(tilescope: Run, tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    path = _saved(
        tmp_path / "m.onnx", nodes, [info("x", [8, 64])], [info("y", [8, 32])], {"w": _ones(64, 32)}
    )
    actual = tilescope("models", "check", path, "--compile", "--json").json()
    ran = tilescope("run", path, "--no-report", "--json").json()
    assert actual["is_ready"]
    assert actual["compiled"]["max_tile_bytes"] == ran["max_address_bytes"]
    assert actual["compiled"]["problem"] == ""
    assert "Compiled" in tilescope("models", "check", path, "--compile").out
