"""The base of classes of options: attributes with types, and no others."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from difflib import get_close_matches
from enum import Enum
from typing import Any

from popart.arguments import (
    BOOL,
    FLOAT,
    INT,
    TEXT,
    Kind,
    Mismatch,
    instance,
    list_of,
    mapping,
    optional,
    set_of,
)

__all__ = ["Settings", "fields_of"]

_SCALARS: dict[Any, Kind] = {bool: BOOL, int: INT, float: FLOAT, str: TEXT}
#: The attributes of classes that were asked for.
_FIELDS: dict[type, dict[str, Kind]] = {}
_CONTAINERS = {list: list_of, set: set_of, dict: mapping}


def _kind_of(hint: Any) -> Kind:
    """Return the kind of values that an annotation allows."""
    if hint in _SCALARS:
        return _SCALARS[hint]
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        (kept,) = (part for part in parts if part is not type(None))
        return optional(_kind_of(kept))
    if origin in _CONTAINERS:
        return _CONTAINERS[origin](*map(_kind_of, parts))  # type: ignore[no-any-return, operator]
    return instance(hint)


def fields_of(cls: type) -> dict[str, Kind]:
    """Return the attributes of a class of options with their kinds, in the order they stand."""
    if cls not in _FIELDS:
        hints = typing.get_type_hints(cls)
        _FIELDS[cls] = {name: _kind_of(hint) for name, hint in hints.items()}
    return _FIELDS[cls]


class Settings:  # noqa: PLW1641 - options can be changed
    """Options whose annotated attributes, and no others, can be read and set.

    A value of another type raises ``TypeError``; an unknown attribute raises ``AttributeError``
    with the names that come close.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        fields = fields_of(type(self))
        if name not in fields:
            if isinstance(getattr(type(self), name, None), property):
                object.__setattr__(self, name, value)
                return
            raise AttributeError(self._unknown(name))
        try:
            converted = fields[name].convert(value)
        except Mismatch as error:
            raise TypeError(
                f"{type(self).__name__}.{name}: incompatible value {value!r}, expected"
                f" {fields[name].label}"
            ) from error
        object.__setattr__(self, name, converted)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(self._unknown(name))

    def _unknown(self, name: str) -> str:
        names = [*fields_of(type(self)), *_properties_of(type(self))]
        close = get_close_matches(name, names, 3)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        return f"'{type(self).__name__}' has no attribute '{name}'{hint}"

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in fields_of(type(self)))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={_shown(value)}" for name, value in self._values())
        return f"{type(self).__name__}({fields})"

    def _values(self) -> Iterator[tuple[str, Any]]:
        return ((name, getattr(self, name)) for name in fields_of(type(self)))


def _properties_of(cls: type) -> list[str]:
    return [name for name, value in vars(cls).items() if isinstance(value, property)]


def _shown(value: Any) -> str:
    return str(value) if isinstance(value, Enum) else repr(value)
