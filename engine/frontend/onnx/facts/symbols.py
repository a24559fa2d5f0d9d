"""Sizes of symbolic dimensions, each set once for all inputs that have it."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from tilescope.engine.errors import BadInput

__all__ = ["set_symbols", "symbols_of"]


def symbols_of(graph: onnx.GraphProto) -> tuple[str, ...]:
    """Return the names of the symbolic dimensions of a graph's inputs, in their order."""
    weights = {tensor.name for tensor in graph.initializer}
    names = (
        dim.dim_param
        for info in graph.input
        if info.name not in weights
        for dim in info.type.tensor_type.shape.dim
        if dim.HasField("dim_param") and dim.dim_param
    )
    return tuple(dict.fromkeys(names))


def set_symbols(graph: onnx.GraphProto, sizes: Mapping[str, int]) -> None:
    """Set symbolic dimensions of a graph's inputs, outputs and values, in place.

    Parameters
    ----------
    graph
        A model's graph.
    sizes
        By the name of the dimension; 0 is a size.

    Raises
    ------
    BadInput
        When no input has a dimension of that name, or a size is negative.
    """
    if not sizes:
        return
    known = symbols_of(graph)
    for name, size in sizes.items():
        if name not in known:
            listed = f"has {', '.join(map(repr, known))}" if known else "has none"
            raise BadInput(f"Unknown symbolic dimension {name!r}; the model {listed}")
        if size < 0:
            raise BadInput(f"Expected a size of at least 0 for dimension {name!r}, got {size}")
    for info in (*graph.input, *graph.output, *graph.value_info):
        for dim in info.type.tensor_type.shape.dim:
            if dim.HasField("dim_param") and dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]
