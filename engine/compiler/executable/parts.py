"""Where the parts of a stored program are: its objects, its launches, its report."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol, TypeVar

from numpy.typing import NDArray

from tilescope.engine.compiler.executable.container import Container

__all__ = ["Parts"]

T = TypeVar("T")


class Parts(Protocol):
    """Files that belong to one program, which any process with the same engine may use."""

    def take(self, kind: str, about: object, build: Callable[[Container], T]) -> T | None:
        """Return what is built of a part; None if there is none that can be used.

        Parameters
        ----------
        kind
            What it is, in one word.
        about
            What else decides its content: records and plain values.
        build
            Builds the result; raises `NotAnEntry` if it fails.
        """

    def keep(
        self,
        kind: str,
        about: object,
        facts: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        plain: Collection[str] = (),
    ) -> None:
        """Store a part; a folder that cannot be written to is only warned of.

        Parameters
        ----------
        kind, about
            As for `take`.
        facts, arrays, plain
            As `tilescope.engine.compiler.executable.container.encode` takes them.
        """
