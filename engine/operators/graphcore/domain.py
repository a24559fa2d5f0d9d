"""The domain of PopART's operators, and records of it.

Source: graphcore/popart sdk-release-3.4, willow/include/popart/graphcoreoperators.hpp (names),
willow/src/op (attributes, defaults, shapes), willow/src/popx/op (what is computed).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from tilescope.engine.ir import Expansion, Node, Operator, Value
from tilescope.engine.operators.elementwise.cast import CAST

__all__ = ["GRAPHCORE", "as_onnx", "as_type", "decomposed", "signed"]

GRAPHCORE = "ai.graphcore"


def decomposed(
    name: str, decompose: Callable[[Node, Expansion], Value | tuple[Value, ...]], **options: Any
) -> Operator:
    """Return the record of an operator that stands for others; `options` are those of a record."""
    return Operator(name=name, domain=GRAPHCORE, decompose=decompose, **options)


def as_onnx(names: Collection[str], *families: Any) -> list[Operator]:
    """Return records of operators that are those of ONNX with the same names, of some families."""
    records = [record for family in families for record in family.RECORDS]
    return [decomposed(r.name, r.decompose) for r in records if r.name in names and not r.domain]


def as_type(expansion: Expansion, x: Value, dtype: str) -> Value:
    """Emit a cast, unless the value has the type."""
    return x if x.dtype == dtype else expansion.emit(CAST, x, dtype=dtype)


def signed(expansion: Expansion, x: Value) -> Value:
    """Emit integers as int32 where they are unsigned: positions, labels and lengths."""
    return as_type(expansion, x, "int32") if np.dtype(x.dtype).kind == "u" else x
