"""What defines the operators that are not the engine's own: a standard, such as ONNX's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from tilescope.engine.errors import BadModel
from tilescope.engine.ir.operation import Node, ResultType

__all__ = ["Standard", "standard", "use_standard"]


class Standard(Protocol):
    """What a standard says of its operators; the operators' room has one (`use_standard`)."""

    def version(self, op_type: str, domain: str) -> int:
        """Return the version of an operator's newest definition."""

    def with_defaults(
        self, op_type: str, domain: str, version: int, attributes: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return attributes together with the defaults of those left out."""

    def infer(self, node: Node) -> tuple[ResultType, ...]:
        """Return the types of a node's results.

        Raises
        ------
        BadModel
            When the operands break the definition, or a shape depends on data.
        """

    def evaluate(
        self, node: Node, arrays: Sequence[NDArray[Any] | None]
    ) -> tuple[NDArray[Any], ...]:
        """Return a node's results in numpy, from one array per input, None for those left out."""

    def takes_half(self, node: Node, index: int) -> bool:
        """Return whether an operand of a node may be half; where nothing is defined, it may."""

    def half_attributes(self, node: Node) -> Mapping[str, Any]:
        """Return the attributes with half where they name float as the type of a result."""


_standards: list[Standard] = []


def use_standard(standard: Standard) -> None:
    """Set the standard that defines operators."""
    _standards[:] = [standard]


def standard() -> Standard:
    """Return the standard that defines operators.

    Raises
    ------
    BadModel
        When none is set: no operator has been imported.
    """
    if not _standards:
        raise BadModel("No standard defines operators: import tilescope.engine.operators first")
    return _standards[0]
