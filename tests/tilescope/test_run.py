"""``tilescope run`` in this process: output, files and exit codes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.tilescope.conftest import Outcome

from tilescope import analyser
from tilescope.analyser.errors import AnalyserError
from tilescope.analyser.summary.metrics import values
from tilescope.analyser.time.execution import execution
from tilescope.analyser.time.runs import runs
from tilescope.engine.errors import RunFailed
from tilescope.engine.session.model_run import write_outputs
from tilescope.reports import ReportError, check_report, find_reports, open_report
from tilescope.reports.schema import engine_option, plan, variable

Run = Callable[..., Outcome]


def save_model(
    path: Path, nodes: Sequence[Any], shape: Sequence[Any], weights: dict[str, np.ndarray]
) -> Path:
    """Save a model of one input ``x`` and one output ``y``."""
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, None])],
        [numpy_helper.from_array(values, name) for name, values in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)
    return path


WEIGHTS = np.arange(32, dtype=np.float32).reshape(8, 4) / 32


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return a product and a relu on rows of 8."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="product"),
        helper.make_node("Relu", ["h"], ["y"], name="cut"),
    ]
    return save_model(tmp_path / "small.onnx", nodes, ["rows", 8], {"w": WEIGHTS})


@pytest.fixture(autouse=True)
def _somewhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start every test in an empty folder, where ./report may be created."""
    folder = tmp_path / "cwd"
    folder.mkdir()
    monkeypatch.chdir(folder)


def test_a_run_prints_what_it_did_and_writes_a_sound_report(tilescope: Run, model: Path) -> None:
    outcome = tilescope("run", model, "--tiles", 8)
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0].startswith("Ran small.onnx on gc200: ")
    assert "Output y: float32 (1, 4)" in lines
    report = Path("report/profile.pop")
    assert f"Report: {report.absolute()}" in lines or f"Report: {report}" in lines
    assert check_report(report) == []
    assert tilescope("summary", "report").code == 0


def test_a_run_as_json_and_quiet(tilescope: Run, model: Path, tmp_path: Path) -> None:
    position = tmp_path / "json"
    finished = tilescope("run", model, "--report", position, "--tiles", 8, "--json")
    assert (finished.code, finished.err) == (0, "")
    actual = finished.json()
    with analyser.open(position) as report:
        figures = values(report)
    assert actual["total_cycles"] == figures["cycles.total"]
    assert actual["max_tile_bytes"] == figures["memory.max_tile"]
    assert actual["max_address_bytes"] == figures["memory.max_address"]
    assert actual["report_path"] == str(position / "profile.pop")
    assert (actual["machine"]["tiles_per_ipu"], actual["notice"]) == (8, None)
    quiet = tilescope("run", model, "--no-report", "--tiles", 8, "--quiet")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    both = tilescope("run", model, "--json", "--quiet")
    assert (both.code, both.out) == (2, "")
    assert "mutually exclusive" in both.err


