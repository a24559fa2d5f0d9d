"""One random graph on the machine and in onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from tests.onnx_fuzz.draw import drawn_inputs, drawn_model
from tests.onnx_fuzz.operators import OPERATORS

from tilescope.engine import Engine, compile_model, load_machine, load_onnx, resolve_options
from tilescope.engine.errors import EngineError

__all__ = ["Outcome", "compared", "difference", "model_of_seed", "ours"]

#: Relative to the largest element of an output.
_TOLERANCE = 2e-4


class Outcome(StrEnum):
    """How a graph ends."""

    SAME = "same"
    #: onnxruntime takes no such model, or its results are not finite.
    NO_PEER = "no peer"
    REFUSED = "refused"
    WRONG = "wrong"
    FAILED = "failed"


def model_of_seed(seed: int) -> onnx.ModelProto:
    """Return the graph of a seed."""
    return drawn_model(seed, OPERATORS)


def compared(seed: int, path: Path) -> tuple[Outcome, str]:
    """Return how the graph of a seed ends, and why; it is saved at `path`."""
    model = model_of_seed(seed)
    if not model.graph.node:
        return Outcome.NO_PEER, "no nodes"
    onnx.save(model, path)
    inputs = drawn_inputs(model, seed)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, ["CPUExecutionProvider"]
        )
        actual = session.run(None, inputs)
    except Exception as error:  # its errors have no common base
        return Outcome.NO_PEER, str(error).splitlines()[0]
    names = [output.name for output in session.get_outputs()]
    expected = dict(zip(names, map(np.asarray, actual), strict=True))
    if not all(np.isfinite(array).all() for array in expected.values()):
        return Outcome.NO_PEER, "results are not finite"
    try:
        found_here = ours(path, inputs)
    except EngineError as error:
        return Outcome.REFUSED, " ".join(str(error).split())
    except Exception as error:
        return Outcome.FAILED, f"{type(error).__name__}: {error}"
    for name, array in expected.items():
        why = difference(found_here[name], array)
        if why:
            return Outcome.WRONG, f"{name}: {why}"
    return Outcome.SAME, ""


def ours(path: Path, inputs: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
    """Return the outputs on four tiles."""
    compiled = compile_model(load_onnx(path), load_machine("gc200", tiles_per_ipu=4))
    used = {value.name for value in compiled.model.inputs}
    with Engine(compiled.executable, resolve_options(environ={})) as engine:
        return compiled.run(engine, {k: v for k, v in inputs.items() if k in used})


def difference(found: NDArray[Any], expected: NDArray[Any]) -> str:
    """Return how two arrays differ; empty if they are the same but for roundings."""
    if (found.shape, found.dtype) != (expected.shape, expected.dtype):
        return f"{found.dtype} {found.shape} for {expected.dtype} {expected.shape}"
    wide, narrow = expected.astype(np.float64), found.astype(np.float64)
    is_finite = np.isfinite(wide)
    if not np.array_equal(wide[~is_finite], narrow[~is_finite], equal_nan=True):
        return "other infinities or NaN"
    error = np.abs(narrow - wide)[is_finite]
    largest = float(np.abs(wide[is_finite]).max(initial=0))
    limit = _TOLERANCE * max(1.0, largest)
    if expected.dtype.kind in "iub":
        limit = 0.0
    if not (error <= limit).all():
        return f"off by {error.max():.3g} of {largest:.3g}"
    return ""
