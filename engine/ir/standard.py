"""What defines the operators that are not the engine's own: a standard, such as ONNX's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from tilescope.engine.errors import BadModel
from tilescope.engine.ir.operation import Node, Operator, ResultType

__all__ = ["Standard", "attributes_of", "standard", "use_standard", "version_of"]


class Standard(Protocol):
    """What a standard says of its operators; the operators' room has one (`use_standard`)."""

    def version(self, op_type: str, domain: str, opset: int | None) -> int:
        """Return the version of an operator's definition in an opset; None is the newest."""

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


def version_of(operator: Operator, opset: int | None = None) -> int:
    """Return the version of an operator in a version of its domain; None is the newest.

    Raises
    ------
    BadModel
        When a user's operator has none there.
    """
    if operator.is_primitive:
        return 1
    if operator.definition is not None:
        return operator.definition.version(opset)
    return standard().version(operator.name, operator.domain, opset)


def attributes_of(
    operator: Operator, version: int, where: str, stated: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the attributes of a node with the defaults of those that are left out.

    Parameters
    ----------
    operator, version
        Of the node.
    where
        The node, for messages.
    stated
        Those that it states.

    Raises
    ------
    BadModel
        When a user's operator has other attributes.
    """
    if operator.is_primitive:
        return dict(stated)
    if operator.definition is not None:
        return operator.definition.attributes_of(where, stated)
    return standard().with_defaults(operator.name, operator.domain, version, stated)
