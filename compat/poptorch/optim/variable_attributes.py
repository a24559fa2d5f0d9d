"""Which numbers of an optimizer the host may change between runs."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["VariableAttributes"]


class VariableAttributes:
    """The numbers that are variable; all others are constants of the program.

    Parameters
    ----------
    variable_attributes
        Names of those that are.
    allowed_attributes
        Names of all.
    """

    def __init__(
        self, variable_attributes: Iterable[str], allowed_attributes: Iterable[str]
    ) -> None:
        self._variable_attributes = [*variable_attributes]
        self._allowed_attributes = [*allowed_attributes]

    def isConstant(self, attr: str) -> bool:
        """Whether a number is a constant of the program."""
        return attr not in self._variable_attributes

    def markAsConstant(self, attr: str) -> None:
        """Make a number a constant of the program.

        Raises
        ------
        AssertionError
            When the number is unknown.
        """
        self._check(attr)
        self._variable_attributes = [name for name in self._variable_attributes if name != attr]

    def markAsVariable(self, attr: str) -> None:
        """Let the host change a number.

        Raises
        ------
        AssertionError
            When the number is unknown.
        """
        self._check(attr)
        if self.isConstant(attr):
            self._variable_attributes.append(attr)

    def _check(self, attr: str) -> None:
        allowed = self._allowed_attributes
        assert attr in allowed, f"Unknown attribute {attr}, allowed values: {allowed}"
