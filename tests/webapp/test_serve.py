"""Starting and stopping the server, and its one-sentence errors."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tilescope.webapp.errors import BadAddress, PortInUse
from tilescope.webapp.serve import default_paths, open_listener

_ROOT = Path(__file__).parents[2]


def _serve(arguments: Sequence[str], cwd: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT), str(_ROOT / "compat")])}
    command = [sys.executable, "-m", "tilescope", "serve", *arguments]
    return subprocess.Popen(
        command,
        cwd=cwd,
        env=environment,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # A shell starts background jobs with interrupts ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  one thread
    )


def _refusal(arguments: Sequence[str], cwd: Path) -> str:
    process = _serve(arguments, cwd)
    out, complaint = process.communicate(timeout=60)
    assert process.returncode == 2
    assert out == ""
    assert complaint.count("\n") == 1
    assert "Traceback" not in complaint
    return complaint


def test_a_place_without_a_report_is_named(tmp_path: Path) -> None:
    assert "No report found in" in _refusal([], tmp_path)
    assert "elsewhere" in _refusal(["elsewhere"], tmp_path)


@pytest.mark.parametrize("content", [b"", b"a text, not a report\n" * 400])
def test_a_given_file_that_is_not_a_report_is_rejected(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "notes.pop").write_bytes(content)
    assert "notes.pop" in _refusal(["notes.pop"], tmp_path)


def test_a_port_in_use_suggests_another(reports_dir: Path) -> None:
    with socket.socket() as used:
        used.bind(("127.0.0.1", 0))
        used.listen()
        port = used.getsockname()[1]
        complaint = _refusal([str(reports_dir), "--port", str(port)], reports_dir)
    assert f"Port {port}" in complaint
    assert "--port" in complaint


def test_addresses_of_other_machines_are_refused() -> None:
    with pytest.raises(BadAddress, match="not an address of this machine"):
        open_listener("192.0.2.1", 0)
    with pytest.raises(BadAddress, match="Unknown host"):
        open_listener("no such host", 0)


def test_the_same_port_cannot_be_opened_twice() -> None:
    with (
        open_listener("127.0.0.1", 0) as first,
        pytest.raises(PortInUse, match=str(first.getsockname()[1])),
    ):
        open_listener("127.0.0.1", first.getsockname()[1])


def test_the_default_place_is_the_report_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert default_paths() == [Path()]
    (tmp_path / "report").mkdir()
    assert default_paths() == [Path("report")]


def test_an_interrupt_ends_it_without_a_traceback(reports_dir: Path) -> None:
    process = _serve([str(reports_dir), "--port", "0"], reports_dir)
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if "Ctrl-C" in line:
            break
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=30)
    assert any("http://127.0.0.1:" in line and "token=" in line for line in lines)
    assert lines[0] == "Serving 5 reports (1 ended early).\n", lines
    assert process.returncode == 130
    assert "Traceback" not in rest
