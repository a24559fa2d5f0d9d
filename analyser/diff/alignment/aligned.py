"""The steps of two open reports that are the same, aligned once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import TYPE_CHECKING, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from tilescope.analyser.diff.alignment.calls import align_calls
from tilescope.analyser.diff.alignment.steps import StepPairs, align_steps
from tilescope.analyser.program.call_tree import call_tree

if TYPE_CHECKING:
    from typing import Concatenate

    from tilescope.reports import Report

__all__ = ["aligned_steps", "cached_for_two"]

P = ParamSpec("P")
R = TypeVar("R")


def cached_for_two(
    function: Callable[Concatenate[Report, Report, P], R],
) -> Callable[Concatenate[Report, Report, P], R]:
    """Keep the answers of a pure function of two reports while both are open."""
    answers: WeakKeyDictionary[Report, WeakKeyDictionary[Report, dict[object, R]]]
    answers = WeakKeyDictionary()
    lock = RLock()

    @wraps(function)
    def ask(baseline: Report, candidate: Report, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with lock:
            of_baseline = answers.setdefault(baseline, WeakKeyDictionary())
            answer = of_baseline.setdefault(candidate, {})
            key = args, tuple(sorted(kwargs.items()))
            if key not in answer:
                answer[key] = function(baseline, candidate, *args, **kwargs)
            return answer[key]

    return ask


@cached_for_two
def aligned_steps(baseline: Report, candidate: Report) -> StepPairs:
    """Return which steps of two reports are the same; see `align_steps`."""
    calls = align_calls(call_tree(baseline), call_tree(candidate))
    return align_steps(baseline, candidate, calls)
