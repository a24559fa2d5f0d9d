"""The pages, one module each.

A page module exposes ``PATH`` (such as ``/memory``), ``TITLE``, ``ICON`` (the name of a file in
``assets/icons``, without ``.svg``), ``VIEW`` (its parameters in the URL, see
:mod:`tilescope.webapp.view`), ``layout()`` and ``register(app, library)``. All layouts stand in
the page from the start and are shown and hidden; callbacks update properties only. The state of a
page arrives as the data of its store ``view-<name>``, which changes only while the page is shown:
a dictionary of strings with ``report``, ``with`` (empty without a second report) and the
parameters.
"""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

__all__ = ["modules"]

_NAMES = ("summary", "insights", "memory", "liveness", "programs", "operations", "trace")


def modules() -> list[ModuleType]:
    """Return the pages in the order of the menu."""
    names = [f"tilescope.webapp.pages.{name}" for name in _NAMES]
    return [importlib.import_module(name) for name in names if importlib.util.find_spec(name)]
