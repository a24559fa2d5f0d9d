"""Operators of PopART that sample images."""

from __future__ import annotations

from dataclasses import replace

from tilescope.engine.ir import Expansion, Node, Value
from tilescope.engine.operators.graphcore.domain import decomposed
from tilescope.engine.operators.sampling.resize import resized

__all__ = ["RECORDS"]

#: Version of ONNX's operator with the attributes and operands of PopART's.
_VERSION = 11


def _resize(node: Node, expansion: Expansion) -> Value:
    return resized(replace(node, version=_VERSION), expansion)


RECORDS = (decomposed("Resize", _resize, known_operands=(1, 2, 3)),)
