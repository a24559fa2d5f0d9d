"""A sentence about a model or program that whoever runs it or reads its report should know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Notice"]


@dataclass(frozen=True)
class Notice:
    """A sentence with its kind.

    Parameters
    ----------
    severity
        ``info`` or, where the model is probably not what its author meant, ``warning``.
    code
        Stable name of the kind.
    message
        The sentence.
    """

    severity: Literal["info", "warning"]
    code: str
    message: str
