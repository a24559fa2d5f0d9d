"""Programs compiled before: taken whole by any process, and never for another program."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import convert_model_to_external_data
from tests.engine.compiler.flat import flat

from tilescope import engine
from tilescope.analyser.diff.identity import unequal_data
from tilescope.engine.compiler.cache import description, programs, store
from tilescope.engine.compiler.cache.programs import ProgramFolder
from tilescope.engine.compiler.cache.store import CacheFolder
from tilescope.engine.compiler.executable.container import Container, encode
from tilescope.engine.errors import OutOfTileMemory
from tilescope.engine.frontend.onnx.onnx_file import OnnxFile
from tilescope.engine.frontend.source_model import Setup
from tilescope.engine.session.model_run import ModelRun, run_model
from tilescope.engine.training import Loss, Sgd, for_training
from tilescope.reports import open_report
from tilescope.reports.schema import provenance

TILES = 8
PARTS = ("launches", "program", "report", "source", "weights")


def save(
    path: Path, nodes: list[Any], weights: dict[str, NDArray[Any]], **inputs: list[int]
) -> Path:
    """Save a model of float inputs, with one output ``y``."""
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "stored",
        [info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(values, name) for name, values in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)
    return path


def dense(path: Path, scale: float = 1.0, name: str = "product") -> Path:
    """Save a product, a sum and a relu."""
    random = np.random.default_rng(2)
    weights = {
        "w": (scale * random.standard_normal((24, 16))).astype(np.float32),
        "b": random.standard_normal(16).astype(np.float32),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], name=name),
        helper.make_node("Add", ["p", "b"], ["s"], name="sum"),
        helper.make_node("Relu", ["s"], ["y"], name="cut"),
    ]
    return save(path, nodes, weights, x=[6, 24])


def deciding(path: Path) -> Path:
    """Save an If, whose branch the data decide."""
    branches = []
    for operator in ("Relu", "Neg"):
        info = helper.make_tensor_value_info("z", TensorProto.FLOAT, [6, 24])
        node = helper.make_node(operator, ["x"], ["z"], name=f"{operator} inside")
        branches.append(helper.make_graph([node], operator, [], [info]))
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0, name="total"),
        helper.make_node("Greater", ["total", "none"], ["is_more"], name="compare"),
        helper.make_node(
            "If",
            ["is_more"],
            ["y"],
            then_branch=branches[0],
            else_branch=branches[1],
            name="decide",
        ),
    ]
    return save(path, nodes, {"none": np.array(0, np.float32)}, x=[6, 24])


def recurrent(path: Path) -> Path:
    """Save an LSTM of five steps: a loop."""
    random = np.random.default_rng(4)
    weights = {
        "W": random.standard_normal((1, 32, 4)).astype(np.float32),
        "R": random.standard_normal((1, 32, 8)).astype(np.float32),
    }
    node = helper.make_node("LSTM", ["x", "W", "R"], ["y"], hidden_size=8, name="layer")
    return save(path, [node], weights, x=[5, 2, 4])


def counting(path: Path) -> Path:
    """Save a model whose number of entries, and cycles, depend on the data."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"], name="places"),
        helper.make_node("Cast", ["places"], ["y"], to=TensorProto.FLOAT, name="cast"),
    ]
    return save(path, nodes, {}, x=[6, 24])


MODELS: dict[str, Callable[[Path], Path]] = {
    "dense": dense,
    "deciding": deciding,
    "recurrent": recurrent,
    "counting": counting,
}


def run(
    path: Path,
    folder: Path,
    *,
    n_ipus: int = 1,
    tiles: int = TILES,
    code: dict[str, Any] | None = None,
    **given: Any,
) -> ModelRun:
    """Run a model with a report in a folder."""
    machine = engine.load_machine("gc200", n_ipus=n_ipus, tiles_per_ipu=tiles)
    values = {"autoReport.all": True, "autoReport.directory": str(folder), **(code or {})}
    return run_model(
        OnnxFile(path), machine, engine.resolve_options(environ={}, code=values), **given
    )


