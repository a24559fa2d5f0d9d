"""A tiny program whose runs end in six ways, and one that still runs: real processes, no mocks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["damage_last_chunk", "finish", "kill", "running_program", "write_ending"]

ROOT = Path(__file__).parents[2]

#: Says ``ready`` once its first run is in the report, then ends as its second argument says.
_PROGRAM = """
import sys
import time
from pathlib import Path

from tilescope import engine
from tilescope.engine.program import Copy, Sequence

directory, ending = sys.argv[1:]
graph = engine.Graph(engine.load_machine("gc200", tiles_per_ipu=4))
source, target = (graph.add_variable("float32", (64,), name) for name in ("source", "target"))
graph.map_linearly(source)
graph.map_linearly(target)
executable = engine.compile_programs(graph, [Sequence("main", [Copy(source, target)])])
options = engine.resolve_options(
    code={"autoReport.all": True, "autoReport.directory": directory}
)
device = engine.Engine(executable, options)
device.load()
device.run()


def endless():
    device.flush_report()
    print("ready", flush=True)
    while not Path(directory, "stop").exists():
        device.run()
        time.sleep(0.05)


if ending == "closed":
    device.close()
elif ending == "endless":
    with device:
        endless()
elif ending == "exception":
    with device:
        device.run()
        raise RuntimeError("of the program")
"""


def _command(directory: Path, ending: str) -> tuple[list[str], dict[str, str]]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "compat")]),
    }
    return [sys.executable, "-c", _PROGRAM, str(directory), ending], environment


def write_ending(directory: Path, ending: str) -> Path:
    """Run the program in a process of its own until it ends, and return the path of its report.

    Parameters
    ----------
    directory
        Of the report.
    ending
        ``closed``; ``not closed``, which ends normally without closing the engine; ``exception``;
        ``interrupted``, by Ctrl-C; ``killed``; ``damaged``, a chunk of the report of ``closed``.
    """
    if ending in ("interrupted", "killed"):
        with running_program(directory) as process:
            sent = signal.SIGINT if ending == "interrupted" else signal.SIGKILL
            process.send_signal(sent)
            assert process.wait(timeout=60) != 0
    else:
        kind = "closed" if ending == "damaged" else ending
        command, environment = _command(directory, kind)
        completed = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=120
        )
        assert (completed.returncode != 0) == (ending == "exception"), completed.stderr
    (path,) = directory.glob("*.pop")
    if ending == "damaged":
        damage_last_chunk(path)
    return path


@contextmanager
def running_program(directory: Path) -> Iterator[subprocess.Popen[str]]:
    """Start the program, wait until its report holds a run, and kill it in the end."""
    command, environment = _command(directory, "endless")
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        kill(process)
        process.stdout.close()


def kill(process: subprocess.Popen[str]) -> None:
    """Kill a process, as ``kill -9`` does, and wait for its end."""
    process.kill()
    process.wait(timeout=60)


def finish(process: subprocess.Popen[str], directory: Path) -> None:
    """Make a running program close its engine and end."""
    (directory / "stop").touch()
    assert process.wait(timeout=60) == 0


def damage_last_chunk(file: Path) -> None:
    """Change a byte inside the last packed chunk of a report; its size stays the same."""
    data = bytearray(file.read_bytes())
    data[data.rindex(b"\x28\xb5\x2f\xfd") + 6] ^= 255
    file.write_bytes(data)
