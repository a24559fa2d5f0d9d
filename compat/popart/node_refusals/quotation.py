"""Sentences of PopART's that programs compare word for word, where their English is not ours."""

from __future__ import annotations

__all__ = ["UNKNOWN_CONTENT"]

#: Of an operand that decides a shape. Source: graphcore/popart, willow/src/op/slice.cpp.
UNKNOWN_CONTENT = (
    "Need the value of the {identifier} input '{name}' to determine the output shape, but was"
    " unable because [Tensor::getDataViaGraphTraversal] Could not work out tensor data for"
    " {tensor}."
)
