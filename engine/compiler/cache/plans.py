"""Plans on disk: beside executables, or beside compiled kernels where no executable is cached."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.cache.description import describe
from tilescope.engine.compiler.cache.store import CacheFolder
from tilescope.engine.compiler.executable.container import NotAnEntry
from tilescope.engine.host.jit.code_files import cache_folder
from tilescope.engine.planner.plan import Plan

__all__ = ["PlanFolder", "memo_folder"]

#: Plans kept beside the compiled kernels, some 8 MB.
_MOST_PLANS = 4_096


def memo_folder() -> Path:
    """Return the folder of plans that belongs to this version of the engine; it may not exist."""
    return cache_folder() / "plans"


class PlanFolder:
    """A directory of plans for the memo of one program.

    Parameters
    ----------
    directory
        Directory of the executable cache; if None, the folder of the compiled kernels, which keeps
        a bounded number of plans.
    """

    def __init__(self, directory: Path | str | None) -> None:
        self._folder = (
            CacheFolder(memo_folder(), "plan", _MOST_PLANS, is_requested=False)
            if directory is None
            else CacheFolder(directory, "plan")
        )

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
