"""A walk over every public property of `pva`, from a report and from a trace."""

from __future__ import annotations

import inspect
from collections import Counter, deque
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import pva
from pva.lazy import LazyList

__all__ = ["visited_names"]

#: Objects of one class whose properties are visited.
_PER_CLASS = 6
#: Entries of a list that are visited, at both ends.
_PER_END = 3
_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "alwaysLiveVariablesForTile": (1,),
    "notAlwaysLiveMemoryForIpu": (0,),
    "notAlwaysLiveMemoryForTile": (1,),
    "forTile": (0,),
    "blocks": (0,),
    "accept": (pva.ProgramVisitor(),),
    # IPUs and their tracks stand for processes and threads.
    "process": (0,),
    "thread": (0,),
}
_NOT_CALLED = ("close", "listPrintLength", "index", "count")


def visited_names(path: Path) -> set[str]:
    """Visit everything that a report offers, as a program could; return ``Class.name`` of it all.

    An error of a property ends the walk.
    """
    names: set[str] = set()
    with pva.openReport(path) as report:
        _visit(deque([report, pva.OperationAnalysis(report)]), names)
    with pva.openTrace(path) as trace:
        _visit(deque([trace]), names)
    return names


def _visit(waiting: deque[Any], names: set[str]) -> None:
    n_visited: Counter[type] = Counter()
    while waiting:
        entry = waiting.popleft()
        if isinstance(entry, LazyList | list | tuple):
            waiting.extend(_ends(entry))
            continue
        kind = type(entry)
        if not kind.__module__.startswith("pva") or isinstance(entry, Enum):
            continue
        n_visited[kind] += 1
        if n_visited[kind] > _PER_CLASS:
            continue
        repr(entry)
        hash(entry)
        for name, value in _values(entry):
            names.add(f"{kind.__name__}.{name}")
            waiting.append(value)


def _ends(entries: Any) -> list[Any]:
    n = len(entries)
    positions = [index for index in range(n) if index < _PER_END or index >= n - _PER_END]
    ends = [entries[index] for index in positions]
    if isinstance(entries, LazyList):
        repr(entries)
        n_walked = sum(1 for _ in zip(entries, range(100), strict=False))
        assert n_walked == min(n, 100)
    return ends


def _values(entry: Any) -> Iterator[tuple[str, Any]]:
    """Yield the public properties of an object, and what its methods return."""
    kind = type(entry)
    for name in dir(entry):
        if name.startswith("_") or name in _NOT_CALLED or isinstance(getattr(kind, name, 0), type):
            continue
        value = getattr(entry, name)
        if inspect.ismethod(value):
            value = value(*_ARGUMENTS.get(name, ()))
        yield name, value
