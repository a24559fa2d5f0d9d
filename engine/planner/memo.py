"""A memo of plans: equal operations are planned once in a process."""

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
    """The plans made so far by request, and how often they were reused.

    Parameters
    ----------
    most
        Most plans kept; the least recently used is dropped first.
    n_made, n_reused
        Memo misses and hits.
    """

    most: int = 4096
    n_made: int = 0
    n_reused: int = 0
    _plans: OrderedDict[tuple[Any, ...], Plan] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def find(self, key: tuple[Any, ...]) -> Plan | None:
        """Return the plan of an equal request, or None."""
        with self._lock:
            found = self._plans.get(key)
            if found is not None:
                self._plans.move_to_end(key)
                self.n_reused += 1
            return found

    def keep(self, key: tuple[Any, ...], plan: Plan) -> None:
        """Store a plan made in this process."""
        with self._lock:
            self.n_made += 1
        self.take(key, plan)

    def take(self, key: tuple[Any, ...], plan: Plan) -> None:
        """Store a plan made elsewhere."""
        with self._lock:
            self._plans[key] = plan
            while len(self._plans) > self.most:
                self._plans.popitem(last=False)

    def clear(self) -> None:
        """Drop all plans and reset the counts."""
        with self._lock:
            self._plans.clear()
            self.n_made = self.n_reused = 0


#: The memo of this process.
MEMO = PlanMemo()


class PlanStore(Protocol):
    """A store of plans that outlives the process."""

    def find(self, key: tuple[Any, ...]) -> Plan | None:
        """Return the plan of an equal request, or None."""

    def keep(self, key: tuple[Any, ...], plan: Plan) -> None:
        """Store a plan."""

    def add(self, key: tuple[Any, ...], plan: Plan) -> None:
        """Store a plan made earlier, unless the request has one."""


#: The store of the current compilation.
STORE: ContextVar[PlanStore | None] = ContextVar("plan store", default=None)


def _kept_or_made(key: tuple[Any, ...], make: Callable[[], Plan]) -> Plan:
    """Return the stored plan, or a new one."""
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
    """Return a planner that answers equal requests from the memo.

    The first argument, the operation's debug name, is not part of the request; a plan is returned
    under the name of its caller.

    Parameters
    ----------
    planner
        Takes a name and hashable arguments.
    """
    signature = inspect.signature(planner)

    @wraps(planner)
    def plan(name: str, /, *args: P.args, **kwargs: P.kwargs) -> Plan:
        bound = signature.bind(name, *args, **kwargs)
        bound.apply_defaults()
        key = (planner.__qualname__, *list(bound.arguments.values())[1:])
        found = MEMO.find(key)
        if found is None:
            return replace(_kept_or_made(key, lambda: planner(name, *args, **kwargs)), name=name)
        store = STORE.get()
        if store is not None:
            store.add(key, found)
        _log.debug(
            "planned %s %s: same as %s; %d plans made and %d reused so far",
            found.operation,
            name,
            found.name,
            MEMO.n_made,
            MEMO.n_reused,
        )
        return replace(found, name=name)

    return plan
