"""One node by attribute on the machine, in onnxruntime and in ONNX's reference evaluator."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import helper
from onnx.reference import ReferenceEvaluator
from tests.onnx_fuzz import compare
from tests.onnx_fuzz.attributes import Case, drawn_case, model_of_case
from tests.onnx_fuzz.compare import Outcome

from tilescope.engine.errors import EngineError

__all__ = ["REFUSALS", "compared_case", "is_reference_wrong"]

#: What is refused in one sentence, and why that is right.
REFUSALS = (
    # No window fits: ONNX's implementations answer with a tensor without elements.
    r"A window of \d+ does not fit a dimension of \d+",
    r"an axis of \d+ gives an output of (0|-\d+) elements",
    r"elements removed from dimension \d+ .* at least one must be left",
    # The default axis of old opsets is beyond a row.
    r"axis 1 is out of range for rank 1",
    # Training, which version 14 states and earlier ones hide in the number of outputs.
    r"has 5 outputs, which means training before opset 14",
    # Of padding alone, onnxruntime takes the least number and the reference none.
    r"taps of a window, \d+ apart, lie in padding",
    r"mode '(reflect|wrap)' adds at most \d+",
    r"auto_pad SAME_(UPPER|LOWER) asks for an output of \d+ elements where the windows reach",
)


Arrays = Mapping[str, NDArray[Any]]


def compared_case(name: str, seed: int, path: Path) -> tuple[Outcome, str]:
    """Return how the case of a drawer and a seed ends, and why; its model is saved at `path`.

    It is right if it agrees with onnxruntime or with the reference, which differ where one of them
    departs from the specification, or if it is refused for one of `REFUSALS`. A model that both
    refuse has no peer.
    """
    case = drawn_case(name, seed)
    model = model_of_case(case)
    inputs = {
        info.name: operand.array
        for info, operand in zip(
            model.graph.input, (o for o in case.operands if o and not o.is_constant), strict=True
        )
    }
    # onnxruntime divides by the size of empty operands, which ends the process.
    is_empty = any(o is not None and not o.array.size for o in case.operands)
    runs = [
        None if is_empty else _runtime(model, inputs),
        None if is_reference_wrong(case) else _reference(model, inputs),
    ]
    peers = [run for run in runs if run is not None and _fits(model, run)]
    if not peers:
        return Outcome.NO_PEER, case.text
    for info in model.graph.output:  # ONNX infers no type of some
        if not info.type.tensor_type.elem_type:
            kind = helper.np_dtype_to_tensor_dtype(peers[0][info.name].dtype)
            info.CopyFrom(helper.make_tensor_value_info(info.name, kind, None))
    onnx.save(model, path)
    try:
        ours = compare.ours(path, inputs)
    except EngineError as error:
        sentence = " ".join(str(error).split())
        if any(re.search(pattern, sentence) for pattern in REFUSALS):
            return Outcome.NO_PEER, f"{sentence} | {case.text}"
        return Outcome.REFUSED, f"{sentence} | {case.text}"
    except Exception as error:
        return Outcome.FAILED, f"{type(error).__name__}: {error} | {case.text}"
    whys = [_different(ours, peer) for peer in peers]
    if "" in whys:
        return Outcome.SAME, case.text
    return Outcome.WRONG, f"{'; '.join(whys)} | {case.text}"


def is_reference_wrong(case: Case) -> bool:
    """Return whether the reference of onnx 1.23 departs from what ONNX says of an operator.

    LRN loops over as many channels as there are images; ConvTranspose pads nothing where
    ``output_shape`` stands without a mode; Slice clamps a backward start as Python does.
    """
    if case.op_type == "ConvTranspose":
        return "output_shape" in case.attributes
    return case.op_type in {"LRN", "Slice"}


def _runtime(model: onnx.ModelProto, inputs: Arrays) -> Arrays | None:
    """Return the outputs of onnxruntime; None if it takes no such model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, ["CPUExecutionProvider"]
        )
        actual = session.run(None, dict(inputs))
    except Exception:  # its errors have no common base
        return None
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, map(np.asarray, actual), strict=True))


def _reference(model: onnx.ModelProto, inputs: Arrays) -> Arrays | None:
    """Return the outputs of the reference; None if it takes no such model."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            actual = ReferenceEvaluator(model).run(None, dict(inputs))
    except Exception:  # its errors have no common base
        return None
    if any(array is None for array in actual):
        return None
    return dict(zip([o.name for o in model.graph.output], map(np.asarray, actual), strict=True))


def _fits(model: onnx.ModelProto, found: Arrays) -> bool:
    """Return whether outputs have the types and shapes that ONNX infers."""
    for info in model.graph.output:
        kind = info.type.tensor_type
        array = found[info.name]
        if kind.elem_type and helper.np_dtype_to_tensor_dtype(array.dtype) != kind.elem_type:
            return False
        if not kind.HasField("shape"):
            continue
        stated = [d.dim_value if d.HasField("dim_value") else None for d in kind.shape.dim]
        shape = array.shape
        if len(stated) != len(shape) or any(
            s not in (None, n) for s, n in zip(stated, shape, strict=True)
        ):
            return False
    return True


def _different(ours: Arrays, peer: Arrays) -> str:
    """Return how outputs differ from a peer's; empty if they are the same but for roundings."""
    for name, array in peer.items():
        why = compare.difference(ours[name], array)
        if why:
            return f"{name}: {why}"
    return ""
