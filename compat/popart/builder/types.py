"""What inference asks of a graph, and shapes of types."""

from __future__ import annotations

from typing import Protocol

import onnx

__all__ = ["Types", "shape_of_type"]


class Types(Protocol):
    """What inference asks of a graph."""

    def type_of(self, name: str) -> onnx.TypeProto | None:
        """Return the type of a tensor; None if it is not known."""

    def content_of(self, name: str) -> onnx.TensorProto | None:
        """Return the content of a tensor; None if it is not constant."""

    def has_tensor(self, name: str) -> bool:
        """Whether there is a tensor of this name."""


def shape_of_type(of: onnx.TypeProto | None) -> list[int] | None:
    """Return the shape that a type states; None if a dimension is open or there is no shape."""
    if of is None or not of.tensor_type.HasField("shape"):
        return None
    dimensions = of.tensor_type.shape.dim
    if any(not dimension.HasField("dim_value") for dimension in dimensions):
        return None
    return [dimension.dim_value for dimension in dimensions]
