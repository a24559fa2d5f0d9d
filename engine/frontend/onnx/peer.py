"""The results of a run beside those of onnxruntime, and beside what rounding alone may change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike, NDArray

from tilescope.engine.errors import BadOption, RunFailed

__all__ = ["OutputCheck", "compare_with_peer", "with_settings"]

Arrays = Mapping[str, NDArray[Any]]

#: Differences beyond this multiple of the noise are no roundings. Assumption: sums in another order
#: differ by a few units in the last place more than sums of perturbed operands.
_MOST_NOISES = 32.0
#: Rounding of a type: distance of 1 to the next number.
_EPSILON = {"float": float(np.finfo(np.float32).eps), "half": float(np.finfo(np.float16).eps)}


@dataclass(frozen=True)
class OutputCheck:
    """An output beside onnxruntime's.

    Attributes
    ----------
    difference
        Largest difference of two elements; the number of unequal elements for integers and bools;
        infinite where type, shape, infinities or NaN differ.
    largest
        Largest magnitude in onnxruntime's.
    noise
        Largest difference that roundings cause: of onnxruntime with and without its optimisations,
        with inputs changed in their last place, and one rounding of the largest element. For
        integers and bools, the elements that change.
    reason
        What differs besides values; empty otherwise.
    """

    name: str
    difference: float
    largest: float
    noise: float
    reason: str = ""

    @property
    def agrees(self) -> bool:
        """Whether roundings explain the difference."""
        return self.difference <= _MOST_NOISES * self.noise


def compare_with_peer(
    path: Path, inputs: Arrays, outputs: Arrays, precision: str = "float"
) -> tuple[OutputCheck, ...]:
    """Return every output that the model declares beside onnxruntime's, for the same inputs.

    Parameters
    ----------
    path
        The ONNX file.
    inputs, outputs
        Of the run, by name.
    precision
        Of the run: ``half`` expects roundings of half.

    Raises
    ------
    BadOption
        When onnxruntime is not installed.
    RunFailed
        When onnxruntime does not run the model.
    """
    epsilon = _EPSILON[precision]
    if precision == "half":  # the file's model computes in float
        inputs, outputs = _widened(inputs), _widened(outputs)
    exact = _evaluated(path, inputs, is_optimised=True)
    perturbed_runs = [
        _evaluated(path, inputs, is_optimised=False),
        _evaluated(path, _perturbed(inputs, epsilon), is_optimised=True),
    ]
    return tuple(
        _checked(
            name, outputs[name], array, [perturbed[name] for perturbed in perturbed_runs], epsilon
        )
        for name, array in exact.items()
        if name in outputs
    )


def with_settings(path: Path, inputs: Arrays, values: Mapping[str, ArrayLike]) -> Arrays:
    """Return the inputs of a run with the values that were fixed at compile time, in their types.

    Parameters
    ----------
    path
        The ONNX file.
    inputs
        Of the run, by name.
    values
        Contents of inputs that are fixed at compile time, by name.
    """
    if not values:
        return inputs
    graph = onnx.load(path, load_external_data=False).graph
    types = {info.name: info.type.tensor_type for info in graph.input}
    fixed = {}
    for name, value in values.items():
        dtype = onnx.helper.tensor_dtype_to_np_dtype(types[name].elem_type)
        array = np.asarray(value, dtype)
        fixed[name] = array.reshape(()) if not types[name].shape.dim else array
    return {**inputs, **fixed}


def _widened(arrays: Arrays) -> Arrays:
    """Return arrays with halves as floats."""
    return {
        name: array.astype(np.float32) if array.dtype == np.float16 else array
        for name, array in arrays.items()
    }


def _evaluated(path: Path, inputs: Arrays, *, is_optimised: bool) -> dict[str, NDArray[Any]]:
    """Return onnxruntime's outputs."""
    try:
        import onnxruntime
    except ImportError:
        raise BadOption(
            "--verify requires onnxruntime, which is not installed; run: pip install onnxruntime"
        ) from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = (
        levels.ORT_ENABLE_ALL if is_optimised else levels.ORT_DISABLE_ALL
    )
    try:
        session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
        input_names = {model_input.name for model_input in session.get_inputs()}
        results = session.run(None, {name: a for name, a in inputs.items() if name in input_names})
    except Exception as error:  # its errors have no common base
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise RunFailed(f"onnxruntime does not run {path}: {reason[:200]}") from None
    names = [model_input.name for model_input in session.get_outputs()]
    return dict(zip(names, map(np.asarray, results), strict=True))


def _perturbed(inputs: Arrays, epsilon: float) -> dict[str, NDArray[Any]]:
    """Return inputs whose floats are changed in their last place, every other one upwards."""
    perturbed = {}
    for name, array in inputs.items():
        signs = np.where(np.arange(array.size).reshape(array.shape) % 2, 1.0, -1.0)
        is_float = array.dtype.kind == "f"
        perturbed[name] = (array * (1 + signs * epsilon)).astype(array.dtype) if is_float else array
    return perturbed


def _checked(
    name: str,
    ours: NDArray[Any],
    exact: NDArray[Any],
    perturbed_outputs: list[NDArray[Any]],
    epsilon: float,
) -> OutputCheck:
    """Return an output beside onnxruntime's."""
    if (ours.shape, ours.dtype) != (exact.shape, exact.dtype):
        reason = f"{ours.dtype} {ours.shape} beside {exact.dtype} {exact.shape}"
        return OutputCheck(name, float("inf"), 0.0, 0.0, reason)
    noise = max((_distance(perturbed, exact) for perturbed in perturbed_outputs), default=0.0)
    largest = 0.0
    if exact.dtype.kind == "f":
        finite = np.abs(exact[np.isfinite(exact)].astype(np.float64))
        largest = float(finite.max(initial=0))
        noise = max(noise if np.isfinite(noise) else 0.0, largest * epsilon, epsilon)
    distance = _distance(ours, exact)
    reason = "" if np.isfinite(distance) else "infinities or NaN in other places"
    return OutputCheck(name, distance, largest, noise, reason)


def _distance(first: NDArray[Any], second: NDArray[Any]) -> float:
    """Return the largest difference of floats, or how many elements of another type differ.

    Infinite where shapes, infinities or NaN differ.
    """
    if first.shape != second.shape:
        return float("inf")
    if first.dtype.kind != "f":
        return float(np.count_nonzero(first != second))
    wide, exact = first.astype(np.float64), second.astype(np.float64)
    is_number = np.isfinite(exact)
    if not np.array_equal(wide[~is_number], exact[~is_number], equal_nan=True):
        return float("inf")
    return float(np.abs(wide[is_number] - exact[is_number]).max(initial=0))
