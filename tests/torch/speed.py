"""Processor time of training steps beside PyTorch's on one thread: ``python -m tests.torch.speed``.

Both train the same network from the same weights in one process, in turns; a row is the median of
its turns. Writes the table of the page of speed.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import geometric_mean, median
from tempfile import TemporaryDirectory

os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import torch
from tests.torch.networks import NETWORKS, PytorchStep

from tilescope.engine import Sgd, Trainer, load_machine

TABLE = Path(__file__).with_name("speed.json")
_TURNS, _SECONDS = 5, 1.0


def _per_step(step: Callable[[], object]) -> float:
    """Return the processor seconds of a step, over a second of them."""
    n_steps, began = 0, time.process_time()
    while time.process_time() - began < _SECONDS or not n_steps:
        step()
        n_steps += 1
    return (time.process_time() - began) / n_steps


def measured(name: str) -> dict[str, float]:
    """Return the row of a network: seconds of steps and of compiling, cycles, and their ratio."""
    network, sgd = NETWORKS[name], Sgd(lr=0.001)
    batch = network.batch()
    tensors = [torch.from_numpy(array) for array in batch.values()]
    with TemporaryDirectory() as folder:
        model = network.model(Path(folder) / "model.onnx", sgd)
    machine = load_machine("gc200")
    Trainer(model, machine).engine.close()  # compiles the compiler's own kernels
    began = time.process_time()
    trainer = Trainer(model, machine)
    compile_s = time.process_time() - began
    theirs_step = PytorchStep(network, sgd)
    with trainer:
        trainer.step(batch)
        theirs_step(*tensors)
        pairs = [
            (_per_step(lambda: trainer.step(batch)), _per_step(lambda: theirs_step(*tensors)))
            for _ in range(_TURNS)
        ]
        cycles = max(timeline.n_cycles for timeline in trainer.engine.timelines(0))
    return {
        "ours_cpu_s": median(ours for ours, _ in pairs),
        "theirs_cpu_s": median(theirs for _, theirs in pairs),
        "ratio": median(ours / theirs for ours, theirs in pairs),
        "compile_cpu_s": compile_s,
        "cycles": cycles,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def main() -> None:
    """Measure all networks, print, and write the table."""
    torch.set_num_threads(1)
    rows = {}
    for name in NETWORKS:
        row = rows[name] = measured(name)
        sys.stdout.write(
            f"{name:12} ours {row['ours_cpu_s'] * 1e3:8.2f} ms, PyTorch"
            f" {row['theirs_cpu_s'] * 1e3:8.2f} ms, ratio {row['ratio']:.2f}; compile"
            f" {row['compile_cpu_s']:.1f} s; {row['cycles']:,} cycles;"
            f" {row['peak_bytes'] / 1e9:.2f} GB\n"
        )
        sys.stdout.flush()
    ratios = [row["ratio"] for row in rows.values()]
    sys.stdout.write(f"geometric mean {geometric_mean(ratios):.2f}, largest {max(ratios):.2f}\n")
    table = {"torch": torch.__version__, "networks": rows}
    TABLE.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
