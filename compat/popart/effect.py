"""What a session does with an option or setting, and warnings for those without effect."""

from __future__ import annotations

import warnings
from enum import Enum

from popart.errors import NoEffectWarning

__all__ = ["Effect", "warn_once"]


class Effect(Enum):
    """What a session does with an option that differs from its default."""

    ACTS = "acts"
    REFUSED = "refused"
    NONE = "no effect"


_warned: set[str] = set()


def warn_once(name: str, reason: str) -> None:
    """Warn that something has no effect, once in a process by its name.

    Parameters
    ----------
    name
        As a program writes it.
    reason
        Why it does nothing.
    """
    if name not in _warned:
        _warned.add(name)
        warnings.warn(f"{name} has no effect: {reason}", NoEffectWarning, stacklevel=4)
