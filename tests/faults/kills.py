"""Kills and endings of recorded programs at random times: no acknowledged run is lost.

A run is acknowledged when the engine has flushed its report, or a second after it was recorded.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.faults.program import contradictions, run_names

from tilescope.reports import NotAReport, ReportNotFound, ReportWriter, State, open_report

__all__ = ["run"]

_ROOT = Path(__file__).parents[2]
#: Runs, flushes now and then, prints the number of acknowledged runs; begins again when closed.
_PROGRAM = """
import sys
from pathlib import Path
from tests.faults.program import start
n_runs, seed = int(sys.argv[2]), int(sys.argv[3])
import random
dice = random.Random(seed)
while True:
    with start(Path(sys.argv[1])) as engine:
        print("begin", flush=True)
        for number in range(n_runs):
            engine.run(name=f"r{number}")
            if dice.random() < 0.02:
                engine.flush_report()
                print(number + 1, flush=True)
    print("end", flush=True)
"""
_SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)


def _judge(directory: Path, lines: list[str]) -> list[str]:
    """Return what is wrong with what a killed program left; ``lines`` is what it printed."""
    if "begin" not in lines:
        return []
    begins = len(lines) - lines[::-1].index("begin")
    acknowledged = max((int(line) for line in lines[begins:] if line.isdigit()), default=0)
    has_ended = "end" in lines[begins:]
    newest: list[str] = []
    problem = []
    for file in directory.glob("profile*.pop"):
        try:
            with open_report(file) as report:
                names, state = run_names(report), report.state.state
        except (NotAReport, ReportNotFound):  # killed before the first commit, or just renamed
            continue
        if names != [f"r{number}" for number in range(len(names))]:
            problem.append(f"{file.name} has other runs: {names[:5]}")
        problem += [f"{file.name}: {sentence}" for sentence in contradictions(file)]
        is_final = file.name == "profile.pop"
        # Killed between the seal and the new name, a complete report has that of an unfinished one.
        if state is not State.COMPLETE and (is_final or state is not State.ENDED_EARLY):
            problem.append(f"{file.name} is {state}")
        if not is_final or has_ended:
            newest = max(newest, names, key=len)
    if len(newest) < acknowledged and not has_ended:
        # It may have been sealed under the final name just before the kill.
        with open_report(directory) as report:
            newest = run_names(report)
    if len(newest) < acknowledged:
        problem.append(f"{acknowledged} runs were acknowledged, {len(newest)} are there")
    return problem


def run(number: int, seed: int = 0) -> dict[str, int | float | list[str]]:
    """Kill programs and return counts: trials, acknowledged runs, and failures."""
    failures: list[str] = []
    n_acknowledged = n_unfinished = 0
    began = time.monotonic()
    for trial in range(seed, seed + number):
        dice = random.Random(trial)
        with TemporaryDirectory() as folder:
            directory = Path(folder) / "r"
            n_runs = dice.choice([3, 300, 100_000])
            command = [sys.executable, "-c", _PROGRAM, str(directory), str(n_runs), str(trial)]
            with subprocess.Popen(
                command,
                cwd=_ROOT,
                env={**os.environ, "PYTHONPATH": f"{_ROOT}:{_ROOT / 'compat'}"},
                stdout=subprocess.PIPE,
                text=True,
            ) as process:
                assert process.stdout is not None
                first = process.stdout.readline()
                time.sleep(dice.random() * dice.choice([0.02, 0.3, 1.0]))
                process.send_signal(dice.choice(_SIGNALS))
                lines = [first.strip(), *process.stdout.read().split()]
            n_acknowledged += sum(line.isdigit() for line in lines)
            n_unfinished += bool(list(directory.glob("profile_*.pop")))
            failures += [f"seed {trial}: {sentence}" for sentence in _judge(directory, lines)]
            ReportWriter.create(directory).abandon()  # no lock is left
    return {
        "trials": number,
        "acknowledgements": n_acknowledged,
        "unfinished_reports": n_unfinished,
        "failures": failures,
        "seconds": round(time.monotonic() - began, 1),
    }
