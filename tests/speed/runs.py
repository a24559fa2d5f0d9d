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

from tests.speed.subjects import Subject
from tests.speed.worker import N_THREADS

__all__ = ["Compared", "compare"]

_ROOT = Path(__file__).parents[2]
#: Turns of each process, and seconds of a turn.
_N_TURNS, _TURN_S = 5, 0.5
#: Fewest and most runs of a turn.
_FEWEST, _MOST = 3, 2_000


@dataclass(frozen=True)
class Compared:
    """Times of a model, seconds of the processor; a ratio is ours over theirs.

    Parameters
    ----------
    kind
        Its class.
    run_s, their_run_s
        Median of all runs. The report is on; it records the first two runs, as by default.
    recorded_s
        The same of runs that are all recorded.
    run_ratio
        Median, over turns next to each other, of the ratio of the turns' medians.
    spread
        Smallest and largest of these ratios.
    anew_s
        A model read, imported and compiled, with plans and exchanges known.
    stored_s
        The same model where its program is stored.
    session_s
        A session of theirs. All three are medians of five, in a process that did so before.
    chip_s
        Time of a run on the simulated machine.
    machine_load
        Load average of the last minute as the model was done; 1 is what the measurement makes.
    """

    name: str
    kind: str
    run_s: float
    recorded_s: float
    their_run_s: float
    run_ratio: float
    spread: tuple[float, float]
    anew_s: float
    stored_s: float
    session_s: float
    chip_s: float
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


def compare(subject: Subject) -> Compared:
    """Measure a model in both programs."""
    peers: list[_Peer] = []
    try:
        peers.extend(_Peer(peer, subject.name) for peer in ("ours", "theirs", "recorded"))
        counts = [_n_runs(peer.turn(_FEWEST)) for peer in peers]
        turns = [
            [peer.turn(n) for peer, n in zip(peers, counts, strict=True)] for _ in range(_N_TURNS)
        ]
        ours, theirs = (peer.prepared for peer in peers[:2])
    finally:
        for peer in peers:
            peer.close()

    def of(times: Sequence[dict[str, float]]) -> float:
        return median(row["cpu_s"] for row in times)

    ratios = [of(turn[0]) / of(turn[1]) for turn in turns]
    all_ours, all_theirs, recorded = (
        [row for times in of_peer for row in times] for of_peer in zip(*turns, strict=True)
    )
    return Compared(
        name=subject.name,
        kind=subject.kind,
        run_s=of(all_ours),
        recorded_s=of(recorded),
        their_run_s=of(all_theirs),
        run_ratio=median(ratios),
        spread=(min(ratios), max(ratios)),
        anew_s=ours["anew"]["cpu_s"],
        stored_s=ours["stored"]["cpu_s"],
        session_s=theirs["session"]["cpu_s"],
        chip_s=ours["chip"]["clock_s"],
        machine_load=os.getloadavg()[0],
    )
