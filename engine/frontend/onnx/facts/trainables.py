"""Which initializers of a model training updates, and a model's file with trained ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper

from tilescope.engine.errors import BadInput, RunFailed
from tilescope.engine.operators.table import OPERATORS

__all__ = ["trainable_names", "weight_names", "write_trained"]

_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)

#: Operands of a batch normalisation that are running statistics.
_STATISTICS = (3, 4)


def trainable_names(
    graph: onnx.GraphProto, patterns: Collection[str], frozen: Collection[str] = ()
) -> frozenset[str]:
    """Return the names of the initializers that patterns choose.

    Patterns choose floating-point tensors of a dimension or more, without running statistics and
    what decides shapes; a name in full chooses any initializer.

    Parameters
    ----------
    graph
        Of an ONNX file.
    patterns
        As of a shell: ``*`` chooses all.
    frozen
        Those that are left out all the same.

    Raises
    ------
    BadInput
        When a pattern chooses nothing.
    """
    if not patterns:
        return frozenset()
    names = [t.name for t in graph.initializer]
    ranks = {t.name: len(t.dims) for t in graph.initializer}
    floats = [name for name in weight_names(graph) if ranks[name]]
    chosen: set[str] = set()
    for pattern in patterns:
        chosen |= _matches(pattern, names, floats)
    for pattern in frozen:
        chosen -= _matches(pattern, names, floats)
    return frozenset(chosen)


def weight_names(graph: onnx.GraphProto) -> list[str]:
    """Return the names of floating-point initializers, without running statistics.

    What decides shapes is left out as well; those without a dimension are not.

    Parameters
    ----------
    graph
        Of an ONNX file.
    """
    fixed = _fixed(graph)
    return [t.name for t in graph.initializer if t.data_type in _FLOATS and t.name not in fixed]


def _matches(pattern: str, names: Sequence[str], floats: Sequence[str]) -> set[str]:
    """Return the names that a pattern chooses.

    Raises
    ------
    BadInput
        When there is none.
    """
    found = {name for name in names if name == pattern}
    found |= {name for name in floats if fnmatchcase(name, pattern)}
    if not found:
        shown = ", ".join(floats[:_MOST_NAMES]) + ", …" * (len(floats) > _MOST_NAMES)
        raise BadInput(
            f"Unknown parameter {pattern!r}: the model has no such initializer; it has"
            f" {shown or 'no weights'}"
        )
    return found


#: Names of weights that a sentence lists.
_MOST_NAMES = 8


def _fixed(graph: onnx.GraphProto) -> set[str]:
    """Return the names of what nodes need at compile time, and of running statistics."""
    fixed: set[str] = set()
    for node in graph.node:
        key = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        operator = OPERATORS.get(key)
        positions = operator.known_operands if operator is not None else ()
        if node.op_type == "BatchNormalization":
            positions = _STATISTICS
        fixed.update(node.input[i] for i in positions if i < len(node.input))
    return fixed


def write_trained(path: Path, trained: Mapping[str, NDArray[Any]], out: Path) -> None:
    """Write a model's file again with other values of some initializers.

    Parameters
    ----------
    path
        The model.
    trained
        Values by name, of the shapes of the initializers.
    out
        The file to write, with all weights inside; one that exists is replaced whole.

    Raises
    ------
    RunFailed
        When it cannot be written.
    """
    proto = onnx.load(path)
    for tensor in proto.graph.initializer:
        if tensor.name in trained:
            dtype = numpy_helper.to_array(tensor).dtype if not tensor.external_data else np.float32
            array = np.asarray(trained[tensor.name]).astype(dtype)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    partial = out.with_name(f".{out.name}.part")
    try:
        partial.write_bytes(proto.SerializeToString())
        partial.replace(out)
    except (OSError, ValueError) as error:
        partial.unlink(missing_ok=True)
        reason = error.strerror if isinstance(error, OSError) else "it exceeds 2 GB"
        raise RunFailed(f"Cannot write {out}: {reason}") from None
