"""Functions that programs let run before and after a compilation."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from torch.utils.hooks import RemovableHandle

__all__ = ["registerPostCompileHook", "registerPreCompileHook", "run_hooks"]

_hooks: dict[str, OrderedDict[int, Callable[[], None]]] = {
    "before": OrderedDict(),
    "after": OrderedDict(),
}


def _register(moment: str, hook: Callable[[], None]) -> RemovableHandle:
    handle = RemovableHandle(_hooks[moment])
    _hooks[moment][handle.id] = hook
    return handle


def registerPreCompileHook(hook: Callable[[], None]) -> RemovableHandle:
    """Let a function run before every compilation; return what removes it.

    Raises
    ------
    RuntimeError
        When it cannot be called.
    """
    if not callable(hook):
        raise RuntimeError("Pre-compile hook must be callable")
    return _register("before", hook)


def registerPostCompileHook(hook: Callable[[], None]) -> RemovableHandle:
    """Let a function run after every compilation; return what removes it.

    Raises
    ------
    RuntimeError
        When it cannot be called.
    """
    if not callable(hook):
        raise RuntimeError("Post-compile hook must be callable")
    return _register("after", hook)


def run_hooks(moment: str) -> None:
    """Run the functions of a moment, ``before`` or ``after``."""
    for hook in [*_hooks[moment].values()]:
        hook()
