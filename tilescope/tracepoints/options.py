"""The options of a trace: what ``PVTI_OPTIONS`` in the environment asks for."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["VARIABLE", "TraceOptions"]

VARIABLE = "PVTI_OPTIONS"
_FALSE = ("false", "0", "no", "off")


@dataclass(frozen=True)
class TraceOptions:
    """What is recorded, and where.

    Parameters
    ----------
    directory
        Folder of the file.
    channels
        Names of the channels that are recorded; empty for all.
    duration_s
        Seconds after which nothing more is recorded; 0 for no limit.
    """

    directory: Path
    channels: frozenset[str] = frozenset()
    duration_s: float = 0.0

    @classmethod
    def of(cls, environ: Mapping[str, str] | None = None) -> TraceOptions | None:
        """Return the options that the environment states; None if nothing is to be recorded.

        A text that is not JSON, or a value of another type, stands for the default, as in libpvti:
        who sets the variable wants a trace.

        Parameters
        ----------
        environ
            The environment; that of the process if None.

        Notes
        -----
        Source: public documentation of libpvti, "Enabling PVTI".
        """
        text = (os.environ if environ is None else environ).get(VARIABLE)
        if text is None:
            return None
        given = _parsed(text)
        if str(given.get("enable", "true")).strip().lower() in _FALSE:
            return None
        return cls(_directory(given), _channels(given), _duration(given))


def _parsed(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _directory(given: Mapping[str, Any]) -> Path:
    directory = given.get("directory")
    return Path(directory) if isinstance(directory, str) and directory else Path()


def _channels(given: Mapping[str, Any]) -> frozenset[str]:
    names = given.get("channels")
    if isinstance(names, str):
        names = names.split(",")
    if not isinstance(names, list):
        return frozenset()
    return frozenset(name.strip() for name in names if isinstance(name, str) and name.strip())


def _duration(given: Mapping[str, Any]) -> float:
    try:
        seconds = float(given.get("duration", 0))
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return seconds if 0 < seconds < float("inf") else 0.0
