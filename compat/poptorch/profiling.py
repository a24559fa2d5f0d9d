"""Tracepoints of programs, and of models and data loaders, in the trace of their host."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from tilescope.tracepoints import (
    Tracepoint,
    create_channel,
    instrument,
    is_recording,
    traced_items,
)

__all__ = ["Channel"]

_Item = TypeVar("_Item")


class Channel:
    """A channel of tracepoints, which are recorded if ``PVTI_OPTIONS`` is set.

    Parameters
    ----------
    name
        Of the channel; labels begin with it.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._channel = create_channel(name)

    def instrument(self, obj: Any, *methods: str) -> Any:
        """Record the calls of some methods of an object, and return the object.

        Parameters
        ----------
        obj
            The object.
        *methods
            Names of its methods.

        Raises
        ------
        AttributeError
            When it has no method of that name.
        """
        if is_recording():
            instrument(obj, methods, self._channel)
        return obj

    def tracepoint(self, name: str) -> Tracepoint:
        """Return a context for a part of a program.

        Parameters
        ----------
        name
            What it does.
        """
        return Tracepoint(self._channel, f"{self._name}.{name}")

    def _items(self, name: str, items: Iterable[_Item]) -> Iterator[_Item]:
        """Return an iterator that records the time that every item takes to come."""
        return traced_items(self._channel, f"{self._name}.{name}", items)
