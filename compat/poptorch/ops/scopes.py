"""Names and attributes of the operations in a ``with``."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from poptorch._logging import warn_once
from tilescope.engine.frontend.torch import markers

__all__ = ["Attribute", "NameScope"]


class NameScope:
    """Operations in a ``with`` have a name in front of theirs, in reports too.

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
        self._stack = ExitStack()

    def __enter__(self) -> None:
        self._stack.enter_context(markers.scoped(self.name))

    def __exit__(self, *_: object) -> None:
        """End the scope."""
        self._stack.close()


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
