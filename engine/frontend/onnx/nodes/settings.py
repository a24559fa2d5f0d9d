"""Inputs whose content is fixed at compile time, because shapes or plans depend on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
import onnx
from numpy.typing import ArrayLike

from tilescope.engine.errors import BadInput
from tilescope.engine.frontend.onnx.nodes.deciding import deciding_names
from tilescope.engine.frontend.onnx.nodes.graph import GraphImport
from tilescope.engine.frontend.onnx.source.read import expanded
from tilescope.engine.frontend.onnx.source.tensor_types import element_type, stated_shape

__all__ = ["add_settings", "inputs_to_set"]


def inputs_to_set(model: onnx.ModelProto) -> list[str]:
    """Return the names of inputs that shapes or plans depend on, in the model's order.

    A setting for each must be given to `load_onnx`; the other inputs are read at run time.
    """
    model = expanded(model)
    needed = deciding_names(model.graph)
    initialized = {tensor.name for tensor in model.graph.initializer}
    return [i.name for i in model.graph.input if i.name in needed - initialized]


def add_settings(
    imported: GraphImport, inputs: Sequence[onnx.ValueInfoProto], values: Mapping[str, ArrayLike]
) -> None:
    """Take in the contents of inputs that are fixed.

    Raises
    ------
    BadInput
        When the model has no such input, or a content does not have its type and shape.
    """
    infos = {info.name: info for info in inputs}
    for name, content in values.items():
        if name not in infos:
            raise BadInput(f"Unknown input {name!r}; the model has {', '.join(infos)}")
        dtype = element_type(infos[name].type.tensor_type.elem_type, f"Input {name!r}")
        array = np.asarray(content)
        if not np.can_cast(array.dtype, dtype, "same_kind"):
            raise BadInput(f"Input {name!r} takes {dtype}, not {array.dtype}")
        stated = stated_shape(infos[name])
        known_sizes = [size for size in stated if size is not None]
        if (
            array.ndim == 1
            and len(known_sizes) == len(stated) != 1
            and prod(known_sizes) == array.size
        ):
            array = array.reshape(known_sizes)  # as a command line has it
        agrees = len(stated) == array.ndim and all(
            size is None or size == size_ for size, size_ in zip(stated, array.shape, strict=True)
        )
        if not agrees:
            raise BadInput(
                f"Input {name!r} takes an array of shape"
                f" ({', '.join('?' if s is None else str(s) for s in stated)}), not {array.shape}"
            )
        imported.values[name] = imported.builder.constant(array.astype(dtype), name)
