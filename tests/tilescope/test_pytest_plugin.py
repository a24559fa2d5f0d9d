"""The pytest plugin, in runs of pytest of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

_HEAD = """
import pytest
from tests.analyser.small_report import Shape, write_small_report
"""

Pytest = Callable[..., tuple[int, str]]


@pytest.fixture
def run_pytest(tmp_path: Path) -> Pytest:
    """Return a way to run a file of tests; it returns exit code and output."""

    def run(text: str, *arguments: str) -> tuple[int, str]:
        (tmp_path / "test_it.py").write_text(_HEAD + text, encoding="utf-8")
        environ = {key: value for key, value in os.environ.items() if "PYTEST" not in key}
        environ |= {
            "PYTHONPATH": f"{ROOT / 'compat'}:{ROOT}",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "COLUMNS": "300",
        }
        process = subprocess.run(
            [
                sys.executable, "-m", "pytest", "-p", "tilescope.pytest_plugin", "-q",
                "-p", "no:cacheprovider", "--strict-markers", "-W", "error",
                f"--rootdir={tmp_path}", str(tmp_path), *arguments,
            ],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )  # fmt: skip
        return process.returncode, process.stdout + process.stderr

    return run


def test_limits(run_pytest: Pytest) -> None:
    code, text = run_pytest("""
@pytest.mark.tilescope(max_cycles=485, max_tile="0.5 KiB", max_time="1us", min_cycles_sync=1)
def test_within(tilescope_report):
    write_small_report(tilescope_report)

@pytest.mark.tilescope(max_cycles="0.4us", max_tile=279, min_parallel_efficiency=0.5)
def test_outside(tilescope_report):
    write_small_report(tilescope_report)

@pytest.mark.tilescope(max_cycles=1)
def test_without_runs(tilescope_report):
    write_small_report(tilescope_report, Shape(n_runs=0))

@pytest.mark.tilescope(max_cycles=1)
def test_nothing_written():
    pass

@pytest.mark.tilescope(max_cycles=1)
def test_that_fails_itself(tilescope_report):
    write_small_report(tilescope_report)
    assert 1 == 2

@pytest.mark.tilescope(max_cycles=1)
class TestOfAClass:
    @pytest.mark.tilescope(max_cycles=1000)
    def test_the_closest_marker_counts(self, tilescope_report):
        write_small_report(tilescope_report / "a")
        write_small_report(tilescope_report / "b")

    def test_every_report_counts(self, tilescope_report):
        write_small_report(tilescope_report / "a")
        write_small_report(tilescope_report / "b")
""")
    assert code == 1
    assert "5 failed, 2 passed" in text
    assert "cycles.total is 485 cycles, above the limit of 0.4us (max_cycles)." in text
    assert "memory.max_tile is 280 B, above the limit of 279 B (max_tile)." in text
    assert "parallel.efficiency is 39.18 %, below the limit of 0.5" in text
    assert "cycles.total is missing in the report (max_cycles)." in text
    assert "The test wrote no report;" in text
    assert "assert 1 == 2" in text
    assert "b: cycles.total is 485 cycles, above the limit of 1 cycles (max_cycles)." in text
    assert "pytest_plugin.py" not in text, "a failure is not a traceback"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("max_cycle=1", "unknown argument 'max_cycle'; the nearest is 'max_cycles'"),
        ("cycles=1", "unknown argument 'cycles'"),
        ("max_tile='3 cycles'", "max_tile: unit 'cycles' is not one of B, kB"),
        ("max_tile='3%'", "max_tile: unit '%' is not one of B, kB"),
        ("1000", "expected arguments with names"),
        ("fail_on=['cycles.total:+1%']", "fail_on compares with a golden report; add golden=True"),
        ("golden=True, fail_on='cycles.totl:+1%'", "unknown metric 'cycles.totl'"),
    ],
)
def test_a_marker_that_is_wrong(run_pytest: Pytest, arguments: str, problem: str) -> None:
    code, text = run_pytest(f"""
@pytest.mark.tilescope({arguments})
def test_it(tilescope_report):
    pass
""")
    assert code == 1
    assert f"pytest.mark.tilescope: {problem}" in text
    assert "1 error in" in text
    assert "test_it.py" not in text.partition("short test summary")[0], "no traceback"


def test_golden_reports(run_pytest: Pytest, tmp_path: Path) -> None:
    text = """
@pytest.mark.tilescope(golden=True)
@pytest.mark.parametrize("cycles", [CYCLES])
def test_golden(tilescope_report, cycles):
    write_small_report(tilescope_report, Shape(conv_tile0_cycles=cycles))

