"""Compilation of whole models and of chains, in processor time with warm kernels, and memory.

Prints figures and never fails on time.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time

import numpy as np
import onnx
import pytest

from tilescope.engine import compile_model, load_machine, load_onnx
from tilescope.engine.compiler.cache import plans
from tilescope.engine.ir import IrBuilder, Model, Value
from tilescope.engine.operators import OPERATORS

MACHINE = load_machine("gc200")
LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


def _compile_s(model: Model, rounds: int) -> tuple[float, int]:
    """Return the median seconds of a compilation, and its number of steps."""
    times, n_steps = [], 0
    for _ in range(rounds):
        began = process_time()
        n_steps = len(compile_model(model, MACHINE).executable.steps)
        times.append(process_time() - began)
    return statistics.median(times), n_steps


def _chain(n: int, kinds: tuple[str, ...]) -> Model:
    """Return a chain of n operations on [16, 64], which take turns."""
    builder = IrBuilder("chain")
    y = builder.input("x", (16, 64), "float32")
    random = np.random.default_rng(0)
    shapes = {"MatMul": (64, 64), "Add": (64,)}
    values = {
        kind: builder.constant(random.standard_normal(shape).astype(np.float32), kind)
        for kind, shape in shapes.items()
    }
    for i in range(n):
        kind = kinds[i % len(kinds)]
        operands: list[Value] = [y, *([values[kind]] if kind in values else [])]
        y = builder.emit(OPERATORS[kind], operands, name=f"n{i}", source=kind)
    return builder.finish([("y", y)])


@pytest.mark.parametrize("name", ["light_squeezenet", "light_resnet50", "light_densenet121"])
def test_models(name: str) -> None:
    model = load_onnx(LIGHT / f"{name}.onnx")
    _compile_s(model, 1)  # loads the kernels, and keeps plans
    for path in plans.memo_folder().glob("*.exchanges"):
        path.unlink()
    first, _ = _compile_s(model, 1)
    seconds, n_steps = _compile_s(model, 3)
    sys.stdout.write(
        f"\n{name}: compiled in {seconds:.2f} s, {first:.2f} s before its exchanges were kept,"
        f" {n_steps:,} steps\n"
    )


@pytest.mark.parametrize("name", ["opennsfw", "light-resnet50"])
def test_models_of_the_catalogue(name: str, catalogue_model: Callable[[str], Path]) -> None:
    model = load_onnx(catalogue_model(name))
    _compile_s(model, 1)  # loads the kernels, and keeps plans and exchanges
    seconds, n_steps = _compile_s(model, 3)
    sys.stdout.write(f"\n{name}: compiled in {seconds:.2f} s, {n_steps:,} steps\n")


@pytest.mark.parametrize("name", ["light_squeezenet", "light_resnet50", "light_densenet121"])
def test_memory_of_a_run(name: str, tmp_path: Path) -> None:
    """The largest resident memory of ``tilescope run``, and the size of its report."""
    # The system's figure of a child includes its parent's memory: Linux has one of the process.
    code = (
        "import re; from pathlib import Path; from tilescope.main import main;"
        f" main(['run', {str(LIGHT / name)!r} + '.onnx', '--report', {str(tmp_path)!r}]);"
        " print(*re.findall(r'VmHWM:\\s*(\\d+)', Path('/proc/self/status').read_text()))"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    peak_bytes = int(process.stdout.split()[-1]) * 1024
    report_bytes = (tmp_path / "profile.pop").stat().st_size
    sys.stdout.write(
        f"\n{name}: {peak_bytes / 1e6:,.0f} MB at most, report of {report_bytes / 1e6:.2f} MB\n"
    )


@pytest.mark.parametrize("kinds", [("Add", "Relu"), ("MatMul", "Add", "Relu")])
@pytest.mark.parametrize("n", [1_000, 10_000])
def test_chains(kinds: tuple[str, ...], n: int) -> None:
    _compile_s(_chain(10, kinds), 1)
    seconds, n_steps = _compile_s(_chain(n, kinds), 1)
    sys.stdout.write(
        f"\nchain of {n:,} {', '.join(kinds)}: compiled in {seconds:.2f} s,"
        f" {seconds / n * 1e6:.0f} us a node, {n_steps:,} steps\n"
    )