def test_outputs_are_those_of_the_inputs(tilescope: Run, model: Path, tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32)
    np.savez(tmp_path / "in.npz", x=x)
    out = tmp_path / "out.npz"
    outcome = tilescope(
        "run", model, "--tiles", 8, "--shape", "x=3,8", "--no-report",
        "--inputs", tmp_path / "in.npz", "--outputs", out,
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    with np.load(out) as stored:
        np.testing.assert_allclose(stored["y"], np.maximum(x @ WEIGHTS, 0), rtol=1e-5, atol=1e-6)
    assert list(Path().iterdir()) == []


def test_the_seed_decides_the_inputs(tilescope: Run, model: Path, tmp_path: Path) -> None:
    results = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        out = tmp_path / f"{name}.npz"
        outcome = tilescope(
            "run", model, "--tiles", 8, "--no-report", "--seed", seed, "--outputs", out
        )
        assert outcome.code == 0
        with np.load(out) as stored:
            results.append(stored["y"].tolist())
    assert results[0] == results[1] != results[2]


def test_iterations_are_runs_one_after_the_other(
    tilescope: Run, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested = '{"autoReport.executionProfileProgramRunCount": "4"}'
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", requested)
    assert tilescope("run", model, "--tiles", 8, "--iterations", 3, "--report", "r").code == 0
    with analyser.open("r") as report:
        rows = runs(report)
    assert [row.start_cycle for row in rows] == [0, rows[0].end_cycle, rows[1].end_cycle]
    assert len({row.end_cycle - row.start_cycle for row in rows}) == 1


def test_the_option_limits_the_recorded_runs(tilescope: Run, model: Path) -> None:
    assert tilescope("run", model, "--tiles", 8, "--iterations", 5, "--report", "r").code == 0
    with analyser.open("r") as report:
        assert len(runs(report)) == 2


def refused(outcome: Outcome, *words: str, code: int = 2) -> str:
    """Check for one exit code and a plain sentence; return it."""
    assert outcome.code == code, (outcome.out, outcome.err)
    assert "Traceback" not in outcome.err
    for word in words:
        assert word in outcome.err
    return outcome.err


def test_bad_models_are_one_sentence(tilescope: Run, model: Path, tmp_path: Path) -> None:
    refused(tilescope("run", tmp_path / "absent.onnx"), "absent.onnx", "does not exist")
    refused(tilescope("run", tmp_path), "is a directory")
    text = tmp_path / "text.onnx"
    text.write_text("this is no model\n")
    refused(tilescope("run", text), "text.onnx", "not an ONNX file")
    full = model.read_bytes()
    for n_bytes in (0, 1, len(full) // 2, len(full) - 1):
        short = tmp_path / "short.onnx"
        short.write_bytes(full[:n_bytes])
        assert refused(tilescope("run", short), "short.onnx").count("\n") == 1
    assert not Path("report").exists()


def test_unsupported_operators_are_all_listed(tilescope: Run, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="harmless"),
        helper.make_node("StringNormalizer", ["a"], ["b"], name="first_text"),
        helper.make_node("StringNormalizer", ["a"], ["c"], name="second_text"),
        helper.make_node("OptionalHasElement", ["b"], ["y"], name="listed"),
    ]
    path = save_model(tmp_path / "odd.onnx", nodes, [2, 2], {})
    error = refused(
        tilescope("run", path), "first_text", "second_text", "listed", "OptionalHasElement"
    )
    assert "harmless" not in error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--shape", "x=3"], ["x"]),
        (["--shape", "x=3,9"], ["'x'", "9"]),
        (["--shape", "z=3,8"], ["'z'", "x"]),
        (["--shape", "x"], ["--shape", "name=d0,d1"]),
        (["--shape", "x=a,b"], ["--shape", "name=d0,d1"]),
        (["--shape", "x=-1,8"], ["--shape", "at least 0"]),
        (["--machine", "gc300"], ["gc300", "gc200"]),
        (["--ipus", "0"], ["n_ipus is 0"]),
        (["--tiles", "0"], ["tiles_per_ipu is 0"]),
        (["--tiles", "100000"], ["100000", "1472"]),
        (["--parameters", "silicon"], ["silicon", "hardware", "ipu_model"]),
        (["--iterations", "0"], ["iterations"]),
        (["--report", "r", "--no-report"], ["--report", "--no-report"]),
        (["--report", ""], ["--report", "empty", "./report"]),
        (["--inputs", "absent.npz"], ["absent.npz"]),
    ],
)
def test_bad_options_are_one_sentence(
    tilescope: Run, model: Path, arguments: list[str], words: list[str]
) -> None:
    refused(tilescope("run", model, *arguments), *words)
    assert not Path("report").exists()
    assert not Path("profile.pop").exists()


def test_a_chosen_batch_is_in_the_report(tilescope: Run, model: Path) -> None:
    tilescope("run", model, "--tiles", 8, "--batch", 4, "--report", "r")
    facts = dict(tilescope("summary", "r", "--json").json()["provenance"])
    assert facts["batch"] == "4"
    assert "Use a batch of 2 in place of 4" in tilescope("fit", "r").out


def test_a_batch_of_one_that_is_assumed_is_said(tilescope: Run, model: Path) -> None:
    outcome = tilescope("run", model, "--tiles", 8, "--report", "r")
    assert "Input x: its dynamic first dimension was set to 1" in outcome.out
    assert "--shape x=1,8" in outcome.out
    facts = dict(tilescope("summary", "r", "--json").json()["provenance"])
    assert facts["assumed_batch_of_one"] == '["x"]'
    outcome = tilescope("run", model, "--tiles", 8, "--shape", "x=3,8", "--report", "r")
    assert "set to 1" not in outcome.out
    assert "assumed_batch_of_one" not in tilescope("summary", "r", "--json").out


