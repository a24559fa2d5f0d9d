"""Tracepoints around functions and methods, without a change of their code."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any, TypeVar, cast

from tilescope.tracepoints.recording import Channel, Tracepoint, is_recording

__all__ = ["instrument", "instrument_fn", "traced", "traced_items"]

_Item = TypeVar("_Item")
_Wrapped = TypeVar("_Wrapped", bound=Callable[..., Any])


def instrument(obj: Any, methods: str | Iterable[str], channel: Channel) -> None:
    """Record the calls of some methods of an object.

    Labels are ``module.Class.method``.

    Parameters
    ----------
    obj
        An object, a class or a module.
    methods
        Names of its methods or functions.
    channel
        The channel.

    Raises
    ------
    AttributeError
        When it has no method of that name.
    """
    for name in [methods] if isinstance(methods, str) else methods:
        method = getattr(obj, name, None)
        if not callable(method):
            raise AttributeError(f"Expected the name of a method of {_name(obj)}, got {name!r}.")
        is_static = isinstance(inspect.getattr_static(obj, name), staticmethod | classmethod)
        wrapper = _traced(method, f"{_name(obj)}.{name}", channel)
        is_shared = inspect.isclass(obj) and is_static
        setattr(obj, name, staticmethod(wrapper) if is_shared else wrapper)


def instrument_fn(channel: Channel) -> Callable[[_Wrapped], _Wrapped]:
    """Return a decorator that records the calls of a function, or the construction of a class.

    Parameters
    ----------
    channel
        The channel.
    """

    def decorate(function: _Wrapped) -> _Wrapped:
        label = f"{function.__module__}.{function.__qualname__}"
        if inspect.isclass(function):
            instrument(function, "__init__", channel)
            return function
        return cast("_Wrapped", _traced(function, label, channel))

    return decorate


def traced(channel: Channel, label: str) -> Callable[[_Wrapped], _Wrapped]:
    """Return a decorator that records the calls of a function under a label.

    Parameters
    ----------
    channel
        The channel.
    label
        The label.
    """

    def decorate(function: _Wrapped) -> _Wrapped:
        return cast("_Wrapped", _traced(function, label, channel))

    return decorate


def traced_items(channel: Channel, label: str, items: Iterable[_Item]) -> Iterator[_Item]:
    """Return an iterator over items, which records the time that every item takes to come.

    Parameters
    ----------
    channel
        The channel.
    label
        The label.
    items
        What is iterated over; its own iterator is returned if nothing is recorded.
    """
    return _timed(channel, label, iter(items)) if is_recording() else iter(items)


def _timed(channel: Channel, label: str, iterator: Iterator[_Item]) -> Iterator[_Item]:
    while True:
        with Tracepoint(channel, label):
            try:
                item = next(iterator)
            except StopIteration:
                return
        yield item


def _traced(function: Callable[..., Any], label: str, channel: Channel) -> Any:
    """Return a function that is recorded if its channel is."""

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        if channel.is_on is False:
            return function(*arguments, **options)
        with Tracepoint(channel, label):
            return function(*arguments, **options)

    return call


def _name(obj: Any) -> str:
    """Return the name of a module or class, or that of an object's class."""
    if inspect.ismodule(obj):
        return obj.__name__
    kind = obj if inspect.isclass(obj) else type(obj)
    return f"{kind.__module__}.{kind.__qualname__}"
