"""The identity of a kernel: its code and all external values that it uses.

Compiled launchers are cached on disk. Two kernels made by one function with different constants
share file, name and source, so none of these can distinguish their launchers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from types import BuiltinFunctionType, CodeType, EllipsisType, FunctionType, ModuleType
from typing import Any

import numpy as np
from llvmlite import ir

from tilescope.engine.host.jit._jit import Intrinsic, Overloaded

__all__ = ["Identity", "digest_of_parts", "kernel_digest", "names_in"]


def kernel_digest(kernel: Any) -> str | None:
    """Return a digest of a kernel, compiled or not; None if it uses a value without a digest."""
    try:
        return digest_of_parts(Identity().of_value(kernel))
    except TypeError:
        return None


def digest_of_parts(parts: Iterator[bytes]) -> str:
    """Return the digest of a description."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


class Identity:
    """Describes values that code uses, and functions with all that they use; those once."""

    def __init__(self) -> None:
        self._visited: set[int] = set()

    def of_value(self, value: Any) -> Iterator[bytes]:
        """Describe a constant, a function, or an object identified by its name.

        Raises
        ------
        TypeError
            When it has no digest.
        """
        functions = _declared(value)
        if functions:
            yield from self._of_functions(functions)
            return
        value = getattr(value, "py_func", value)
        match value:
            case None | bool() | int() | float() | complex() | str() | bytes() | EllipsisType():
                yield f"{type(value).__name__} {value!r}".encode()
            case np.ndarray():
                if value.dtype.hasobject:
                    raise TypeError("objects have no digest")
                yield f"array {value.dtype.str} {value.shape}".encode()
                yield np.ascontiguousarray(value).tobytes()
            case ir.Type() | ir.Constant():
                yield f"llvm {value}".encode()
            case np.generic():
                yield f"scalar {value.dtype.str}".encode() + value.tobytes()
            case tuple() | frozenset():
                items = value if isinstance(value, tuple) else sorted(value, key=repr)
                yield f"{type(value).__name__} {len(items)}".encode()
                for item in items:
                    yield from self.of_value(item)
            case CodeType():
                yield from self._of_code(value)
            case FunctionType():
                yield from self.of_function(value)
            case ModuleType():
                yield f"module {value.__name__}".encode()
            case _ if is_dataclass(value) and not isinstance(value, type):
                yield f"{type(value).__module__}.{type(value).__qualname__}".encode()
                for field in fields(value):
                    yield from self.of_value(getattr(value, field.name))
            case type() | BuiltinFunctionType() | np.ufunc():
                yield f"name {getattr(value, '__module__', '')}.{value.__name__}".encode()
            case _:
                raise TypeError(f"a {type(value).__name__} has no digest")

    def _of_functions(self, functions: list[Any]) -> Iterator[bytes]:
        for function in functions:
            yield f"declared {function.__module__}.{function.__qualname__}".encode()
            yield from self.of_function(function)

    def _of_code(self, code: CodeType) -> Iterator[bytes]:
        yield code.co_code
        yield repr((code.co_names, code.co_varnames, code.co_freevars, code.co_argcount)).encode()
        yield from self.of_value(code.co_consts)

    def of_function(self, function: FunctionType) -> Iterator[bytes]:
        """Describe a function's code, defaults, closure and referenced globals."""
        if id(function) in self._visited:
            yield b"again"
            return
        self._visited.add(id(function))
        yield from self._of_code(function.__code__)
        yield from self.of_value(function.__defaults__)
        for cell in function.__closure__ or ():
            yield from self.of_value(cell.cell_contents)
        names = names_in(function.__code__)
        for name in sorted(names):
            if name in function.__globals__:
                yield name.encode()
                yield from self.of_global(function.__globals__[name], names)

    def of_global(self, value: Any, names: set[str]) -> Iterator[bytes]:
        """Describe a global of a function whose code has some names."""
        del names
        yield from self.of_value(value)


def _declared(value: Any) -> list[Any]:
    """Return the functions that numba calls, or compiles, in place of a value; none for others."""
    if isinstance(value, Overloaded):
        return [value.choose, value.py_func]
    if isinstance(value, Intrinsic):
        return [value.definition]
    definition = getattr(value, "_defn", None)  # of numba's own intrinsic, a user's
    return [definition] if isinstance(definition, FunctionType) else []


def names_in(code: CodeType) -> set[str]:
    """Return the names of globals and attributes in code, inner functions included."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= names_in(constant)
    return names