def test_a_cached_run_reports_the_same(tilescope: Run, model: Path) -> None:
    for name in ("plain", "again", "cold", "warm"):
        cache = () if name in ("plain", "again") else ("--cache", "kept/deeper")
        assert tilescope("run", model, "--tiles", 8, "--report", name, *cache).code == 0
        facts = dict(tilescope("summary", name, "--json").json()["provenance"])
        assert facts["wall_compile_cache"] == ("hit" if name in ("again", "warm") else "miss")
        outcome = tilescope("diff", "plain", name)
        assert outcome.out.splitlines()[-1] == "The two reports hold identical data."
    assert len(list(Path("kept/deeper").glob("*.executable"))) == 1
    refused(tilescope("run", model, "--cache", ""), "--cache", "empty")


def test_a_value_beyond_all_tiles_and_a_gibibyte_is_refused(tilescope: Run, tmp_path: Path) -> None:
    size, path = 10**6, tmp_path / "huge.onnx"
    save_model(path, [helper.make_node("Relu", ["x"], ["y"], name="cut")], (size, size), {})
    outcome = tilescope("run", path, "--tiles", 4)
    assert outcome.code == 4
    assert outcome.err.splitlines() == [
        "tilescope: Value 'x' of shape (1000000, 1000000) takes 4,000,000,000,000 bytes: gc200 has"
        " 2,555,904 on all 4 tiles; split it, or make it smaller"
    ]
    assert not Path("report").exists()


def test_without_a_report_no_value_beyond_all_tiles_is_compiled(
    tilescope: Run, tmp_path: Path
) -> None:
    path = tmp_path / "large.onnx"
    save_model(path, [helper.make_node("Relu", ["x"], ["y"], name="cut")], (1000, 1000), {})
    outcome = tilescope("run", path, "--tiles", 4, "--no-report")
    assert outcome.code == 4
    assert outcome.err.startswith(
        "tilescope: Value 'x' of shape (1000, 1000) takes 4,000,000 bytes"
    )


def test_a_variable_larger_than_the_machine_has_a_report(tilescope: Run, tmp_path: Path) -> None:
    size, path = 10**4, tmp_path / "huge.onnx"
    save_model(path, [helper.make_node("Relu", ["x"], ["y"], name="cut")], (size, size), {})
    outcome = tilescope("run", path, "--tiles", 4)
    assert outcome.code == 4
    lines = outcome.err.splitlines()
    assert len(lines) < 24
    need = size * size * 4 // 4  # bytes of x, and of its relu, per tile
    assert f"    {need:>12,} bytes  x" in lines
    assert "4 of 4 tiles need more than their 638,976 bytes" in lines[0]
    assert "OnTileExecute cut/relu/relu" in lines[1]
    assert lines[-1].startswith("Profile saved to: ")
    assert check_report(Path("report/profile.pop")) == []
    with analyser.open("report") as report:
        assert (values(report)["memory.max_tile"] or 0) > 2 * need
    liveness = tilescope("liveness", "report", "--json").json()
    assert liveness["peak_step"] == 3
    assert liveness["steps"]["not_always_live_bytes"][3] == 2 * 4 * need


