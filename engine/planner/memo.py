"""Plans that are remembered: equal operations are planned once in a process."""

from __future__ import annotations

import inspect
import logging
from collections import OrderedDict
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import wraps
from threading import Lock
from typing import Any, Concatenate, ParamSpec, Protocol

from tilescope.engine.planner.plan import Plan

__all__ = ["STORE", "PlanMemo", "PlanStore", "planned_once"]

_log = logging.getLogger(__name__)

P = ParamSpec("P")


@dataclass
class PlanMemo:
    """The plans made so far, by all that matters to them, and how often each answer was used.

    Parameters
    ----------
    most
        Plans that are kept; the one not asked for longest goes first.
    n_made, n_reused
        How many calls planned, and how many were answered from memory.
    """

    most: int = 4096
    n_made: int = 0
    n_reused: int = 0
    _plans: OrderedDict[tuple[Any, ...], Plan] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def find(self, key: tuple[Any, ...]) -> Plan | None:
        """Return the plan of an equal question, if there was one."""
        with self._lock:
            found = self._plans.get(key)
            if found is not None:
                self._plans.move_to_end(key)
                self.n_reused += 1
            return found

    def keep(self, key: tuple[Any, ...], plan: Plan) -> None:
        """Remember a plan that was made."""
        with self._lock:
            self.n_made += 1
        self.take(key, plan)

    def take(self, key: tuple[Any, ...], plan: Plan) -> None:
        """Remember a plan that was made elsewhere."""
        with self._lock:
            self._plans[key] = plan
            while len(self._plans) > self.most:
                self._plans.popitem(last=False)

    def clear(self) -> None:
        """Forget everything, counts included."""
        with self._lock:
            self._plans.clear()
            self.n_made = self.n_reused = 0


#: The one memory of this process.
MEMO = PlanMemo()


class PlanStore(Protocol):
    """Where plans outlive the process."""

    def find(self, key: tuple[Any, ...]) -> Plan | None:
        """Return the plan of an equal question, if one is kept."""

    def keep(self, key: tuple[Any, ...], plan: Plan) -> None:
        """Keep a plan that was made."""

    def add(self, key: tuple[Any, ...], plan: Plan) -> None:
        """Keep a plan that was made before, where nothing is kept for the question."""


#: That of the compilation that runs now.
STORE: ContextVar[PlanStore | None] = ContextVar("plan store", default=None)


def _kept_or_made(key: tuple[Any, ...], make: Callable[[], Plan]) -> Plan:
    """Return the plan that outlived another process, or a new one."""
    store = STORE.get()
    kept = None if store is None else store.find(key)
    if kept is not None:
        MEMO.take(key, kept)
        return kept
    made = make()
    MEMO.keep(key, made)
    if store is not None:
        store.keep(key, made)
    return made


def planned_once(
    planner: Callable[Concatenate[str, P], Plan],
) -> Callable[Concatenate[str, P], Plan]:
    """Let a planner answer equal questions from memory.

    All its arguments count but the first, the operation's debug name: a plan depends on the
    shape, the machine and the options, and is given out under the name that asked for it.

    Parameters
    ----------
    planner
        Takes a name and hashable arguments.
    """
    signature = inspect.signature(planner)

    @wraps(planner)
    def plan(name: str, /, *args: P.args, **kwargs: P.kwargs) -> Plan:
        asked = signature.bind(name, *args, **kwargs)
        asked.apply_defaults()
        key = (planner.__qualname__, *list(asked.arguments.values())[1:])
        found = MEMO.find(key)
        if found is None:
            return replace(_kept_or_made(key, lambda: planner(name, *args, **kwargs)), name=name)
        store = STORE.get()
        if store is not None:
            store.add(key, found)
        _log.debug(
            "planned %s %s: as %s before it; %d plans made and %d reused so far",
            found.operation,
            name,
            found.name,
            MEMO.n_made,
            MEMO.n_reused,
        )
        return replace(found, name=name)

    return plan
