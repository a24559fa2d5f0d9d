"""The pages, one module each.

A page module exposes ``PATH`` (such as ``/memory``), ``TITLE``, ``ICON`` (the name of a file in
``assets/icons``, without ``.svg``), ``VIEW`` (its parameters in the URL, see
:mod:`tilescope.webapp.view`), ``layout()`` and ``register(app, library)``. All layouts are part of
the document from the start and are shown or hidden; callbacks only update properties. A page's
state is the data of its store ``view-<name>``, which only changes while the page is visible: a
dictionary of strings with ``report``, ``with`` (empty without a candidate) and the parameters.
"""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

__all__ = ["modules"]

_NAMES = (
    "summary",
    "insights",
    "memory",
    "liveness",
    "programs",
    "operations",
    "trace",
    "reports",
)


def modules() -> list[ModuleType]:
    """Return the pages in the order of the menu."""
    names = [f"tilescope.webapp.pages.{name}" for name in _NAMES]
    return [importlib.import_module(name) for name in names if importlib.util.find_spec(name)]
