"""Losses, optimisers and schedules as the command line states them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

__all__ = ["as_options", "stated"]


def as_options(values: Mapping[str, Any]) -> str:
    """Return ``NAME=VALUE,…``."""
    return ",".join(f"{name}={_plain(value)}" for name, value in values.items())


def stated(kind: str, record: Any, left_out: Iterable[str] = ()) -> str:
    """Return ``KIND:NAME=VALUE,…``, with the fields of a record that are not as by default.

    Parameters
    ----------
    kind
        What comes first.
    record
        An instance of a data class.
    left_out
        Names of fields that are not stated.
    """
    hidden = {"kind", *left_out}
    values = {
        field.name: getattr(record, field.name)
        for field in fields(record)
        if field.name not in hidden and getattr(record, field.name) != _default(field)
    }
    return f"{kind}:{as_options(values)}" if values else kind


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value)
