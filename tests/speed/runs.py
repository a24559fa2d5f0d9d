"""Runs of a model here and in onnxruntime, in processes that take turns."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from tests.speed.worker import N_THREADS

__all__ = ["SMALL", "Compared", "compare"]

_ROOT = Path(__file__).parents[2]
#: Turns of each process, and seconds of a turn.
_N_TURNS, _TURN_S = 5, 0.5
#: Multiply-adds below which a model is small.
SMALL = 10_000_000
#: Fewest and most runs of a turn.
_FEWEST, _MOST = 3, 2_000


@dataclass(frozen=True)
class Compared:
    """Times of a model, seconds; ratios are ours over theirs, from turns next to each other.

    Parameters
    ----------
    run_clock_s, run_cpu_s, their_clock_s, their_cpu_s
        Median of all runs. The report is on; it records the first two runs, as by default.
    recorded_clock_s
        The same of runs that are all recorded; measured of small models only.
    clock_ratio, cpu_ratio
        Median over turns of the ratio of the turns' medians.
    clock_spread
        Smallest and largest of these ratios.
    load_s, compile_s, their_compile_s
        Processor time: the file read and imported, compiled, and a session of theirs made.
    machine_load
        Load average of the last minute as the model was done; 2 is what the measurement makes.
    """

    name: str
    multiply_adds: int
    run_clock_s: float
    run_cpu_s: float
    recorded_clock_s: float | None
    their_clock_s: float
    their_cpu_s: float
    clock_ratio: float
    cpu_ratio: float
    clock_spread: tuple[float, float]
    load_s: float
    compile_s: float
    their_compile_s: float
    machine_load: float


class _Peer:
    """A process that is stopped except during its turns, so that its threads do not spin then."""

    def __init__(self, peer: str, name: str) -> None:
        environ = os.environ | {
            "NUMBA_NUM_THREADS": str(N_THREADS),
            "PYTHONPATH": f"{_ROOT / 'compat'}:{_ROOT}",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.speed.worker", peer, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environ,
            cwd=_ROOT,
        )
        self.prepared = self._read()
        self._process.send_signal(signal.SIGSTOP)

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process ended with {self._process.wait()}")
        return json.loads(line)

    def turn(self, n_runs: int) -> list[dict[str, float]]:
        """Return the times of some runs."""
        assert self._process.stdin is not None
        self._process.send_signal(signal.SIGCONT)
        self._process.stdin.write(f"{n_runs}\n")
        self._process.stdin.flush()
        times: list[dict[str, float]] = self._read()
        self._process.send_signal(signal.SIGSTOP)
        return times

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


def _n_runs(times: Sequence[dict[str, float]]) -> int:
    return max(_FEWEST, min(_MOST, int(_TURN_S / median(row["clock_s"] for row in times))))


def compare(name: str, multiply_adds: int) -> Compared:
    """Measure a model of the catalogue in both programs.

    Parameters
    ----------
    name
        Name of the model.
    multiply_adds
        Of one execution.
    """
    peers: list[_Peer] = []
    try:
        also = ["recorded"] if multiply_adds < SMALL else []
        peers.extend(_Peer(peer, name) for peer in ("ours", "theirs", *also))
        counts = [_n_runs(peer.turn(_FEWEST)) for peer in peers]
        turns = [
            [peer.turn(n) for peer, n in zip(peers, counts, strict=True)] for _ in range(_N_TURNS)
        ]
        ours, theirs = (peer.prepared for peer in peers[:2])
    finally:
        for peer in peers:
            peer.close()

    def of(times: Sequence[dict[str, float]], clock: str) -> float:
        return median(row[clock] for row in times)

    ratios = {
        clock: [of(turn[0], clock) / of(turn[1], clock) for turn in turns]
        for clock in ("clock_s", "cpu_s")
    }
    all_ours, all_theirs, *recorded = (
        [row for times in of_peer for row in times] for of_peer in zip(*turns, strict=True)
    )
    return Compared(
        name=name,
        multiply_adds=multiply_adds,
        run_clock_s=of(all_ours, "clock_s"),
        run_cpu_s=of(all_ours, "cpu_s"),
        recorded_clock_s=of(recorded[0], "clock_s") if recorded else None,
        their_clock_s=of(all_theirs, "clock_s"),
        their_cpu_s=of(all_theirs, "cpu_s"),
        clock_ratio=median(ratios["clock_s"]),
        cpu_ratio=median(ratios["cpu_s"]),
        clock_spread=(min(ratios["clock_s"]), max(ratios["clock_s"])),
        load_s=ours["load"]["cpu_s"],
        compile_s=ours["compile"]["cpu_s"],
        their_compile_s=theirs["compile"]["cpu_s"],
        machine_load=os.getloadavg()[0],
    )