def test_bad_inputs_are_one_sentence(tilescope: Run, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "in.npz"

    def with_inputs(**arrays: Any) -> Outcome:
        np.savez(path, **arrays)
        return tilescope("run", model, "--tiles", 8, "--no-report", "--inputs", path)

    good = np.zeros((1, 8), np.float32)
    assert with_inputs(x=good).code == 0
    assert with_inputs(x=np.zeros((2, 8), np.float32)).code == 0, "the model leaves it open"
    refused(with_inputs(x=np.zeros((2, 9), np.float32)), "'x'", "(rows, 8)", "(2, 9)")
    refused(with_inputs(x=np.zeros((1, 8), np.complex64)), "'x'", "complex64")
    refused(with_inputs(x=np.array([["a"] * 8])), "'x'", "float32")
    refused(with_inputs(x=good, extra=good), "'extra'", "x")
    path.write_text("no archive")
    refused(tilescope("run", model, "--no-report", "--inputs", path), "in.npz")
    np.save(tmp_path / "one.npy", good)
    refused(tilescope("run", model, "--no-report", "--inputs", tmp_path / "one.npy"), "one.npy")


def test_the_environment_beats_the_command_line(
    tilescope: Run, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested = {"autoReport.all": "true", "autoReport.directory": "./from_environment"}
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", json.dumps(requested))
    assert tilescope("run", model, "--tiles", 8, "--report", "from_command_line").code == 0
    assert Path("from_environment/profile.pop").is_file()
    assert not Path("from_command_line").exists()
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", '{"autoReport.all": "false"}')
    assert tilescope("run", model, "--tiles", 8, "--report", "wanted").code == 0
    assert not Path("wanted").exists()
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", '{"autoReport.all": ')
    refused(tilescope("run", model), "POPLAR_ENGINE_OPTIONS")


def test_a_model_that_does_not_fit_is_explained_and_keeps_its_compilation(
    tilescope: Run, tmp_path: Path
) -> None:
    weights = np.ones((600, 600), np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="large")]
    path = save_model(tmp_path / "large.onnx", nodes, [1, 600], {"w": weights})
    error = refused(tilescope("run", path, "--tiles", 1), "tile 0", "step", "weights", code=4)
    assert len(error.splitlines()) <= 40
    report = Path("report/profile.pop")
    assert check_report(report) == []
    with open_report(report) as opened:
        assert runs(opened) == ()
        assert values(opened)["memory.tiles_over_capacity"] == 1
    assert tilescope("memory", "report").code == 0


def test_an_invalid_report_directory_is_one_sentence(
    tilescope: Run, model: Path, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    outcome = tilescope("run", model, "--tiles", 8, "--report", file / "below")
    assert outcome.code in (2, 4)
    assert "Traceback" not in outcome.err
    assert str(file) in outcome.err
    outcome = tilescope("run", model, "--tiles", 8, "--no-report", "--outputs", file / "o.npz")
    refused(outcome, "o.npz", code=4)


_ENDLESS = """
import sys
from tilescope.main import main
sys.exit(main(["run", sys.argv[1], "--tiles", "8", "--report", "killed",
               "--iterations", "1000000"]))
"""


def test_a_killed_run_leaves_a_report_that_says_so(tilescope: Run, model: Path) -> None:
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'compat'}"}
    process = subprocess.Popen([sys.executable, "-c", _ENDLESS, str(model)], env=environment)
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not _has_runs(Path("killed")):
            assert process.poll() is None
            time.sleep(0.2)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not Path("killed/profile.pop").exists()
    outcome = tilescope("summary", "killed")
    assert outcome.code == 0, outcome.err
    for text in (outcome.out, outcome.err):
        assert "The run ended early" in text


def _has_runs(directory: Path) -> bool:
    for actual in find_reports([directory]):
        with contextlib.suppress(AnalyserError, ReportError), open_report(actual.path) as report:
            if runs(report):
                return True
    return False


@pytest.mark.parametrize("name", ["file", "allow_pickle", "a/b"])
def test_outputs_may_have_any_name(tilescope: Run, tmp_path: Path, name: str) -> None:
    node = helper.make_node("Relu", ["x"], ["y"], name="cut")
    path = save_model(tmp_path / "named.onnx", [node], [2, 2], {})
    model = onnx.load(path)
    model.graph.node[0].output[0] = model.graph.output[0].name = name
    onnx.save(model, path)
    outcome = tilescope("run", path, "--tiles", 4, "--no-report", "--outputs", "out.npz")
    assert (outcome.code, outcome.err) == (0, "")
    with np.load("out.npz") as outputs:
        assert outputs[name].shape == (2, 2)


def test_a_long_output_name_is_shortened(tilescope: Run, tmp_path: Path) -> None:
    node = helper.make_node("Relu", ["x"], ["y"], name="cut")
    path = save_model(tmp_path / "named.onnx", [node], [2, 2], {})
    model = onnx.load(path)
    model.graph.node[0].output[0] = model.graph.output[0].name = "n" * 70_000
    onnx.save(model, path)
    outcome = tilescope("run", path, "--tiles", 4, "--no-report", "--outputs", "out.npz")
    assert outcome.code == 0
    with np.load("out.npz") as stored:
        (name,) = stored
    assert name.startswith("nnn")
    assert len(name) < 250


def test_an_output_name_too_long_for_an_archive_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "outputs"
    folder.mkdir()
    with pytest.raises(RunFailed, match="too long"):
        write_outputs(folder / "out.npz", {"n" * 70_000: np.zeros(2)})
    assert list(folder.iterdir()) == []


def test_outputs_cannot_be_a_directory(tilescope: Run, model: Path) -> None:
    outcome = tilescope("run", model, "--tiles", 4, "--no-report", "--outputs", ".")
    refused(outcome, "it is a directory", code=4)


def test_inputs_larger_than_memory_are_one_sentence(tilescope: Run, model: Path) -> None:
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000000,), }\n"
    with zipfile.ZipFile("huge.npz", "w") as archive:
        start = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little")
        archive.writestr("x.npy", start + header.encode())
    outcome = tilescope("run", model, "--tiles", 4, "--no-report", "--inputs", "huge.npz")
    refused(outcome, "huge.npz", "memory")


