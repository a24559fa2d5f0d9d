"""Records of which a part is read when it is first asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

__all__ = ["Deferred"]

_LATER = "_later"
#: One for all records: a part is read once, and what it is read from serves many of them.
_turn = threading.RLock()


class Deferred:
    """Base class of records that a stored program holds in two parts.

    What a run needs is there at once; the attributes in `deferred` are read from the program's file
    when one of them is first asked for. A record that was not stored has all of them.
    """

    #: Names of the attributes that are read later; none of them has a default.
    deferred: ClassVar[tuple[str, ...]] = ()

    @property
    def is_worth_deferring(self) -> bool:
        """Whether the later part is larger than what it takes to find it."""
        return True

    def come_later(self, read: Callable[[], Mapping[str, Any]]) -> None:
        """Take the attributes in `deferred` from a function, when one is asked for."""
        self.__dict__[_LATER] = read

    def __getattr__(self, name: str) -> Any:
        # Only called for attributes that are missing.
        with _turn:
            read = self.__dict__.get(_LATER)
            if read is not None and name in self.deferred:
                self.__dict__.update(read())
                del self.__dict__[_LATER]
            if name in self.__dict__:  # now, or by another thread meanwhile
                return self.__dict__[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
