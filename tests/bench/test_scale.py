"""What a training step on 4, 16 and 64 IPUs takes to compile, run and report. Never fails on time.

A BERT of 6 layers as a pipeline over four IPUs, and replicas of it; the values of one replica are
computed.
Every machine has a process of its own, so that peaks of memory are apart.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

_ROOT = Path(__file__).parents[2]
N_REPLICAS = (1, 4, 16)
N_DIFFS = 3
_HEAD = ("IPUs", "compile s", "run s", "peak MB", "report MB")


def _tell(text: str) -> None:
    sys.stdout.write(text + "\n")


def _in_process(*arguments: str) -> str:
    paths = [str(_ROOT), str(_ROOT / "compat")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, text=True, capture_output=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_cost_of_replicas(tmp_path: Path) -> None:
    """Processor time, memory and bytes by IPUs, and the time of a diff of the largest two."""
    _tell("\n" + "".join(f"{name:>12}" for name in _HEAD))
    reports: list[Path] = []
    for n_replicas in N_REPLICAS:
        folder = tmp_path / f"replicas{n_replicas}"
        answer = _in_process("-m", "tests.bench.test_scale", str(n_replicas), str(folder))
        facts = json.loads(answer.splitlines()[-1])
        reports += folder.rglob("profile.pop")
        facts["report"] = reports[-1].stat().st_size / 1e6
        cells = [facts[name] for name in ("compile", "run", "peak", "report")]
        _tell(f"{4 * n_replicas:12}" + "".join(f"{cell:12.1f}" for cell in cells))
    used = []
    for _ in range(N_DIFFS):
        began = resource.getrusage(resource.RUSAGE_CHILDREN)
        _in_process("-m", "tilescope", "diff", *map(str, reports[-2:]))
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        used.append(sum(ended[:2]) - sum(began[:2]))
    _tell(f"diff of the last two: {statistics.median(used):.2f} s of processor time")


def _train(n_replicas: int, folder: Path) -> None:
    """Print what compilation and one step take."""
    from dataclasses import replace

    from tests.fidelity.pretraining import BASE_128, pretraining_step

    from tilescope.engine import load_machine
    from tilescope.engine.options import resolve
    from tilescope.engine.session.trainer import Trainer

    of = replace(
        BASE_128,
        layers=(0, 2, 2, 2),
        hidden=256,
        n_heads=4,
        vocabulary=2000,
        n_words=64,
        batch=1,
        n_rounds=8,
        n_replicas=n_replicas,
    )
    machine = load_machine("bow", n_ipus=len(of.layers), n_replicas=n_replicas)
    model = pretraining_step(of)
    options = resolve(
        code={
            "autoReport.all": "true",
            "autoReport.directory": str(folder),
            "debug.allowOutOfMemory": "true",
        }
    )
    began = time.process_time()
    with Trainer(model, machine, options, n_computed_replicas=1) as trainer:
        compiled = time.process_time()
        front = (of.n_rounds, *((n_replicas,) if n_replicas > 1 else ()))
        inputs = {v.name: np.ones((*front, *v.shape), np.int32) for v in model.inputs}
        trainer.step(inputs)
    ended = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    _tell(json.dumps({"compile": compiled - began, "run": ended - compiled, "peak": peak}))


if __name__ == "__main__":
    _train(int(sys.argv[1]), Path(sys.argv[2]))
