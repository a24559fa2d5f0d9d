"""A memo of plans: equal operations of a program are planned once."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Concatenate, ParamSpec, Protocol

from tilescope.engine.planner.plan import Plan

__all__ = ["PlanMemo", "PlanStore"]

_log = logging.getLogger(__name__)

P = ParamSpec("P")
#: The signature of a planner.
_signature = cache(inspect.signature)


class PlanStore(Protocol):
    """A store of plans that outlives the process."""

    def find(self, key: tuple[Any, ...]) -> Plan | None:
        """Return the plan of an equal request, or None."""

    def keep(self, key: tuple[Any, ...], plan: Plan) -> None:
        """Store a plan."""


@dataclass(eq=False)
class PlanMemo:
    """The plans of one program by request; it belongs to that program alone.

    Parameters
    ----------
    store
        Where to look for plans, and to keep them, beyond this program; nowhere when None.
    n_made, n_reused
        Requests planned, and requests answered from the memo.
    """

    store: PlanStore | None = None
    n_made: int = 0
    n_reused: int = 0
    _plans: dict[tuple[Any, ...], Plan] = field(default_factory=dict)

    def plan(
        self,
        planner: Callable[Concatenate[str, P], Plan],
        name: str,
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Plan:
        """Return what a planner answers; equal requests get the same plan.

        Parameters
        ----------
        planner
            Takes a name and hashable arguments.
        name
            Debug name of the operation. It is not part of the request: the plan is returned under
            the name of its caller.
        args, kwargs
            Of the planner.
        """
        bound = _signature(planner).bind(name, *args, **kwargs)
        bound.apply_defaults()
        key = (planner.__qualname__, *list(bound.arguments.values())[1:])
        known_plan = self._plans.get(key)
        if known_plan is None:
            known_plan = self._plans[key] = self._kept_or_made(
                key, lambda: planner(name, *args, **kwargs)
            )
            return replace(known_plan, name=name)
        self.n_reused += 1
        _log.debug(
            "planned %s %s: same as %s; %d plans made and %d reused so far",
            known_plan.operation,
            name,
            known_plan.name,
            self.n_made,
            self.n_reused,
        )
        return replace(known_plan, name=name)

    def _kept_or_made(self, key: tuple[Any, ...], make: Callable[[], Plan]) -> Plan:
        """Return the stored plan, or a new one."""
        if self.store is None:
            self.n_made += 1
            return make()
        stored = self.store.find(key)
        if stored is not None:
            return stored
        self.n_made += 1
        computed = make()
        self.store.keep(key, computed)
        return computed
