"""The JSON and binary endpoints below ``/api``: one module per subject with ``routes(library)``.

Two depend on more than the library: `reports` and `help`, which the app adds itself.
"""

from __future__ import annotations

import importlib
from types import ModuleType

__all__ = ["modules"]

_NAMES = (
    "find",
    "live",
    "liveness",
    "memory",
    "notes",
    "operations",
    "programs",
    "selection",
    "trace",
    "trace_pair",
    "training",
)


def modules() -> list[ModuleType]:
    """Return the modules of the API."""
    return [importlib.import_module(f"tilescope.webapp.api.{name}") for name in _NAMES]
