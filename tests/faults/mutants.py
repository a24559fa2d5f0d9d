"""Damaged and hostile reports by the thousand: ``python -m tests.faults.mutants --seed S``.

Every mutant is given to the commands, to `pva` and to the analyser, in processes with little
memory.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.faults.examination import Examination, Verdict
from tests.faults.plain_mutations import damage
from tests.faults.resealed_mutations import change
from tests.faults.sound_reports import sound_reports

__all__ = ["run"]

_MEMORY_BYTES = 256 * 1024**2
_PATIENCE_S = 60.0
_WORKERS = 2
#: Command lines and calls of the analyser per mutant.
_OF_PLAIN = (2, 3)
_OF_RESEALED = (20, 200)


def run(
    n_plain: int,
    n_resealed: int,
    seed: int,
    tell: Callable[[str], object] | None = None,
) -> dict[str, int | float]:
    """Examine mutants and return counts of outcomes.

    Parameters
    ----------
    n_plain
        Number of mutants with damaged bytes.
    n_resealed
        Number of mutants with changed content and valid digests.
    seed
        The same seed gives the same mutants.
    tell
        Takes a line for everything that goes wrong, when it does.
    """
    cases = [*((False, number) for number in range(n_plain))]
    cases += [(True, number) for number in range(n_resealed)]
    return _run_cases(cases, seed, tell or str)


def _run_cases(
    cases: list[tuple[bool, int]], seed: int, tell: Callable[[str], object]
) -> dict[str, int | float]:
    counts: Counter[str] = Counter()
    figures: dict[str, int | float] = {"slowest_s": 0.0, "most_mebibytes": 0.0}
    with (
        tempfile.TemporaryDirectory() as folder,
        # Logs of internal errors go there.
        patch.dict(os.environ, {"XDG_STATE_HOME": folder, "OPENBLAS_NUM_THREADS": "1"}),
    ):
        directory = Path(folder)
        sound = sound_reports(directory)
        examinations = {
            name: Examination(name, content, directory / name) for name, content in sound.items()
        }
        crew = [_Worker(examinations, cases[n::_WORKERS], seed) for n in range(_WORKERS)]
        while any(worker.connection is not None for worker in crew):
            ready = wait([worker.connection for worker in crew if worker.connection], 1.0)
            for worker in crew:
                for finished in worker.collect(worker.connection in ready):
                    counts[finished["outcome"]] += 1
                    counts["answers"] += finished["n_answers"]
                    counts["failures"] += bool(finished["failures"])
                    for key, value in figures.items():
                        figures[key] = max(value, finished[key])
                    for text in finished["failures"]:
                        tell(f"{finished['case']}: {text}")
    return {**dict(sorted(counts.items())), **figures}


class _Worker:
    """A process that examines its cases in order; it is replaced when one ends it."""

    def __init__(
        self, examinations: dict[str, Examination], cases: list[tuple[bool, int]], seed: int
    ) -> None:
        self._examinations = examinations
        self._cases = cases
        self._seed = seed
        self._last = time.monotonic()
        self.connection: Connection | None = None
        self._start()

    def _start(self) -> None:
        if not self._cases:
            self.connection = None
            return
        fork = multiprocessing.get_context("fork")
        self.connection, theirs = fork.Pipe(duplex=False)
        self._process = fork.Process(
            target=_work, args=(self._examinations, self._cases, self._seed, theirs)
        )
        self._process.start()
        theirs.close()
        self._last = time.monotonic()

    def collect(self, is_ready: bool) -> list[dict[str, Any]]:
        """Return the results that have arrived."""
        if self.connection is None:
            return []
        if is_ready:
            try:
                finished: dict[str, Any] = self.connection.recv()
            except EOFError:
                return self._replace("ends the process")
            self._cases = self._cases[1:]
            self._last = time.monotonic()
            if not self._cases:
                self._process.join()
                self.connection = None
            return [finished]
        if time.monotonic() - self._last > _PATIENCE_S:
            self._process.kill()
            return self._replace(f"hangs for {_PATIENCE_S:.0f} s")
        return []

    def _replace(self, what: str) -> list[dict[str, Any]]:
        self._process.join()
        case = _name(self._seed, *self._cases[0])
        self._cases = self._cases[1:]
        self._start()
        verdict = Verdict("crash", [f"{what}, exit code {self._process.exitcode}"])
        return [{**vars(verdict), "case": case, "most_mebibytes": 0.0}]


def _work(
    examinations: dict[str, Examination],
    cases: list[tuple[bool, int]],
    seed: int,
    connection: Connection,
) -> None:
    """Examine cases; send a result for every one."""
    os.nice(10)
    directory = Path(tempfile.mkdtemp(dir=os.environ["XDG_STATE_HOME"]))
    names = list(examinations)
    for name in names:
        examinations[name].move(directory / name)
    base_bytes = _peak_bytes()
    virtual_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = virtual_bytes + _MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for is_resealed, number in cases:
        name = names[number % len(names)]
        verdict, subject = _examined(examinations[name], seed, is_resealed, number)
        case = f"{_name(seed, is_resealed, number)} ({name}: {subject})"
        growth = (_peak_bytes() - base_bytes) / 1024**2
        connection.send({**vars(verdict), "case": case, "most_mebibytes": growth})
    connection.close()


def _examined(
    examination: Examination, seed: int, is_resealed: bool, number: int
) -> tuple[Verdict, str]:
    """Return the verdict on a mutant, and what it is."""
    generator = random.Random(_name(seed, is_resealed, number))
    if is_resealed:
        examination.path.write_bytes(examination.sound)
        subject = change(examination.path, generator)
    else:
        content, subject = damage(examination.sound, generator)
        examination.path.write_bytes(content)
    n_lines, n_calls = _OF_RESEALED if is_resealed else _OF_PLAIN
    verdict = examination.examine(
        generator, is_resealed=is_resealed, n_lines=n_lines, n_calls=n_calls
    )
    return verdict, subject


def _name(seed: int, is_resealed: bool, number: int) -> str:
    return f"--seed {seed} --only {'r' if is_resealed else 'p'}{number}"


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    """Examine mutants, print failures and counts; exit with 1 after a failure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plain", type=int, default=2_000, help="mutants with damaged bytes")
    parser.add_argument("--resealed", type=int, default=200, help="mutants with valid digests")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=None, help="one mutant, such as r17")
    options = parser.parse_args()
    if options.only:
        case = (options.only[0] == "r", int(options.only[1:]))
        counts = _run_cases([case], options.seed, _say)
    else:
        counts = run(options.plain, options.resealed, options.seed, _say)
    _say(json.dumps(counts, indent=2))
    sys.exit(1 if counts["failures"] else 0)


def _say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
