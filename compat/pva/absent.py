"""How this module says that a report does not hold something that libpva would give."""

from __future__ import annotations

from typing import ClassVar, NoReturn

__all__ = ["NotHeld", "WithAbsent"]


class NotHeld(AttributeError):
    """libpva has this attribute, TileScope's reports do not hold what it needs yet.

    It is an ``AttributeError``, so ``hasattr`` and ``getattr`` with a default work as for an
    older libpva.
    """


class WithAbsent:
    """A class without some of its libpva attributes."""

    #: Attribute to what a report would have to hold.
    _absent: ClassVar[dict[str, str]] = {}

    def __getattr__(self, name: str) -> NoReturn:
        what = type(self)._absent.get(name)
        owner = type(self).__name__
        if what is None:
            raise AttributeError(f"{owner!r} object has no attribute {name!r}")
        raise NotHeld(
            f"{owner}.{name} is not supported yet: this version's reports do not hold {what}"
        )
