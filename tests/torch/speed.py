"""Processor time of steps, inference and export beside PyTorch's: ``make bench-train``.

The front end of PyTorch loads the networks, so that both have the same weights. Both take turns in
one process, on one thread; a row is the median of its turns. Writes the table of the page of speed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import torch
from tests.torch.frontend.modules import ResNet
from tests.torch.networks import NETWORKS, PytorchStep

from tilescope.engine import (
    Engine,
    Loss,
    Sgd,
    Trainer,
    compile_model,
    for_training,
    load_machine,
    load_torch,
    resolve_options,
)

TABLE = Path(__file__).with_name("speed.json")
_TURNS, _SECONDS = 5, 0.2
_N_EXPORTS = 3

Row = dict[str, float]


class _WithLoss(torch.nn.Module):
    """A network that takes labels, too, and returns its loss."""

    def __init__(self, step: PytorchStep) -> None:
        super().__init__()
        self.network, self.loss = step.module, step.loss

    def forward(self, x: torch.Tensor, *labels: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = self.loss(self.network(x), *labels)
        return loss


def _per_call(call: Callable[[], object]) -> float:
    """Return the processor seconds of a call, over a second of them."""
    n_calls, began = 0, time.process_time()
    while time.process_time() - began < _SECONDS or not n_calls:
        call()
        n_calls += 1
    return (time.process_time() - began) / n_calls


def _beside(ours: Callable[[], object], theirs: Callable[[], object]) -> Row:
    """Return medians of the seconds of calls in turns, and the median of their ratios."""
    ours(), theirs()
    pairs = [(_per_call(ours), _per_call(theirs)) for _ in range(_TURNS)]
    return {
        "ours_cpu_s": median(ours for ours, _ in pairs),
        "theirs_cpu_s": median(theirs for _, theirs in pairs),
        "ratio": median(ours / theirs for ours, theirs in pairs),
    }


def training(name: str) -> Row:
    """Return the row of a network's step: seconds of steps and of compiling, and cycles."""
    network, sgd = NETWORKS[name], Sgd(lr=0.001)
    tensors = [torch.from_numpy(array) for array in network.batch().values()]
    step = PytorchStep(network, sgd)
    program = load_torch(_WithLoss(step), tensors, is_training=True)
    loss = Loss(kind="identity", output="output", reduction="sum")
    model = for_training(program.model, loss, sgd)
    machine = load_machine("gc200")
    Trainer(model, machine).engine.close()  # compiles the compiler's own kernels
    began = time.process_time()
    trainer = Trainer(model, machine, resolve_options(environ={}))
    compile_s = time.process_time() - began
    with trainer:
        row = _beside(lambda: trainer.step(program.take(tensors)), lambda: step(*tensors))
        cycles = max(timeline.n_cycles for timeline in trainer.engine.timelines(0))
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {**row, "compile_cpu_s": compile_s, "cycles": cycles, "peak_bytes": peak_bytes}


def inference(name: str) -> Row:
    """Return the row of a network's inference."""
    network = NETWORKS[name]
    module = network.module().eval()
    args = [torch.from_numpy(network.batch()["x"])]
    program = load_torch(module, args)
    compiled = compile_model(program.model, load_machine("gc200"))
    with Engine(compiled.executable, resolve_options(environ={})) as engine, torch.no_grad():
        engine.load()
        return _beside(
            lambda: program.give(compiled.run(engine, program.take(args))), lambda: module(*args)
        )


def export() -> Row:
    """Return the row of ResNet-50: its export and import, and PyTorch's export alone."""
    module = ResNet((3, 4, 6, 3), is_narrow=True, width=64).eval()
    args = (torch.zeros(1, 3, 224, 224),)

    def seconds(call: Callable[[], Any]) -> float:
        began = time.process_time()
        call()
        return time.process_time() - began

    def theirs() -> Any:
        return torch.export.export(module, args, strict=False)

    theirs(), load_torch(module, args)  # PyTorch imports what it needs
    pairs = [
        (seconds(lambda: load_torch(module, args)), seconds(theirs)) for _ in range(_N_EXPORTS)
    ]
    return {
        "ours_cpu_s": median(ours for ours, _ in pairs),
        "theirs_cpu_s": median(theirs for _, theirs in pairs),
        "ratio": median(ours / theirs for ours, theirs in pairs),
    }


def _line(name: str, row: Row) -> str:
    return (
        f"{name:12} ours {row['ours_cpu_s'] * 1e3:8.2f} ms, PyTorch"
        f" {row['theirs_cpu_s'] * 1e3:8.2f} ms, ratio {row['ratio']:.2f}"
    )


def _means(kind: str, rows: Mapping[str, Row]) -> str:
    """Return the line about the ratios of all networks."""
    ratios = [row["ratio"] for row in rows.values()]
    return f"{kind} geometric mean {geometric_mean(ratios):.2f}, largest {max(ratios):.2f}"


def main() -> None:
    """Measure, print, and write the table row by row."""
    parser = argparse.ArgumentParser(prog="python -m tests.torch.speed", description=__doc__)
    parser.add_argument("names", nargs="*", help="rows to measure anew; all of them if none")
    names = parser.parse_args().names
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    table: dict[str, Any] = json.loads(TABLE.read_text()) if names else {}
    table["torch"] = torch.__version__
    measures = {
        "export": (("resnet50",), lambda _: export()),
        "networks": (NETWORKS, training),
        "inference": (NETWORKS, inference),
    }
    for kind in measures:
        table.setdefault(kind, {})
    for name in names or ("resnet50", *NETWORKS):
        for kind, (known, measure) in measures.items():
            if name in known:
                row = table[kind][name] = measure(name)
                sys.stdout.write(f"{kind} {_line(name, row)}\n")
                sys.stdout.flush()
                TABLE.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    for kind in measures:
        sys.stdout.write(f"{_means(kind, table[kind])}\n")


if __name__ == "__main__":
    main()