def test_an_input_that_is_not_an_array_is_one_sentence(tilescope: Run, model: Path) -> None:
    with zipfile.ZipFile("text.npz", "w") as archive:
        archive.writestr("x", "some text")
    outcome = tilescope("run", model, "--tiles", 4, "--no-report", "--inputs", "text.npz")
    refused(outcome, "'x' in text.npz is not an array")


def _option_rows(report: str) -> dict[str, tuple[str, str]]:
    with open_report(report) as opened:
        rows = opened.rows(engine_option, "name", "value", "origin")
    return {name: (value, origin) for name, value, origin in rows}


def test_the_memory_of_an_operation_is_said_by_flag_option_or_environment(
    tilescope: Run, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conv, product = (
        f"{kind}Options.availableMemoryProportion" for kind in ("convolution", "matmul")
    )
    assert tilescope("run", model, "--tiles", 8, "--available-memory-proportion", 0.25).code == 0
    rows = _option_rows("report")
    assert rows[conv] == rows[product] == ("0.25", "command line")
    with open_report("report") as report:
        assert report.column(plan, "available_memory_proportion") == (0.25,)

    outcome = tilescope("run", model, "--tiles", 8, "--report", "one", "--option", f"{conv}=0.5")
    assert outcome.code == 0, outcome.err
    rows = _option_rows("one")
    assert (rows[conv], rows[product]) == (("0.5", "command line"), ("0.6", "default"))

    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", json.dumps({product: "0.125"}))
    outcome = tilescope("run", model, "--tiles", 8, "--report", "two", "--option", f"{product}=0.5")
    assert outcome.code == 0, outcome.err
    assert _option_rows("two")[product] == ("0.125", "environment")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--available-memory-proportion", "1.5"], "must be above 0 and at most 1, got 1.5"),
        (["--available-memory-proportion", "nan"], "must be above 0 and at most 1, got nan"),
        (["--option", "debug.verify"], "expected KEY=VALUE for --option, got debug.verify"),
        (["--option", "=1"], "expected KEY=VALUE"),
        (["--option", "debug.verif=true"], "did you mean 'debug.verify'?"),
        (["--option", "matmulOptions.availableMemoryProportion=2"], "number above 0 and at most 1"),
        (
            ["--report", "r", "--option", "autoReport.directory=s"],
            "--option autoReport.directory=s and --report both set autoReport.directory",
        ),
        (
            ["--option", "debug.verify=1", "--option", "debug.verify=0"],
            "--option debug.verify=0 and another --option both set",
        ),
    ],
)  # fmt: skip
def test_invalid_options_are_rejected_in_a_sentence(
    tilescope: Run, model: Path, arguments: list[str], words: str
) -> None:
    outcome = tilescope("run", model, *arguments)
    assert outcome.code == 2
    assert words in outcome.err
    assert list(Path().iterdir()) == []