@pytest.mark.tilescope(golden="named/one", fail_on=["cycles.total:+50%"], max_cycles=500)
def test_named(tilescope_report):
    write_small_report(tilescope_report, Shape(conv_tile0_cycles=CYCLES))
"""
    base, slow = text.replace("CYCLES", "200"), text.replace("CYCLES", "260")
    slow = slow.replace('"cycles", [260]', '"cycles", [260], ids=["200"]')
    code, output = run_pytest(base)
    assert code == 1
    assert output.count("write it with pytest --tilescope-update.") >= 2
    assert run_pytest(base, "--tilescope-update")[0] == 0
    assert run_pytest(base)[0] == 0
    stored = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("golden*/**/*.pop")}
    stored |= {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.pop")}
    assert stored == {
        "tilescope-golden/test_it/test_golden-200-/profile.pop",
        "tilescope-golden/named/one/profile.pop",
    }
    code, output = run_pytest(slow)
    assert code == 1
    assert "cycles.total: 485 cycles → 545 cycles (+60 cycles, +12.37 %), outside" in output
    assert "cycles.total is 545 cycles, above the limit of 500 cycles (max_cycles)." in output
    assert output.count("  Cycles change by +60 cycles (+12.37 %)") >= 2


def test_running_a_model(run_pytest: Pytest) -> None:
    code, text = run_pytest(
        """
import onnx
from onnx import helper

def model(path, n=64):
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"], name="relu")], "g",
        [helper.make_tensor_value_info("x", kind, [n])],
        [helper.make_tensor_value_info("y", kind, [n])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path

@pytest.mark.tilescope(max_cycles=1)
def test_it(tilescope_run, tmp_path):
    report = tilescope_run(model(tmp_path / "a.onnx"), "--tiles", 4)
    assert (report / "profile.pop").is_file()

@pytest.mark.tilescope(max_cycles=20_000)
def test_every_model_counts(tilescope_run, tmp_path):
    large, small = model(tmp_path / "a.onnx", 1 << 16), model(tmp_path / "b.onnx")
    for path in (large, small, large):
        report = tilescope_run(path, "--tiles", 4, "--iterations", 3)
    assert (report / "engine2/profile.pop").is_file()

def test_that_it_does_not_run(tilescope_run, tmp_path):
    tilescope_run(tmp_path / "gone.onnx")
""",
        "-W",
        "default",
    )
    assert code == 1
    assert "3 failed" in text
    assert re.search(r"\n\.: cycles.total is [\d,]+ cycles, above the limit of 20000", text)
    assert re.search(r"\nengine3: cycles.total is [\d,]+ cycles, above the limit of 20000", text)
    assert "engine2: cycles.total" not in text
    assert "cycles, above the limit of 1 cycles (max_cycles)." in text
    assert "gone.onnx ended with exit code 2" in text


def test_the_plugin_alone_loads_nothing_heavy() -> None:
    code = (
        "import sys, tilescope.pytest_plugin\n"
        "heavy = {'numpy', 'numba', 'sqlalchemy', 'typer', 'apsw', 'onnx'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "compat")}
    subprocess.run([sys.executable, "-c", code], env=environ, check=True, timeout=60)


def test_limits_are_not_applied_to_a_report_that_is_not_complete(run_pytest: Pytest) -> None:
    code, text = run_pytest(
        """
from tilescope.reports import ReportWriter

@pytest.mark.tilescope(max_cycles=485)
def test_early(tilescope_report):
    write_small_report(tilescope_report, Shape(is_finished=False))

@pytest.mark.tilescope(max_cycles=485)
def test_leftover(tilescope_report):
    write_small_report(tilescope_report)
    write_small_report(tilescope_report, Shape(is_finished=False))

@pytest.mark.tilescope(max_cycles=485)
def test_running(tilescope_report):
    write_small_report(tilescope_report / "one")
    writer = ReportWriter.create(tilescope_report / "other")
    writer.commit("compiled")
    globals()["writer"] = writer

@pytest.mark.tilescope(max_cycles=485)
def test_damaged(tilescope_report):
    path = write_small_report(tilescope_report)
    data = bytearray(path.read_bytes())
    at = data.rindex(b"\\x28\\xb5\\x2f\\xfd")
    data[at + 6] ^= 255
    path.write_bytes(data)

@pytest.mark.tilescope(golden=True)
def test_golden(tilescope_report):
    write_small_report(tilescope_report, Shape(is_finished=False))
""",
        "--tilescope-update",
    )
    assert code == 1, text
    assert "5 failed" in text
    assert text.count("ended early; its engine last wrote at") >= 3
    assert "A newer run than that of" in text
    assert "other: " in text
    assert "is still being written" in text
    assert "damaged" in text
    assert "Traceback" not in text
