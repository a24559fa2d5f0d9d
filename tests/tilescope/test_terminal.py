"""Output of commands on narrow and wide terminals."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

pty = pytest.importorskip("pty", reason="pseudo-terminals exist on Unix only")
ROOT = Path(__file__).parents[2]


def on_terminal(n_columns: int, *arguments: object) -> str:
    """Return the output of the command on a terminal of a given width, without colours."""
    ours, theirs = pty.openpty()
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "COLUMNS": str(n_columns),
        "TERM": "xterm",
        "PYTHONUTF8": "1",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "tilescope", *map(str, arguments)],
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
def test_nothing_is_lost_on_a_narrow_terminal(reports_directory: Path, n_columns: int) -> None:
    sides = (reports_directory / "baseline", reports_directory / "slower")
    text = on_terminal(n_columns, "diff", *sides)
    lines = [line.split() for line in text.splitlines()]
    assert any(
        line[-5:] == ["970", "1,090", "+120", "+12.37", "%"]
        or line[-6:] == ["970", "1,090", "+120", "+12.37", "%", "worse"]
        for line in lines
    )
    assert "cycles.total" in text
    # Folded names are complete once their lines are joined.
    joined = "".join(line.split("  ")[0].strip() for line in text.splitlines())
    assert "parallel.efficiency" in joined


def test_a_wide_terminal_folds_nothing(reports_directory: Path) -> None:
    text = on_terminal(200, "summary", reports_directory / "baseline")
    assert re.search(r"^Highest address, gaps included +288 B$", text, re.MULTILINE)
    assert not [line for line in text.splitlines() if len(line) > 200]


def test_control_characters_do_not_reach_the_terminal(reports_directory: Path) -> None:
    text = on_terminal(120, "programs", reports_directory / "hostile")
    assert "\x1b" not in text
    assert "\x07" not in text


def test_a_run_shows_its_steps_on_a_terminal_and_takes_them_back(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 8]) for name in "xy"]
    graph = helper.make_graph(nodes, "[bold]", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "[bold].onnx")
    text = on_terminal(100, "run", tmp_path / "[bold].onnx", "--no-report", "--tiles", "4")
    assert "Ran [bold].onnx on gc200" in text
    assert "\x1b[?25h" in text, "the cursor is shown again"
    assert re.search("(?i)compil", text)


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
    done = in_a_shell("> /dev/full", reports_directory)
    assert done.returncode == 4
    assert "no space" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_closed_output_is_not_an_error(reports_directory: Path) -> None:
    done = in_a_shell(">&-", reports_directory)
    assert (done.returncode, done.stderr) == (0, "")
