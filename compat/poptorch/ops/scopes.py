"""Names and attributes of the operations in a ``with``."""

from __future__ import annotations

from typing import Any

from poptorch._logging import warn_once

__all__ = ["Attribute", "NameScope"]


class NameScope:
    """Operations in a ``with`` would have a name in front of theirs; they keep those of modules.

    Parameters
    ----------
    name
        The name.

    Raises
    ------
    AssertionError
        When it is not a string.
    """

    def __init__(self, name: str) -> None:
        assert isinstance(name, str), "Parameter to NameScope must be a string"
        self.name = name

    def __enter__(self) -> None:
        warn_once("poptorch.NameScope", "operations have the names of their modules")

    def __exit__(self, *_: object) -> None:
        """End the scope."""


class Attribute:
    """Operations in a ``with`` would have attributes of PopART's nodes.

    Parameters
    ----------
    **kwargs
        Values by the names of attributes, in a dictionary.
    """

    def __init__(self, **kwargs: dict[str, Any]) -> None:
        self._stated = kwargs

    def __enter__(self) -> None:
        for name in self._stated:
            warn_once(f"poptorch.Attribute({name}=…)", "nodes of the engine have no such attribute")

    def __exit__(self, *_: object) -> None:
        """End the scope."""
