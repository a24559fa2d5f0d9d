"""One model on the machine and in onnxruntime: values, cycles, memory, time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from tilescope.engine import (
    CompiledModel,
    Engine,
    Machine,
    compile_model,
    in_half,
    load_onnx,
    resolve_options,
)
from tilescope.engine.frontend.onnx import inputs_to_set
from tilescope.engine.models.catalogue import Model, ModelInput

__all__ = ["Measured", "fixed_of", "inputs_of", "measure", "tolerance_of"]

Arrays = Mapping[str, NDArray[Any]]

#: Runs of which the median time is taken.
_N_RUNS = 3
#: Largest error of an output, relative to its largest element. A detector's boxes are exponentials
#: of its last layer, and 120 convolutions in a row add up their roundings.
_TOLERANCES = {"yunet": 2e-2, "u2netp": 5e-4}
_FLOAT, _HALF = 1e-4, 2e-2


@dataclass(frozen=True)
class Measured:
    """What was measured; times are processor seconds of all threads.

    Parameters
    ----------
    error
        Largest error of any output, relative to the output's largest element.
    same_labels
        Whether the largest element along the last dimension is at the same place in all outputs.
    tile_bytes
        What the fullest tile needs, without gaps.
    least_bytes, total_bytes
        What ``models check`` says the model takes at least, and what all tiles need.
    onnxruntime_ratio
        Seconds of a run over those of onnxruntime.
    """

    name: str
    error: float
    tolerance: float
    same_labels: bool
    n_tiles: int
    cycles: int
    tile_bytes: int
    fits: bool
    least_bytes: int
    total_bytes: int
    load_s: float
    compile_s: float
    run_s: float
    onnxruntime_ratio: float
    report_bytes: int

    @property
    def is_right(self) -> bool:
        """Whether values and labels are as expected."""
        return self.error <= self.tolerance and self.same_labels


def tolerance_of(name: str, outputs: Arrays, precision: str) -> float:
    """Return how far an output may be off."""
    has_half = any(array.dtype == np.float16 for array in outputs.values())
    return _HALF if has_half or precision == "half" else _TOLERANCES.get(name, _FLOAT)


def inputs_of(model: Model, seed: int = 1) -> dict[str, NDArray[Any]]:
    """Return inputs in the ranges that the catalogue states."""
    random = np.random.default_rng(seed)

    def drawn(given: ModelInput) -> NDArray[Any]:
        if given.low is None or given.high is None:
            return random.standard_normal(given.shape).astype(given.dtype)
        return random.uniform(given.low, given.high, given.shape).astype(given.dtype)

    return {value.name: drawn(value) for value in model.inputs}


def fixed_of(
    path: Path, given: Arrays
) -> tuple[dict[str, tuple[int, ...]], dict[str, NDArray[Any]]]:
    """Return what compiling a model for some inputs fixes: all shapes, and the values of a few."""
    shapes = {name: array.shape for name, array in given.items()}
    return shapes, {name: given[name] for name in inputs_to_set(onnx.load(path))}


def measure(model: Model, path: Path, machine: Machine, precision: str) -> Measured:
    """Compile and run a model, with a report, and compare it with onnxruntime."""
    from tilescope.engine.frontend.onnx.facts.census import take_census

    argument = inputs_of(model)
    shapes, fixed = fixed_of(path, argument)
    began = time.process_time()
    loaded = load_onnx(path, shapes, values=fixed)
    if precision == "half":
        loaded = in_half(loaded)
    load_s, began = time.process_time() - began, time.process_time()
    compiled = compile_model(loaded, machine)
    compile_s = time.process_time() - began
    used = {value.name: argument[value.name] for value in loaded.inputs}
    with TemporaryDirectory() as folder:
        outputs, run_s, cycles = _run(compiled, used, folder)
        report_bytes = sum(file.stat().st_size for file in Path(folder).rglob("*.pop"))
    expected, theirs_s = _onnxruntime(path, argument)
    memory = compiled.executable.memory
    return Measured(
        name=model.name,
        error=max(_error(outputs[name], array) for name, array in expected.items()),
        tolerance=tolerance_of(model.name, expected, precision),
        same_labels=all(_has_same_labels(outputs[name], array) for name, array in expected.items()),
        n_tiles=machine.n_tiles,
        cycles=cycles,
        tile_bytes=int(memory.excluding_gaps.max()),
        fits=not compiled.executable.overfull_tiles.size,
        least_bytes=take_census(path, shapes, precision=precision, values=fixed).least_bytes,
        total_bytes=int(memory.excluding_gaps.sum()),
        load_s=load_s,
        compile_s=compile_s,
        run_s=run_s,
        onnxruntime_ratio=run_s / theirs_s,
        report_bytes=report_bytes,
    )


def _run(compiled: CompiledModel, given: Arrays, folder: str) -> tuple[Arrays, float, int]:
    """Return the outputs, the seconds of a run, and its cycles; the first run loads kernels."""
    options = resolve_options(
        environ={}, command_line={"autoReport.all": True, "autoReport.directory": folder}
    )
    with Engine(compiled.executable, options) as engine:
        outputs = compiled.run(engine, given)
        seconds = []
        for _ in range(_N_RUNS):
            began = time.process_time()
            compiled.run(engine, given)
            seconds.append(time.process_time() - began)
        cycles = max(timeline.n_cycles for timeline in engine.timelines(0))
    return outputs, median(seconds), cycles


def _onnxruntime(path: Path, given: Arrays) -> tuple[Arrays, float]:
    """Return onnxruntime's outputs and the seconds that one thread takes."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3  # errors
    session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    seconds = []
    for _ in range(_N_RUNS + 1):
        began = time.process_time()
        actual = session.run(names, dict(given))
        seconds.append(time.process_time() - began)
    return dict(zip(names, map(np.asarray, actual), strict=True)), median(seconds[1:])


def _error(found: NDArray[Any], expected: NDArray[Any]) -> float:
    """Return the largest error relative to the largest element."""
    if found.shape != expected.shape:
        return float("inf")
    wide = expected.astype(np.float64)
    scale = float(np.abs(wide).max(initial=0)) or 1.0
    return float(np.abs(found.astype(np.float64) - wide).max(initial=0)) / scale


def _has_same_labels(found: NDArray[Any], expected: NDArray[Any]) -> bool:
    """Return whether the largest elements of the last dimension are at the same places.

    Where onnxruntime's own largest two are as close as half is exact, the order is not decided.
    """
    if found.shape != expected.shape:
        return False
    if not found.ndim or not found.size:
        return True
    wide = expected.astype(np.float64)
    chosen = np.take_along_axis(wide, found.argmax(-1, keepdims=True), -1)
    gap = wide.max(-1, keepdims=True) - chosen
    return bool((gap <= 1e-3 * np.abs(wide).max()).all())
