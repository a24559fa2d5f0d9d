"""Entries: compiled functions that are called by address.

All take three integers, ``(first, last, table)``, and return nothing; `table` is the address of an
array of integers with the addresses and lengths of the arrays that they work on. Their code is
compiled once, and kept in a file for other processes.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np

from tilescope.engine.host.jit import code_files
from tilescope.engine.host.jit._jit import jit
from tilescope.engine.host.jit.identity import kernel_digest
from tilescope.engine.host.jit.loader import is_complete, load
from tilescope.engine.host.jit.settings import IS_COMPILED
from tilescope.engine.host.jit.tables import array_in, numbers_of

__all__ = ["Entry", "Pass", "array_pass"]

_PLACE, _NUMBER = ctypes.c_void_p, ctypes.c_int64
_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int32, _PLACE, _PLACE, _NUMBER, _NUMBER, _NUMBER)
#: What a function returns that raised nothing: numba's calling convention.
_FINE = {0, -2}
_ARGUMENT = re.compile(r"(\w+)(?:\[([:, ]+)\])?")


class Entry:
    """A compiled function that is called by address.

    Parameters
    ----------
    label
        What it is; its name adds a digest of all that its code depends on. Without one, it is
        compiled in every process.
    function
        The function.
    counts_references
        Whether its code counts references to arrays.
    """

    def __init__(
        self, label: str, function: Callable[..., Any], *, counts_references: bool = False
    ) -> None:
        digest = kernel_digest(function)
        self._is_kept = digest is not None
        self.name = f"{label}_{digest or id(function)}"
        # All take the same types: their symbols differ by name.
        function.__name__ = function.__qualname__ = self.name
        self.function, self._counts_references = function, counts_references
        self._address = 0
        self._owned: tuple[Any, ...] = ()  # what must live as long as its code
        self._make: Callable[[], Entry] | None = None

    @classmethod
    def named(cls, name: str, make: Callable[[], Entry]) -> Entry:
        """Return the entry of a name, whose function is made where its code is missing only.

        Parameters
        ----------
        name
            Of an entry that is kept, in this version of the engine.
        make
            Returns the entry with its function.
        """
        entry = cls.__new__(cls)
        entry._is_kept, entry.name, entry._address, entry._owned = True, name, 0, ()
        entry._make = make
        return entry

    @cached_property
    def _made(self) -> Entry | None:
        """The entry with the function, of one that has a name only."""
        return None if self._make is None else self._make()

    def load(self) -> bool:
        """Take the code from its file, or compile it; return whether it was compiled."""
        if self._address:
            return False
        known = self._kept()
        if known is not None:
            self._address = load(known)
            return False
        if self._made is not None:
            is_new = self._made.load()
            self._address = self._made.address
            return is_new
        from tilescope.engine.host.jit.compiler import compiled

        dispatcher = compiled(self.function, counts_references=self._counts_references)
        self._owned += (dispatcher,)
        self._address = dispatcher.address
        if self._is_kept and dispatcher.code is not None:
            code_files.write(self.name, dispatcher.code)
        return True

    def _kept(self) -> code_files.Code | None:
        """Return the code in its file; None if there is none that this process can use."""
        code = code_files.read(self.name) if self._is_kept else None
        return code if code is not None and is_complete(code) else None

    @property
    def lasts(self) -> bool:
        """Whether its name stands for its code in other processes."""
        return self._is_kept

    @property
    def is_kept(self) -> bool:
        """Whether its file has its code for this processor."""
        return self._is_kept and code_files.read(self.name) is not None

    @property
    def address(self) -> int:
        """Address of the function."""
        self.load()
        return self._address

    @cached_property
    def _call(self) -> Callable[[int, int, int], int]:
        results = (_PLACE * 2)()  # numba's functions return results by address; none here
        address = ctypes.addressof(results)
        self._owned += (results,)
        return partial(_FUNCTION(self.address), address, address + 8)

    def run(self, first: int, last: int, table: int) -> None:
        """Call it by address: without the interpreter's lock, on the calling thread.

        Raises
        ------
        RuntimeError
            If it failed.
        """
        if self._call(first, last, table) not in _FINE:
            raise RuntimeError(f"{self.name} failed")

    @cached_property
    def _for_python(self) -> Any:
        if self._made is not None:
            return self._made._for_python
        from tilescope.engine.host.jit.compiler import for_python

        return for_python(self.function)

    def __call__(self, first: int, last: int, table: int) -> None:
        """Call it from Python, compiled for that, so that it raises what a kernel raises."""
        self._for_python(first, last, table)


class Pass:
    """A function on arrays that Python calls: see `array_pass`."""

    def __init__(self, function: Callable[..., None], takes: str, writes: str) -> None:
        self.py_func = function
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        self.__module__ = function.__module__
        self._taken, self._written = _arguments(takes), _arguments(writes)

    @cached_property
    def _entry(self) -> Entry:
        lines, offset = [], 0
        arguments = [*self._taken, *self._written]
        for index, (dtype, n_dims) in enumerate(arguments):
            lines.append(f"    a{index} = array_in(table, {offset}, {n_dims}, {dtype.name})\n")
            offset += 1 + n_dims
        names = ", ".join(f"a{index}" for index in range(len(arguments)))
        source = f"def enter(first, last, table):\n{''.join(lines)}    function({names})\n"
        namespace: dict[str, Any] = {dtype.name: dtype.type for dtype, _ in arguments}
        namespace |= {"function": jit(self.py_func), "array_in": array_in}
        exec(source, namespace)  # source is ours: see above
        return Entry(self.__name__.strip("_"), namespace["enter"])

    def _arrays(self, arguments: tuple[Any, ...]) -> list[Any]:
        """Return the arguments as the function takes them.

        Raises
        ------
        TypeError
            If an argument is not what the function takes.
        """
        arrays: list[Any] = []
        n_taken = len(self._taken)
        for argument, (dtype, n_dims) in zip(arguments[:n_taken], self._taken, strict=True):
            if n_dims == 0:
                arrays.append(int(argument))
                continue
            array = argument
            if array.dtype != dtype or not array.flags.c_contiguous:
                array = array.astype(dtype, order="C", casting="safe")
            arrays.append(self._checked(array, dtype, n_dims))
        for array, (dtype, n_dims) in zip(arguments[n_taken:], self._written, strict=True):
            arrays.append(self._checked(array, dtype, n_dims))
        return arrays

    def _checked(self, array: Any, dtype: Any, n_dims: int) -> Any:
        if array.dtype == dtype and array.ndim == n_dims and array.flags.c_contiguous:
            return array
        raise TypeError(
            f"{self.__name__} takes a contiguous array of {dtype} with {n_dims} dimensions, not"
            f" one of {array.dtype} with {array.ndim}"
        )

    def __call__(self, *arguments: Any) -> None:
        """Call the function: without the interpreter's lock, on the calling thread.

        Raises
        ------
        TypeError
            If an argument is not what the function takes.
        RuntimeError
            If it failed.
        """
        arrays = self._arrays(arguments)
        if not IS_COMPILED:
            self.py_func(*arrays)
            return
        table = np.array(numbers_of(arrays), np.int64)
        self._entry.run(0, 0, table.ctypes.data)


def _arguments(kinds: str) -> list[tuple[Any, int]]:
    """Return types and numbers of dimensions; an integer has none."""
    return [(np.dtype(kind), dims.count(":")) for kind, dims in _ARGUMENT.findall(kinds)]


def array_pass(takes: str, writes: str = "") -> Callable[[Callable[..., None]], Pass]:
    """Compile a function of arrays and integers that Python calls.

    The function makes no arrays and returns nothing: what it finds, and works with, is in arrays
    that it takes.

    Parameters
    ----------
    takes
        Types of its first arguments, as in ``"int64[:], bool[:, :], int64"``; arrays that are not
        contiguous, or of a narrower type, are copied.
    writes
        Types of the arrays that follow, which it writes: they must be contiguous and of that type.
    """
    return lambda function: Pass(function, takes, writes)
