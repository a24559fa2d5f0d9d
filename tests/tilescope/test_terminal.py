"""Output of commands on narrow and wide terminals."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper
from tests.analyser.small_report import Shape, write_small_report

pty = pytest.importorskip("pty", reason="pseudo-terminals exist on Unix only")
ROOT = Path(__file__).parents[2]


def on_terminal(n_columns: int, *arguments: object) -> str:
    """Return the output of the command on a terminal of a given width, without colours."""
    return on_terminal_run(n_columns, "-m", "tilescope", *arguments)


def on_terminal_run(n_columns: int, *arguments: object) -> str:
    """Return the output of Python on a terminal of a given width, without colours."""
    ours, theirs = pty.openpty()
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "COLUMNS": str(n_columns),
        "TERM": "xterm",
        "PYTHONUTF8": "1",
    }
    process = subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        cwd=ROOT,
        env=environment,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    parts = []
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux reports a closed peer like this
            break
        if not part:
            break
        parts.append(part)
    os.close(ours)
    assert process.wait(timeout=120) == 0
    text = b"".join(parts).decode().replace("\r", "")
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.mark.parametrize("n_columns", [40, 80, 200])
def test_numbers_are_whole_on_a_narrow_terminal(reports_directory: Path, n_columns: int) -> None:
    sides = (reports_directory / "baseline", reports_directory / "slower")
    text = on_terminal(n_columns, "diff", *sides)
    # Columns that do not fit follow below, next to the name of the row.
    rows = [line.split() for line in text.splitlines() if line.startswith("cycles.total ")]
    joined = [word for row in rows for word in row[1:]]
    assert joined[:5] == ["485", "545", "+60", "+12.37", "%"]
    assert "parallel.efficiency" in text


LONG = "/".join(f"block{number}" for number in range(25)) + "/convolution"


@pytest.fixture(scope="module")
def long_names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a report whose names have some 200 characters."""
    directory = tmp_path_factory.mktemp("long_names")
    write_small_report(directory, Shape(conv_name=LONG))
    return directory


@pytest.mark.parametrize(
    "arguments",
    [
        ("summary",),
        ("insights",),
        ("ledger",),
        ("fit",),
        ("memory",),
        ("memory", "--tile", 0, "--variables"),
        ("memory", "--map", "total"),
        ("liveness",),
        ("programs",),
        ("programs", "--node", 4),
        ("programs", "--search", "conv"),
        ("ops",),
        ("ops", "--layer", "step"),
        ("ops", "--plan", LONG),
        ("ops", "--why", LONG),
        ("exchange",),
        ("exchange", "--step", 2),
        ("variables",),
        ("variables", "--name", "weights"),
        ("tile", 0),
        ("trace",),
    ],
    ids=lambda arguments: " ".join(map(str, arguments))[:24],
)
def test_80_columns_break_no_name(
    tilescope: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    long_names: Path,
    arguments: tuple[object, ...],
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    finished = tilescope(arguments[0], long_names, *arguments[1:])
    assert finished.code == 0, finished.err
    text = finished.out
    assert "\x1b" not in text
    for line in text.splitlines():
        assert len(line) <= 80, line
        # A name is shortened at one place, and the ellipsis says so.
        for part in re.findall(r"block0/[^ ()':,;]*", line):
            head, ellipsis, tail = part.rstrip(".").partition("…")
            assert ellipsis, line
            assert LONG.startswith(head), line
            assert any(name.endswith(tail) for name in (LONG, f"{LONG}/exchange")), line
        assert not re.match(r"^ *(lock|ock|ck)\d", line), line


def test_a_pipe_has_whole_names(tilescope: Callable[..., Any], long_names: Path) -> None:
    for command in (("ops", "--layer", "step"), ("programs",), ("exchange",), ("trace",)):
        assert LONG in tilescope(command[0], long_names, *command[1:]).out


def test_a_wide_terminal_folds_nothing(reports_directory: Path) -> None:
    text = on_terminal(200, "summary", reports_directory / "baseline")
    assert re.search(r"^Highest address, gaps included +288 B$", text, re.MULTILINE)
    assert not [line for line in text.splitlines() if len(line) > 200]


def test_control_characters_do_not_reach_the_terminal(reports_directory: Path) -> None:
    text = on_terminal(120, "programs", reports_directory / "hostile")
    spinner = re.compile(r"\x1b\[(\?25[lh]|1A|2K)")
    assert "\x1b" not in spinner.sub("", text)
    assert "\x07" not in text


def test_slow_work_shows_progress_and_takes_it_back() -> None:
    program = (
        "import time; from tilescope.console import print_line, progress\n"
        "with progress('Reading'):\n time.sleep(1.6)\n print_line('done')"
    )
    text = on_terminal_run(80, "-c", program)
    assert "Reading" in text
    assert "\x1b[?25h" in text, "the cursor is shown again"
    assert text.rstrip().endswith("done")


def test_quick_work_shows_no_progress() -> None:
    program = (
        "from tilescope.console import print_line, progress\n"
        "with progress('Reading'):\n print_line('done')"
    )
    assert on_terminal_run(80, "-c", program) == "done\n"


def test_a_run_shows_its_steps_on_a_terminal_and_takes_them_back(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 8]) for name in "xy"]
    graph = helper.make_graph(nodes, "[bold]", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "[bold].onnx")
    text = on_terminal(100, "run", tmp_path / "[bold].onnx", "--no-report", "--tiles", "4")
    assert "Ran [bold].onnx on gc200" in text
    assert "\x1b[?25h" in text, "the cursor is shown again"
    # The model is compiled before the first step is drawn, or not: it takes some ten milliseconds.
    assert re.search("(Compiling|Running)", text)


def in_a_shell(redirection: str, reports_directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            "sh",
            "-c",
            f'"$0" -m tilescope summary "$1" {redirection}',
            sys.executable,
            str(reports_directory / "baseline"),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_the_output_is_one_sentence(reports_directory: Path) -> None:
    finished = in_a_shell("> /dev/full", reports_directory)
    assert finished.returncode == 4
    assert "no space" in finished.stderr
    assert len(finished.stderr.splitlines()) == 1


def test_a_closed_output_is_not_an_error(reports_directory: Path) -> None:
    finished = in_a_shell(">&-", reports_directory)
    assert (finished.returncode, finished.stderr) == (0, "")
