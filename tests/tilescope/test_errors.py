"""Invalid input produces one sentence and the right exit code, never a traceback."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

import pytest

from tilescope import main as front_door

Run = Callable[..., Any]
ROOT = Path(__file__).parents[2]
COMMANDS = ("summary", "memory", "liveness", "programs")


@pytest.fixture
def bad_inputs(tmp_path: Path, reports_directory: Path) -> dict[str, Path]:
    """Return paths without a readable report."""
    (tmp_path / "empty.pop").write_bytes(b"")
    (tmp_path / "text.pop").write_text("just text\n" * 100)
    (tmp_path / "directory").mkdir()
    full = (reports_directory / "baseline" / "profile.pop").read_bytes()
    (tmp_path / "half.pop").write_bytes(full[: len(full) // 2])
    damaged = bytearray(full)
    for offset in range(5000, len(damaged), 97):
        damaged[offset] ^= 0x5A
    (tmp_path / "damaged.pop").write_bytes(damaged)
    names = ("empty.pop", "text.pop", "directory", "half.pop", "damaged.pop", "nothing.pop")
    return {name: tmp_path / name for name in names}


def is_one_sentence(text: str) -> bool:
    lines = text.splitlines()
    return (
        len(lines) == 1
        and lines[0].startswith("tilescope: ")
        and "Traceback" not in text
        and "Error" not in text
    )


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "name", ["empty.pop", "text.pop", "directory", "half.pop", "damaged.pop", "nothing.pop"]
)
def test_a_file_that_is_not_a_report_is_rejected(
    tilescope: Run, bad_inputs: dict[str, Path], command: str, name: str
) -> None:
    finished = tilescope(command, bad_inputs[name])
    assert (finished.code, finished.out) == (2, "")
    assert is_one_sentence(finished.err), finished.err


def test_either_side_of_a_diff_is_checked(
    tilescope: Run, bad_inputs: dict[str, Path], reports_directory: Path
) -> None:
    good = reports_directory / "baseline"
    for sides in ((good, bad_inputs["text.pop"]), (bad_inputs["text.pop"], good)):
        finished = tilescope("diff", *sides)
        assert finished.code == 2
        assert "text.pop" in finished.err


@pytest.mark.parametrize("options", [[], ["--json"]])
@pytest.mark.parametrize(("command", "what"), [("memory", "memory"), ("liveness", "liveness")])
def test_what_a_report_does_not_hold_is_not_zero(
    tilescope: Run, reports_directory: Path, command: str, what: str, options: list[str]
) -> None:
    finished = tilescope(command, reports_directory / "no_memory", *options)
    assert (finished.code, finished.out) == (2, "")
    assert f"holds no {what}: it was written with autoReport.outputGraphProfile" in finished.err
    assert tilescope("summary", reports_directory / "no_memory", *options).code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["sumary", "x"], "summary"),
        (["summary"], "REPORT"),
        (["summary", "x", "--jason"], "--json"),
        (["memory", "BASE", "--breakdown", "size"], "region"),
        (["memory", "BASE", "--tile", "8"], "tiles 0 to 7"),
        (["memory", "BASE", "--tile", "one"], "not a valid int"),
        (["memory", "BASE", "--variables"], "--tile"),
        (["liveness", "BASE", "--step", "7"], "steps 0 to 6"),
        (["liveness", "BASE", "--ipu", "0", "--tile", "1"], "mutually exclusive"),
        (["liveness", "BASE", "--ipu", "2"], "ipus 0 to 1"),
        (["memory", "BASE", "--ipu", "2"], "ipus 0 to 1"),
        (["memory", "BASE", "--ipu", "2", "--json"], "ipus 0 to 1"),
        (["memory", "BASE", "--map", "nothing"], "variable:NAME"),
        (["memory", "BASE", "--map", "variable:none"], "no variable has 'none'"),
        (["ops", "BASE", "--run", "2"], "runs 0 to 1"),
        (["ops", "BASE", "--layer", "step", "--ipu", "5"], "ipus 0 to 1"),
        (["exchange", "BASE", "--run", "9"], "runs 0 to 1"),
        (["exchange", "BASE", "--step", "3"], "step 3 is not an exchange"),
        (["exchange", "BASE", "--step", "99"], "step 99 is not an exchange"),
        (["exchange", "BASE", "--step", "2", "--search", "relu"], "not one of those selected"),
        (["variables", "BASE", "--category", "code"], "variable, constant, message"),
        (["variables", "BASE", "--dtype", "int4"], "float16, float32"),
        (["variables", "BASE", "--step", "7"], "steps 0 to 6"),
        (["variables", "BASE", "--tile", "8"], "tiles 0 to 7"),
        (["variables", "BASE", "--name", "weihgts"], "nearest name is 'weights'"),
        (["tile", "BASE", "8"], "tiles 0 to 7"),
        (["tile", "BASE", "0", "--run", "2"], "runs 0 to 1"),
        (["trace", "BASE", "--run", "2"], "runs 0 to 1"),
        (["trace", "BASE", "--run", "0", "--range", "1:2"], "mutually exclusive"),
        (["insights", "BASE", "--run", "2"], "runs 0 to 1"),
        (["insights", "BASE", "--ipu", "2"], "ipus 0 to 1"),
        (["programs", "BASE", "--run", "0"], "--node"),
        (["programs", "BASE", "--node", "7", "--run", "3"], "runs 0 to 1"),
        (["programs", "BASE", "--node", "7", "--ipu", "3"], "ipus 0 to 1"),
        (["programs", "BASE", "--node", "10"], "10 programs"),
        (["programs", "BASE", "--node", "1", "--search", "x"], "are mutually exclusive"),
        (["liveness", "BASE", "--top", "0"], "not in the range x>=1"),
        (["--nothing"], "No such option"),
    ],
)
def test_usage_is_explained_in_a_sentence(
    tilescope: Run, reports_directory: Path, arguments: list[str], said: str
) -> None:
    path = str(reports_directory / "baseline")
    finished = tilescope(*(path if argument == "BASE" else argument for argument in arguments))
    assert (finished.code, finished.out) == (2, "")
    assert is_one_sentence(finished.err), finished.err
    assert said in finished.err


def test_a_name_with_control_characters_is_cleaned(tilescope: Run, tmp_path: Path) -> None:
    finished = tilescope("summary", tmp_path / "no\x1b[31m\nthing")
    assert finished.code == 2
    assert "\x1b" not in finished.err


def test_an_internal_error_leaves_a_log_and_no_traceback(
    tilescope: Run, reports_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a fault of ours")

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("tilescope.analyser.summary.summarise.summarise", fail)
    finished = tilescope("summary", reports_directory / "baseline")
    assert finished.code == 70
    assert len(finished.err.splitlines()) == 1
    log = Path(finished.err.rpartition(" in ")[2].strip())
    assert log.is_relative_to(tmp_path)
    assert "ZeroDivisionError: a fault of ours" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600  # it holds the arguments


def test_a_log_in_a_shared_directory_is_a_new_file_of_the_user(
    tilescope: Run, reports_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link under the name that a log would have must not be followed."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError("a fault of ours")

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Clock:
            return cls(2030, 1, 2, tzinfo=tz)

    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    name = f"internal-error-20300102T000000-{os.getpid()}.log"
    (shared / name).symlink_to(victim)
    monkeypatch.setattr("datetime.datetime", Clock)
    monkeypatch.setenv("XDG_STATE_HOME", str(shared))
    monkeypatch.setattr("tempfile.tempdir", str(shared))
    monkeypatch.setattr("tilescope.analyser.summary.summarise.summarise", fail)
    finished = tilescope("summary", reports_directory / "baseline")
    assert finished.code == 70
    log = Path(finished.err.rpartition(" in ")[2].strip())
    assert log.parent == shared
    assert log.name.startswith("internal-error-20300102T000000-")
    assert log.name != name
    assert "ZeroDivisionError" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600
    assert victim.read_text() == "precious"


def test_an_interruption_exits_130(
    tilescope: Run, reports_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tilescope.analyser.summary.summarise.summarise", interrupt)
    finished = tilescope("summary", reports_directory / "baseline")
    assert (finished.code, finished.err) == (130, "")


@pytest.mark.parametrize(("package", "extra"), [("numba", "engine"), ("dash", "web")])
def test_a_missing_extra_is_named(
    tilescope: Run,
    reports_directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    package: str,
    extra: str,
) -> None:
    def miss(*_: object) -> None:
        raise ModuleNotFoundError(f"No module named '{package}'", name=f"{package}.part")

    monkeypatch.setattr("tilescope.analyser.summary.summarise.summarise", miss)
    finished = tilescope("summary", reports_directory / "baseline")
    assert finished.code == 2
    assert re.search(rf"run: pip install .*'\S+\[{extra}\]'$", finished.err.strip()), finished.err


def test_help_of_every_command(tilescope: Run) -> None:
    finished = tilescope("--help")
    assert finished.code == 0
    for name in ("summary", "memory", "liveness", "programs", "diff", "models"):
        assert f"\n  {name} " in finished.out
        assert tilescope(name, "--help").code == 0


def test_every_listed_command_exists() -> None:
    modules = {path.stem for path in (ROOT / "tilescope" / "commands").glob("*.py")}
    assert modules - {"__init__"} <= set(front_door.COMMANDS)


def test_without_a_command_the_help_is_shown(tilescope: Run) -> None:
    finished = tilescope()
    assert finished.code == 2
    assert finished.err.startswith("Usage: tilescope")


def test_version(tilescope: Run) -> None:
    finished = tilescope("--version")
    assert finished.code == 0
    assert finished.out.startswith("tilescope ")


def run_process(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)} | options.pop("env", {})
    return subprocess.run(
        [sys.executable, "-m", "tilescope", *map(str, arguments)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        **options,
    )


def test_a_reader_that_leaves_is_not_an_error(reports_directory: Path) -> None:
    command = f"'{sys.executable}' -m tilescope programs '{reports_directory / 'baseline'}' --json"
    process = subprocess.run(
        ["bash", "-c", f"{command} | head -c 1 > /dev/null; echo ${{PIPESTATUS[0]}}"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert (process.stdout, process.stderr) == ("0\n", "")


def test_a_stream_without_the_characters_is_not_an_error(reports_directory: Path) -> None:
    finished = run_process("diff", reports_directory / "baseline", reports_directory / "slower",
                       env={"PYTHONIOENCODING": "ascii"})  # fmt: skip
    assert (finished.returncode, finished.stderr) == (0, "")
    assert "bias" in finished.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_a_query_starts_no_threads_of_blas(reports_directory: Path) -> None:
    code = (
        "import os, sys; from tilescope.main import main; main();"
        "print('THREADS', len(os.listdir('/proc/self/task')))"
    )
    process = subprocess.run(
        [sys.executable, "-c", code, "summary", str(reports_directory / "baseline")],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout.splitlines()[-1] == "THREADS 1"


@pytest.mark.parametrize("arguments", [["--help"], ["summary", "nothing.pop"]])
def test_the_command_starts_light(arguments: list[str]) -> None:
    code = (
        "import sys; from tilescope.main import main; main(sys.argv[1:]);"
        "print('LOADED', *sorted({'numba', 'dash', 'plotly', 'fastapi', 'onnx', 'scipy'}"
        " & set(sys.modules)))"
    )
    process = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert process.stdout.splitlines()[-1] == "LOADED"


def test_too_little_memory_is_a_failed_run_and_no_internal_error(
    tilescope: Run, reports_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("tilescope.analyser.summary.summarise.summarise", fail)
    outcome = tilescope("summary", reports_directory / "baseline")
    assert outcome.code == 4
    assert "not enough memory on this computer" in outcome.err
    assert len(outcome.err.splitlines()) == 1
