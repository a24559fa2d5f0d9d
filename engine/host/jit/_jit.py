"""Kernels: functions that numba compiles, as part of the loop over vertices that calls them.

Nothing here imports numba. It gets to know a kernel when a function is compiled that uses it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from tilescope.engine.host.jit.settings import IS_COMPILED

__all__ = [
    "Intrinsic",
    "Kernel",
    "Overloaded",
    "allocating_jit",
    "inlined_jit",
    "intrinsic",
    "jit",
]


class _Declared:
    """What numba gets to know when a function is compiled that uses it."""

    def _declare(self) -> Any:
        """Return what numba knows it as."""
        raise NotImplementedError

    @cached_property
    def _numba_type_(self) -> Any:
        """The type of it, for which numba asks."""
        from tilescope.engine.host.jit.compiler import type_of

        self._known = self._declare()  # types hold functions weakly
        return type_of(self._known)

    def __deepcopy__(self, memo: Any) -> Any:
        """Stay one object, in numba's copies of the code that uses it."""
        return self


class Kernel(_Declared):
    """A function that compiled code calls: it is compiled as part of its callers.

    Parameters
    ----------
    function
        The function.
    counts_references
        Whether its code counts references to arrays.
    is_inlined
        Whether it stands in its callers whatever its size; otherwise the compiler decides.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        counts_references: bool = False,
        is_inlined: bool = False,
    ) -> None:
        self.py_func, self.counts_references = function, counts_references
        self.is_inlined = is_inlined
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        self.__module__, self.__qualname__ = function.__module__, function.__qualname__

    def _declare(self) -> Any:
        from tilescope.engine.host.jit.compiler import linked

        return linked(
            self.py_func, counts_references=self.counts_references, is_inlined=self.is_inlined
        )

    @cached_property
    def _for_python(self) -> Any:
        from tilescope.engine.host.jit.compiler import for_python

        return for_python(self.py_func)

    def __call__(self, *arguments: Any) -> Any:
        """Call it from Python, compiled for that in this process."""
        return self._for_python(*arguments)


class Intrinsic(_Declared):
    """A function whose code is LLVM IR; Python cannot call it.

    Parameters
    ----------
    definition
        Takes the typing context and the types of the arguments, and returns a signature and what
        emits the code, or None.
    prefers_literals
        Whether constants among the arguments come as types of their values.
    """

    def __init__(self, definition: Callable[..., Any], *, prefers_literals: bool) -> None:
        self.definition, self.prefers_literals = definition, prefers_literals

    def _declare(self) -> Any:
        from numba import extending

        if self.prefers_literals:
            return extending.intrinsic(prefer_literal=True)(self.definition)
        return extending.intrinsic(self.definition)

    def __call__(self, *arguments: Any) -> Any:
        """Say that only compiled code calls it."""
        raise NotImplementedError(f"only compiled code can call {self.definition.__qualname__}")


class Overloaded(_Declared):
    """A function that is another one in compiled code, by the types of its arguments.

    Parameters
    ----------
    py_func
        The function in Python.
    choose
        Takes the types of the arguments and returns the function to compile.
    """

    def __init__(self, py_func: Callable[..., Any], choose: Callable[..., Any]) -> None:
        self.py_func, self.choose = py_func, choose

    def _declare(self) -> Any:
        from numba import extending

        extending.overload(self.py_func)(self.choose)
        return self.py_func

    def __call__(self, *arguments: Any) -> Any:
        """Call the function in Python."""
        return self.py_func(*arguments)


def jit(function: Callable[..., Any]) -> Any:
    """Compile a kernel that compiled code calls.

    It makes no arrays, and returns none: its code counts no references. It has no comprehensions,
    inner functions, blocks of *with*, or expressions on whole arrays.
    """
    return Kernel(function) if IS_COMPILED else function


def inlined_jit(function: Callable[..., Any]) -> Any:
    """Compile a kernel as `jit` does, as part of its callers whatever its size.

    A loop that calls a function is not vectorised. The compiler inlines small ones by itself.
    """
    return Kernel(function, is_inlined=True) if IS_COMPILED else function


def allocating_jit(function: Callable[..., Any]) -> Any:
    """Compile a kernel that compiled code calls, and that may make or return arrays."""
    return Kernel(function, counts_references=True) if IS_COMPILED else function


def intrinsic(definition: Callable[..., Any], *, prefers_literals: bool = False) -> Any:
    """Return the function for compiled code that a definition emits: see `Intrinsic`."""
    return Intrinsic(definition, prefers_literals=prefers_literals)
