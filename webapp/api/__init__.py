"""The JSON and binary answers below ``/api``: one module a subject, ``routes(library)`` each."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

__all__ = ["modules"]

_NAMES = ("reports", "programs", "trace")


def modules() -> list[ModuleType]:
    """Return the modules of the API."""
    names = [f"tilescope.webapp.api.{name}" for name in _NAMES]
    return [importlib.import_module(name) for name in names if importlib.util.find_spec(name)]
