"""Answers that are cached as long as their report is open: most questions share a few of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from threading import RLock
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from tilescope.analyser.quantities import bytes_style

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["cached"]

P = ParamSpec("P")
R = TypeVar("R")

#: Answers kept per report and function; the oldest goes first.
KEPT_ANSWERS = 16


def cached(
    function: Callable[Concatenate[Report, P], R],
) -> Callable[Concatenate[Report, P], R]:
    """Keep the answers of a pure function per report; arguments must be hashable.

    An answer may hold texts, so it is kept for the style of bytes in which they were written. It is
    shared, so functions decorated with this return frozen values and read-only arrays.
    """
    answers: WeakKeyDictionary[Any, dict[Hashable, R]] = WeakKeyDictionary()
    lock = RLock()

    @wraps(function)
    def ask(report: Report, /, *args: P.args, **kwargs: P.kwargs) -> R:
        key = (bytes_style(), args, tuple(sorted(kwargs.items())))
        with lock:
            selected = answers.get(report)
            if selected is None:
                selected = answers.setdefault(report, {})
            if key in selected:
                return selected[key]
        answer = function(report, *args, **kwargs)
        with lock:
            while len(selected) >= KEPT_ANSWERS:
                del selected[next(iter(selected))]
            selected[key] = answer
        return answer

    return ask
