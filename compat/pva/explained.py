"""Errors of an inconsistent report: every property and method raises one about the report."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any

from pva.lazy import LazyList
from tilescope.reports import Report, damage_behind

if TYPE_CHECKING:
    from tilescope.reports import Report as Opened

__all__ = ["Explained"]

_SPECIAL = ("__init__", "__repr__")


class Explained:
    """Base of what reads a report; its ``_opened`` is the report.

    An unexpected error of a property or method becomes a ``ReportError`` if the report is
    inconsistent. Lists that it returns do the same for their entries.
    """

    _opened: Opened

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, value in list(vars(cls).items()):
            if name.startswith("_") and name not in _SPECIAL:
                continue
            if isinstance(value, property) and value.fget is not None:
                setattr(cls, name, property(_explained(value.fget), doc=value.__doc__))
            elif isinstance(value, cached_property):
                cached: cached_property[Any] = cached_property(_explained(value.func))
                cached.__set_name__(cls, name)
                setattr(cls, name, cached)
            elif callable(value) and not isinstance(value, type | staticmethod | classmethod):
                setattr(cls, name, _explained(value))


def _explained(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that explains unexpected errors by damage of its report."""

    @wraps(function)
    def method(self: Any, *arguments: Any, **options: Any) -> Any:
        try:
            value = function(self, *arguments, **options)
        except Exception as error:
            read = [*vars(self).values(), *arguments]
            damage = damage_behind(error, *(one for one in read if isinstance(one, Report)))
            if damage is not None:
                raise damage from error
            raise
        if isinstance(value, LazyList):
            value.explain_by(self._opened)
        return value

    return method
