"""Plans of operations, kept beside executables: planning is most of what a hit leaves to do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.cache.container import NotAnEntry
from tilescope.engine.compiler.cache.description import describe
from tilescope.engine.compiler.cache.store import CacheFolder
from tilescope.engine.planner.memo import STORE
from tilescope.engine.planner.plan import Plan

__all__ = ["plans_kept_in"]


class _PlanFolder:
    """Answers the planner's questions from a directory."""

    def __init__(self, directory: Path | str) -> None:
        self._folder = CacheFolder(directory, "plan")
        self._seen: set[tuple[Any, ...]] = set()

    def find(self, key: tuple[Any, ...]) -> Plan | None:
        """Return the plan that is kept for a question."""
        self._seen.add(key)
        return self._folder.load(describe(key), _plan_of)

    def keep(self, key: tuple[Any, ...], plan: Plan) -> None:
        """Keep a plan that was made."""
        facts = {name: _plain(value) for name, value in plan.to_facts().items()}
        self._folder.store(describe(key), facts, {})

    def add(self, key: tuple[Any, ...], plan: Plan) -> None:
        """Keep a plan that was made before this directory was opened, where there is none."""
        if key not in self._seen:
            self._seen.add(key)
            if not self._folder.has(describe(key)):
                self.keep(key, plan)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def _plan_of(facts: Mapping[str, Any], _: Mapping[str, NDArray[Any]]) -> Plan:
    try:
        return Plan.of_facts(facts)
    except (TypeError, ValueError) as error:
        raise NotAnEntry("it is not a plan") from error


@contextlib.contextmanager
def plans_kept_in(directory: Path | str | None) -> Iterator[None]:
    """Let planners take plans from a directory and keep them there; without one, do nothing.

    Parameters
    ----------
    directory
        That of the executable cache.
    """
    if directory is None:
        yield
        return
    token = STORE.set(_PlanFolder(directory))
    try:
        yield
    finally:
        STORE.reset(token)
