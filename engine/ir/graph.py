"""Values, operations and the model they make; shapes are static."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

__all__ = ["Model", "Operation", "Value"]


@dataclass(frozen=True, eq=False)
class Value:
    """What flows between operations.

    Parameters
    ----------
    dtype
        numpy name of its type, as the model states it.
    constant : ndarray or None
        Its content where that is known at compile time.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    constant: NDArray[Any] | None = None


@dataclass(frozen=True, eq=False)
class Operation:
    """One operation of `tilescope.engine.ir.OPERATORS`.

    Parameters
    ----------
    kind
        Name in the catalogue of operators.
    name
        Debug name: that of the model's own node.
    source
        Type of the model's own node, such as ``Conv``.
    """

    kind: str
    name: str
    source: str
    inputs: tuple[Value, ...]
    output: Value
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Model:
    """Operations in an order in which they can run."""

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[tuple[str, Value], ...]
    operations: tuple[Operation, ...]
    #: Names of inputs whose first dimension has no size in the model and was taken as 1.
    assumed_ones: tuple[str, ...] = ()
