"""The pages, one module each.

A page module exposes ``PATH`` (such as ``/memory``), ``TITLE``, ``ICON`` (the name of a file in
``assets/icons``, without ``.svg``), ``layout()`` and ``register(app, library)``. It may expose
``VIEW`` (its parameters in the URL) and ``PANELS`` (the parameters that single panels depend on,
see :mod:`tilescope.webapp.view`).

A layout is mounted when the page is first visited, and kept: later visits only show it
(:mod:`tilescope.webapp.slots`). A page's state is the data of its store ``view-<name>``, which
only changes while the page is visible: a dictionary of strings with ``report``, ``with`` (empty
without a candidate) and the parameters.
"""

from __future__ import annotations

import importlib
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
)


def modules() -> list[ModuleType]:
    """Return the pages in the order of the menu."""
    return [importlib.import_module(f"tilescope.webapp.pages.{name}") for name in _NAMES]