def state(outcome: ModelRun) -> str:
    """Return whether the program was compiled before."""
    return outcome.compiled.executable.record.cache


def cached(code: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return options with a cache in the working directory."""
    return {"enableEngineCaching": True, "cachePath": "kept", **(code or {})}


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("n_ipus", [1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_a_stored_program_is_the_same_program(name: str, n_ipus: int, tmp_path: Path) -> None:
    path = MODELS[name](tmp_path / "model.onnx")
    first, second, third = (
        run(path, tmp_path / f"r{i}", n_ipus=n_ipus, iterations=2, seed=5) for i in range(3)
    )
    assert [state(outcome) for outcome in (first, second, third)] == ["miss", "hit", "hit"]
    for outcome in (second, third):
        for key, array in first.outputs.items():
            assert array.tobytes() == outcome.outputs[key].tobytes()
        assert outcome.cycles == first.cycles
    with open_report(tmp_path / "r0") as one, open_report(tmp_path / "r1") as other:
        other.verify()
        assert not unequal_data(one, other)
    alone = [outcome.compiled.executable.alone for outcome in (first, second)]
    one_, other_ = (flat([*item.steps, *item.nodes, item.memory, *item.plans]) for item in alone)
    assert one_ == other_


_ALONE = """
import sys
from tilescope.main import main
options = ["--tiles", "8", "--report", sys.argv[2], "--cache", "kept"]
sys.argv = ["tilescope", "run", sys.argv[1], *options]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(sorted(sys.modules))
"""
#: What a program that was compiled before has no use for.
_NOT_NEEDED = (
    "numba",
    "onnx",
    "tilescope.engine.compiler.compile",
    "tilescope.engine.compiler.lower",
    "tilescope.engine.frontend.onnx.load",
    "tilescope.engine.library",
    "tilescope.engine.lower",
    "tilescope.engine.operators",
    "tilescope.engine.planner.convolution",
    "tilescope.engine.recorder.compilation",
    "tilescope.engine.transform",
)


def test_another_process_imports_neither_front_end_nor_compiler(tmp_path: Path) -> None:
    path = dense(tmp_path / "model.onnx")
    lines = []
    for report in ("first", "second"):
        done = subprocess.run(
            [sys.executable, "-c", _ALONE, str(path), report],
            capture_output=True, text=True, check=True, timeout=300,
        )  # fmt: skip
        lines.append(done.stdout.splitlines()[-1])
    names = set(json.loads(lines[1].replace("'", '"')))
    assert [name for name in _NOT_NEEDED if name in names] == []
    assert "onnx" in lines[0]
    with open_report(tmp_path / "first") as one, open_report(tmp_path / "second") as other:
        assert not unequal_data(one, other)


def test_a_run_reads_no_vertices_of_a_stored_program(tmp_path: Path) -> None:
    path = dense(tmp_path / "model.onnx")
    run(path, tmp_path / "first")
    executable = run(path, tmp_path / "second").compiled.executable
    later = [item for item in executable.graph.compute_sets if "batches" in vars(item)]
    assert (later, "live" in vars(executable.memory)) == ([], False)
    assert sum(item.n_vertices for item in executable.graph.compute_sets) > 0, (
        "there when asked for"
    )
    assert executable.memory.live.peak.size == TILES


CHANGES: dict[str, dict[str, Any]] = {
    "more tiles": {"tiles": 16},
    "half": {"setup": Setup(precision="half")},
    "synthetic data": {"setup": Setup(synthetic="random_normal")},
    "not instrumented": {"code": {"debug.instrument": False}},
    "not outlined": {"code": {"enableOutlining": False}},
    "checked": {"code": {"debug.verify": True}},
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_the_program_compiles_it_anew(change: str, tmp_path: Path) -> None:
    path = dense(tmp_path / "model.onnx")
    run(path, tmp_path / "r")
    assert state(run(path, tmp_path / "r")) == "hit"
    assert state(run(path, tmp_path / "r", **CHANGES[change])) == "miss"
    assert state(run(path, tmp_path / "r", **CHANGES[change])) == "hit"


def test_what_does_not_change_the_program_leaves_it(tmp_path: Path) -> None:
    path = dense(tmp_path / "model.onnx")
    run(path, tmp_path / "r")
    moved = dense(tmp_path / "moved.onnx")
    for report, file, options in (
        ("elsewhere", path, {"seed": 3}),
        ("r", path, {"iterations": 3}),
        ("r", moved, {}),
        ("r", path, {"code": {"autoReport.outputGraphProfile": False}}),
        ("r", path, {"code": {"autoReport.outputDebugInfo": True}}),
        ("r", path, {"code": {"autoReport.outputDebugInfo": True}}),
    ):
        outcome = run(file, tmp_path / report, **options)
        assert state(outcome) == "hit"
        with open_report(tmp_path / report) as report_file:
            report_file.verify()
    assert (tmp_path / "r" / "debug.cbor").is_file()


def test_synthetic_data_of_another_seed_are_another_program(tmp_path: Path) -> None:
    path, setup = dense(tmp_path / "model.onnx"), Setup(synthetic="random_normal")
    states = [state(run(path, tmp_path / "r", setup=setup, seed=seed)) for seed in (1, 1, 2)]
    assert states == ["miss", "hit", "miss"]


def test_other_weights_and_names_are_never_taken_for_these(tmp_path: Path) -> None:
    outcomes = [
        run(dense(tmp_path / "model.onnx", **change), tmp_path / "r", seed=1)
        for change in ({}, {"scale": 2.0}, {"name": "other"}, {})
    ]
    assert [state(outcome) for outcome in outcomes] == ["miss", "miss", "miss", "hit"]
    outputs = [outcome.outputs["y"].tobytes() for outcome in outcomes]
    assert outputs[0] != outputs[1]
    assert outputs[0] == outputs[2] == outputs[3]
    names = [{step.name for step in o.compiled.executable.steps} for o in outcomes]
    assert names[0] != names[2]


def external(path: Path, scale: float) -> Path:
    """Save the dense model with its weights in a file beside it."""
    model = onnx.load(dense(path, scale))
    path.with_name("weights.bin").unlink(missing_ok=True)
    convert_model_to_external_data(model, location="weights.bin", size_threshold=0)
    onnx.save(model, path)
    return path


def test_weights_in_a_file_beside_the_model_belong_to_it(tmp_path: Path) -> None:
    path = external(tmp_path / "model.onnx", 1.0)
    model = path.read_bytes()
    first = run(path, tmp_path / "r", seed=1)
    assert state(run(path, tmp_path / "r", seed=1)) == "hit"
    external(tmp_path / "model.onnx", 2.0)
    assert path.read_bytes() == model, "only the other file changes"
    second = run(path, tmp_path / "r", seed=1)
    assert state(second) == "miss"
    assert first.outputs["y"].tobytes() != second.outputs["y"].tobytes()
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(engine.errors.BadModel, match=r"weights\.bin"):
        run(path, tmp_path / "r")


@pytest.mark.parametrize("which", ["model.onnx", "weights.bin"])
def test_a_file_that_changes_while_it_is_compiled_is_not_taken_for_its_program(
    which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = external(tmp_path / "model.onnx", 1.0)
    load = OnnxFile.load

    def changing(source: OnnxFile, setup: Setup) -> Any:
        model = load(source, setup)
        content = (tmp_path / which).read_bytes()
        if which == "weights.bin":
            (tmp_path / which).write_bytes(np.ones(len(content) // 4, np.float32).tobytes())
        else:
            changed = onnx.load_model_from_string(content)
            changed.graph.node[2].op_type = "Sigmoid"
            (tmp_path / which).write_bytes(changed.SerializeToString())
        return model

    with monkeypatch.context() as patch:
        patch.setattr(OnnxFile, "load", changing)
        run(path, tmp_path / "r", seed=1)
    again = run(path, tmp_path / "r", seed=1)
    assert state(again) == "miss"
    alone = run(path, tmp_path / "r", seed=1, code={"enableEngineCaching": False})
    assert again.outputs["y"].tobytes() == alone.outputs["y"].tobytes()


def files() -> dict[str, Path]:
    """Return the file of every part."""
    return {kind: next(Path("kept").glob(f"*.{kind}")) for kind in PARTS}


@pytest.mark.parametrize("kind", PARTS)
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "flipped", "other"])
def test_a_damaged_part_is_made_again(
    kind: str, damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = dense(tmp_path / "model.onnx")
    first = run(path, tmp_path / "r0", code=cached(), seed=1)
    assert set(files()) == set(PARTS)
    file = files()[kind]
    content = file.read_bytes()
    if damage == "missing":
        file.unlink()
    elif damage == "other":
        file.write_bytes(files()["program" if kind != "program" else "report"].read_bytes())
    else:
        flipped = content[:-3] + bytes([content[-3] ^ 1]) + content[-2:]
        file.write_bytes({"empty": b"", "cut": content[:-1], "flipped": flipped}[damage])
    outcome = run(path, tmp_path / "r1", code=cached(), seed=1)
    assert outcome.outputs["y"].tobytes() == first.outputs["y"].tobytes()
    is_warned = any(
        f".{kind} is not usable" in text or "a false hit" in text for text in caplog.messages
    )
    assert is_warned is (damage != "missing")
    with open_report(tmp_path / "r0") as one, open_report(tmp_path / "r1") as other:
        other.verify()
        assert not unequal_data(one, other)
    assert state(run(path, tmp_path / "r2", code=cached(), seed=1)) == "hit"
    assert file.exists()


class _Caller:
    """An object that would make a file when it is made again."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("called",)


@pytest.mark.parametrize("kind", ["launches", "program", "report"])
def test_a_planted_part_runs_nothing(kind: str, tmp_path: Path) -> None:
    path = dense(tmp_path / "model.onnx")
    run(path, tmp_path / "r", code=cached())
    file = files()[kind]
    entry = Container(memoryview(file.read_bytes()))
    arrays = {name: entry.array(name) for name in entry.names}
    parts = pickle.dumps(_Caller()), pickle.dumps([])
    arrays["objects"] = np.frombuffer(b"".join(parts), np.uint8)
    facts = dict(entry.facts)
    facts["objects"] = {**facts["objects"], "lengths": [len(part) for part in parts]}
    file.write_bytes(encode(facts, arrays, arrays))
    run(path, tmp_path / "r", code=cached())
    assert not Path("called").exists()


def test_another_version_of_the_engine_compiles_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = dense(tmp_path / "model.onnx")
    run(path, tmp_path / "r", code=cached())
    monkeypatch.setattr(description, "engine_versions", lambda: {"sources": "others"})
    assert state(run(path, tmp_path / "r", code=cached())) == "miss"


def test_parts_used_longest_ago_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = programs.programs_folder()
    paths = [dense(tmp_path / f"{i}.onnx", scale=i + 1.0) for i in range(3)]
    run(paths[0], tmp_path / "r")
    one = sum(file.stat().st_size for file in folder.iterdir())
    monkeypatch.setattr(programs, "_MOST_BYTES", int(2.1 * one))
    moment = 1_000_000_000
    for path, expected in ((paths[1], "miss"), (paths[0], "hit"), (paths[2], "miss")):
        for file in folder.iterdir():  # the clock of a file system may be too coarse to tell
            moment += 1
            if file.stat().st_mtime > 2e9 or file.stat().st_mtime < 1.5e9:
                continue
            os.utime(file, (moment, moment))
        assert state(run(path, tmp_path / "r")) == expected
        assert sum(file.stat().st_size for file in folder.iterdir()) <= 2.1 * one
    assert [state(run(path, tmp_path / "r")) for path in (paths[0], paths[2])] == ["hit", "hit"]
    assert state(run(paths[1], tmp_path / "r")) == "miss"


def test_processes_share_a_folder(tmp_path: Path) -> None:
    path = dense(tmp_path / "model.onnx")
    command = [
        sys.executable,
        "-m",
        "tilescope",
        "run",
        str(path),
        "--tiles",
        "8",
        "--cache",
        "kept",
    ]
    running = [
        subprocess.Popen([*command, "--report", f"r{i}"], stdout=subprocess.DEVNULL)
        for i in range(3)
    ]
    assert [process.wait(timeout=300) for process in running] == [0, 0, 0]
    with open_report(tmp_path / "r0") as one, open_report(tmp_path / "r2") as other:
        assert not unequal_data(one, other)
    assert state(run(path, tmp_path / "r", code=cached())) == "hit"


def test_a_program_that_does_not_fit_says_so_again(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    weights = {"w": random.standard_normal((900, 900)).astype(np.float32)}
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="large")
    path = save(tmp_path / "model.onnx", [node], weights, x=[4, 900])
    texts = []
    for report in ("r0", "r1"):
        with pytest.raises(OutOfTileMemory) as caught:
            run(path, tmp_path / report, tiles=2)
        texts.append(str(caught.value).replace(report, "r"))
    assert texts[0] == texts[1]
    with open_report(tmp_path / "r0") as one, open_report(tmp_path / "r1") as other:
        assert not unequal_data(one, other)
        assert dict(other.rows(provenance, "key", "value"))["wall_compile_cache"] == "hit"


def test_caching_can_be_turned_off(tmp_path: Path) -> None:
    path, off = dense(tmp_path / "model.onnx"), {"enableEngineCaching": False}
    assert [state(run(path, tmp_path / "r", code=off)) for _ in range(2)] == ["off", "off"]
    assert not programs.programs_folder().exists()


def test_a_folder_that_cannot_be_written_costs_the_program_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("kept").write_text("a file has the name of the folder")
    monkeypatch.setattr(store, "_warned", set())
    path = dense(tmp_path / "model.onnx")
    assert [state(run(path, tmp_path / "r", code=cached())) for _ in range(2)] == ["miss", "miss"]


def test_training_goes_on_from_a_stored_program(tmp_path: Path) -> None:
    source = engine.load_onnx(dense(tmp_path / "model.onnx"), trainable=("w", "b"))
    model = for_training(source, Loss(kind="mse", labels="labels"), Sgd(lr=0.01))
    machine = engine.load_machine("gc200", tiles_per_ipu=TILES)
    losses = []
    for _ in range(2):
        with engine.Trainer(model, machine, cache_directory=tmp_path / "kept") as trainer:
            losses.append([float(trainer.step(_batch(step))["loss"]) for step in range(3)])
    assert len(list((tmp_path / "kept").glob("*.program"))) == 1
    assert losses[0] == losses[1]


def _batch(step: int) -> dict[str, NDArray[Any]]:
    random = np.random.default_rng(step)
    return {
        "x": random.standard_normal((6, 24)).astype(np.float32),
        "labels": random.standard_normal((6, 16)).astype(np.float32),
    }


def test_kinds_of_parts_do_not_mix(tmp_path: Path) -> None:
    parts = ProgramFolder(tmp_path / "kept").parts(("a question", 1))
    parts.keep("program", "", {"a": 1}, {})
    read: Callable[[Container], Any] = lambda entry: entry.facts  # noqa: E731 # short
    assert parts.take("program", "", read) == {"a": 1}
    assert parts.take("program", "else", read) is None
    assert parts.take("report", "", read) is None
    assert (
        ProgramFolder(tmp_path / "kept").parts(("a question", 2)).take("program", "", read) is None
    )
    assert CacheFolder(tmp_path / "kept", "program").load(b"else", lambda *_: 1) is None
