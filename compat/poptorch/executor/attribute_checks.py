"""Warnings of attributes of optimizers that nothing reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from poptorch._logging import logger

__all__ = ["AttributeChecks"]


class AttributeChecks:
    """Knows the attributes of a model's first optimizer, and warns of others.

    Parameters
    ----------
    is_relaxed
        Whether others are a matter of debugging only.
    """

    def __init__(self, *, is_relaxed: bool) -> None:
        self._log: Callable[[str], None] = logger.debug if is_relaxed else logger.warning
        self._known: dict[str, set[str]] = {}
        self._messages: set[str] = set()

    def check(self, kind: str, subject: str, what: str, names: Iterable[str]) -> None:
        """Take in the attributes of the first optimizer; warn of others of later ones.

        Parameters
        ----------
        kind
            Of the optimizer, such as ``SGD2``.
        subject
            What has the attributes: ``group`` or ``optimizer``.
        what
            It in a message, such as ``group 0 attribute``.
        names
            The attributes.
        """
        if self._is_open:
            self._known.setdefault(subject, set()).update(names)
            return
        extra = [name for name in names if name not in self._known.get(subject, set())]
        message = f"Ignoring unexpected {what} in {kind} optimizer: {extra}"
        if extra and message not in self._messages:
            self._messages.add(message)
            self._log(message)

    _is_open = True

    def close(self) -> None:
        """Take in no more."""
        self._is_open = False