def test_what_a_model_s_operations_cost_adds_up(tilescope: Run, model: Path) -> None:
    assert tilescope("run", model, "--tiles", 8).code == 0
    by_call = tilescope("ops", "report", "--json").json()
    by_node = tilescope("ops", "report", "--json", "--layer", "model").json()
    calls = {operation["name"]: operation for operation in by_call["operations"]}
    assert set(calls) == {"product/matmul", "cut/reluInPlace"}
    assert {operation["name"]: operation["cycles"] for operation in by_node["operations"]} == {
        "product": calls["product/matmul"]["cycles"],
        "cut": calls["cut/reluInPlace"]["cycles"],
    }
    with analyser.open("report") as report:
        total = values(report)["cycles.total"]
        phases = execution(report).phase_cycles
        sizes = report.rows(variable, "name", "bytes")
    assert by_call["total_cycles"] == total
    rest = total - sum(call["cycles"] for call in calls.values())
    assert phases["stream_copy"] <= rest <= phases["stream_copy"] + phases["sync"]
    # The result replaces the product, on the same tiles: nothing is named after the call.
    assert calls["cut/reluInPlace"]["temporary_bytes"] == 0
    assert [name for name, _ in sizes if name.startswith("cut/")] == []

    actual = tilescope("ops", "report", "--json", "--plan", "product").json()
    # The weights, padded to whole groups of channels.
    rows, columns = (
        -(-n // actual["plan"]["grouping"][group]) * actual["plan"]["grouping"][group]
        for n, group in zip(WEIGHTS.shape, ("inputs", "outputs"), strict=True)
    )
    assert calls["product/matmul"]["always_live_bytes"] == rows * columns * WEIGHTS.itemsize
    parts = {part["part"]: part for part in actual["parts"]}
    assert parts["compute"]["predicted_cycles"] == parts["compute"]["compiled_cycles"]
    assert actual["compiled_cycles"] == calls["product/matmul"]["cycles"]
    assert actual["asked_by"] == {"name": "product", "operation": "MatMul"}


@pytest.mark.parametrize(
    ("shape", "share", "kind", "last"),
    [
        ((255, 256), 0.001, "serial outputs", "update"),
        ((256, 256), 0.015, "serial inputs", "add"),
    ],
)
def test_a_plan_split_in_time_is_explained(
    tilescope: Run, tmp_path: Path, shape: tuple[int, int], share: float, kind: str, last: str
) -> None:
    weights = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")],
        "wide",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [32, shape[0]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [32, shape[1]])],
        [numpy_helper.from_array(weights, "w")],
    )
    wide = tmp_path / "wide.onnx"
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), wide
    )
    limit = ("--available-memory-proportion", share)
    finished = tilescope("run", wide, "--tiles", 8, *limit, "--report", "report")
    assert finished.code == 0, finished.err
    actual = tilescope("ops", "report", "--json", "--plan", "product").json()
    n_serial = actual["plan"]["split"][kind]
    assert n_serial > 1
    parts = {part["part"]: part for part in actual["parts"]}
    assert {"compute", "exchange", last} <= set(parts)
    assert not any("serial" in name for name in parts)
    assert parts[last]["predicted_cycles"] == parts[last]["compiled_cycles"] > 0
    text = tilescope("ops", "report", "--plan", "product").out
    assert f"{kind} {n_serial}" in text
    assert re.search(rf"8 poplin::ConvPartial\w+ on 8 tiles, {n_serial} times", text)
    assert actual["asked_by"] == {"name": "product", "operation": "MatMul"}
    calls = tilescope("ops", "report", "--json").json()["operations"]
    assert [call["name"] for call in calls] == ["product/matmul"], "its parts are within it"


def test_a_report_that_the_environment_turns_off_is_said(
    tilescope: Run, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", '{"autoReport.all": "false"}')
    outcome = tilescope("run", model, "--tiles", 8, "--report", "r")
    assert outcome.code == 0
    assert not Path("r").exists()
    assert (
        "No report in r: POPLAR_ENGINE_OPTIONS sets autoReport.all=false, which takes precedence"
        " over --report" in outcome.out
    )


def test_a_directory_that_the_environment_sets_is_said(
    tilescope: Run, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", '{"autoReport.directory": "other"}')
    outcome = tilescope("run", model, "--tiles", 8, "--report", "r")
    assert outcome.code == 0
    assert Path("other/profile.pop").exists()
    assert (
        "No report in r: POPLAR_ENGINE_OPTIONS sets autoReport.directory=other, which takes"
        " precedence over --report" in outcome.out
    )
