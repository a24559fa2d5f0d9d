"""Cached plans, stored beside executables: after a hit, planning is most of the remaining work."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.cache.description import describe
from tilescope.engine.compiler.cache.store import CacheFolder
from tilescope.engine.compiler.container import NotAnEntry
from tilescope.engine.planner.plan import Plan

__all__ = ["PlanFolder"]


class PlanFolder:
    """A directory of plans for the memo of one program.

    Parameters
    ----------
    directory
        Directory of the executable cache.
    """

    def __init__(self, directory: Path | str) -> None:
        self._folder = CacheFolder(directory, "plan")

    def find(self, key: tuple[Any, ...]) -> Plan | None:
        """Return the stored plan for a key; None on a miss."""
        return self._folder.load(describe(key), _plan_of)

    def keep(self, key: tuple[Any, ...], plan: Plan) -> None:
        """Store a plan."""
        facts = {name: _plain(value) for name, value in plan.to_facts().items()}
        self._folder.store(describe(key), facts, {})


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def _plan_of(facts: Mapping[str, Any], _: Mapping[str, NDArray[Any]]) -> Plan:
    try:
        return Plan.of_facts(facts)
    except (TypeError, ValueError) as error:
        raise NotAnEntry("it is not a plan") from error
