"""The names under which the first libpva, a preview, had its classes."""

from __future__ import annotations

from pva import pva_core
from pva.pva_core import *  # noqa: F403 - the same names, listed once

__all__ = pva_core.__all__
