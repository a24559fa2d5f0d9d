"""The identity of functions that a user wrote: their code, and all of the user's code behind them.

Functions of the engine are known by their names, which the engine's version stands for, and those
of other packages by the package's version.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import partial
from sysconfig import get_paths
from types import FunctionType, ModuleType
from typing import Any

from tilescope.engine.host.jit.identity import Identity, digest_of_parts

__all__ = ["user_digest"]

_ENGINE = "tilescope."
#: Attributes of a class that say nothing of what it does.
_OF_EVERY_CLASS = frozenset(
    {
        "__annotations__",
        "__dataclass_fields__",
        "__dataclass_params__",
        "__dict__",
        "__doc__",
        "__module__",
        "__weakref__",
    }
)


def user_digest(value: object) -> str:
    """Return a digest of functions and of values that hold some.

    Raises
    ------
    TypeError
        When they use an object without a digest.
    """
    return digest_of_parts(_UserIdentity().of_value(value))


class _UserIdentity(Identity):
    """Describes a user's code with what it uses of other modules of the user."""

    def of_value(self, value: Any) -> Iterator[bytes]:
        match value:
            case Mapping():
                yield f"mapping {len(value)}".encode()
                for key, item in value.items():
                    yield from self.of_value(key)
                    yield from self.of_value(item)
            case list():
                yield f"list {len(value)}".encode()
                for item in value:
                    yield from self.of_value(item)
            case range() | slice():
                yield repr(value).encode()
            case set():
                yield from self.of_value(frozenset(value))
            case partial():
                yield b"partial"
                yield from self.of_value((value.func, value.args, value.keywords))
            case staticmethod() | classmethod():
                yield from self.of_value(value.__func__)
            case property():
                yield from self.of_value((value.fget, value.fset))
            case type() if _package(value.__module__) is None:
                yield from self._of_class(value)
            case _:
                yield from super().of_value(value)

    def of_function(self, function: FunctionType) -> Iterator[bytes]:
        package = _package(function.__module__)
        if package is None:
            yield from super().of_function(function)
            yield from self.of_value(function.__kwdefaults__)
            return
        yield f"function {package} {function.__module__}.{function.__qualname__}".encode()
        # A function that another one made, of the user's functions or numbers.
        for cell in function.__closure__ or ():
            if id(cell) not in self._visited:
                self._visited.add(id(cell))
                yield from self.of_value(cell.cell_contents)

    def of_global(self, value: Any, names: set[str]) -> Iterator[bytes]:
        yield from self.of_value(value)
        if isinstance(value, ModuleType) and _package(value.__name__) is None:
            for name in sorted(names):
                if name in vars(value):
                    yield name.encode()
                    yield from self.of_global(vars(value)[name], names)

    def _of_class(self, value: type) -> Iterator[bytes]:
        yield f"class {value.__module__}.{value.__qualname__}".encode()
        if id(value) in self._visited:
            return
        self._visited.add(id(value))
        for base in value.__bases__:
            yield from self.of_value(base)
        for name, attribute in sorted(vars(value).items()):
            if name not in _OF_EVERY_CLASS:
                yield name.encode()
                yield from self.of_value(attribute)


def _package(module_name: str | None) -> str | None:
    """Return name and version of the package that has a module; None for a user's own module."""
    name = module_name or "builtins"
    top = name.partition(".")[0]
    if name.startswith(_ENGINE) or (top in sys.stdlib_module_names and top != "__main__"):
        return top
    module = sys.modules.get(top)
    path = getattr(module, "__file__", None) or ""
    paths = get_paths()
    if any(path.startswith(paths[kind]) for kind in ("purelib", "platlib")):
        return f"{top} {getattr(module, '__version__', '')}"
    return None
