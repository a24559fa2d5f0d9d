"""Where codelets are defined, so that another process finds the same ones.

A codelet holds functions, which cannot be serialised: what is written is the module, the name and a
digest of everything else. A codelet is found again only if a module-level name refers to it,
directly or in a dictionary, tuple or list.
"""

from __future__ import annotations

import functools
import pkgutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from importlib import import_module
from types import ModuleType
from typing import Any

from tilescope.engine import codelets
from tilescope.engine.errors import BadExecutable, said
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.host.jit.identity import kernel_digest

__all__ = ["CodeletPlace", "codelet_at", "codelets_of", "is_own", "place_of"]

_OWN = "tilescope.engine.codelets."
#: Name of the function of a module that makes a codelet by its name.
_MAKER = "codelet_named"
#: Containers nested in containers, such as a dictionary of pairs.
_DEPTH = 2


@dataclass(frozen=True)
class CodeletPlace:
    """Where a codelet is defined, and its digest.

    Parameters
    ----------
    module, name
        Module that defines it, and its name in reports, which need not be unique.
    digest
        Digest of its kernel, its cycle law and all its fields.
    """

    module: str
    name: str
    digest: str


def place_of(codelet: Codelet) -> CodeletPlace:
    """Return where a codelet is defined.

    That of the engine's own is looked for once.

    Raises
    ------
    BadExecutable
        When another process could not find it, or could not verify that it is the same.
    """
    return _place_of_own(codelet) if is_own(codelet) else _place_of(codelet)


@functools.cache
def _place_of_own(codelet: Codelet) -> CodeletPlace:
    """Return where a codelet of the engine is defined."""
    return _place_of(codelet)


def _place_of(codelet: Codelet) -> CodeletPlace:
    """Return where a codelet is defined now."""
    digest = _digest_of(codelet)
    if digest is None:
        raise BadExecutable(
            f"Cannot serialise codelet {codelet.name!r}: its kernel uses an object without a"
            " digest, so another process could not verify that it has the same one"
        )
    for name, module, depth in _candidates(codelet):
        if any(candidate is codelet for candidate in _codelets_in(vars(module).values(), depth)):
            return CodeletPlace(name, codelet.name, digest)
    raise BadExecutable(
        f"Cannot serialise codelet {codelet.name!r}: another process finds it only if it is"
        " defined at the top level of an importable module"
    )


def codelet_at(position: CodeletPlace) -> Codelet:
    """Return the codelet that is defined at a place.

    Raises
    ------
    BadExecutable
        When it is missing or has changed.
    """
    where = f"Codelet {position.name!r} of module {position.module!r}"
    try:
        module = import_module(position.module)
    except Exception as error:
        raise BadExecutable(
            f"{where} is not available: importing the module failed with {said(error)}"
        ) from None
    same_name = [candidate for candidate in codelets_of(module) if candidate.name == position.name]
    if not same_name and position.module.startswith(_OWN):
        # Those of expressions are made as they are used.
        made = getattr(module, _MAKER, lambda _: None)(position.name)
        same_name = [] if made is None else [made]
    for candidate in same_name:
        if _digest_of(candidate) == position.digest:
            return candidate
    if same_name:
        raise BadExecutable(f"{where} has changed since the program was compiled: compile it again")
    raise BadExecutable(f"{where} is not available: the module has no codelet of that name")


def is_own(codelet: Codelet) -> bool:
    """Return whether a codelet is the engine's: then the engine's version stands for its kernel."""
    functions = (codelet.kernel, codelet.law, codelet.flops, codelet.pieces)
    modules = [getattr(function, "__module__", None) for function in functions if function]
    return all(str(module).startswith("tilescope.engine.") for module in modules)


def codelet_modules() -> Iterator[ModuleType]:
    """Yield the modules of the engine's own codelets."""
    for module in pkgutil.walk_packages(codelets.__path__, f"{codelets.__name__}."):
        yield import_module(module.name)


def codelets_of(module: ModuleType) -> Iterator[Codelet]:
    """Yield the codelets that another process finds in a module; some have several names."""
    yield from _codelets_in(vars(module).values(), _DEPTH)


def _digest_of(codelet: Codelet) -> str | None:
    """Return the digest of a codelet; None when its kernel has none."""
    return _digest_of_own(codelet) if is_own(codelet) else _digest(codelet)


@functools.cache
def _digest_of_own(codelet: Codelet) -> str | None:
    """Return the digest of a codelet of the engine, which does not change."""
    return _digest(codelet)


def _digest(codelet: Codelet) -> str | None:
    """Return the digest of a codelet as it is now."""
    kernel = kernel_digest(codelet.kernel)
    if kernel is None:
        return None
    parts = (
        kernel,
        kernel_digest(codelet.law),
        kernel_digest(codelet.flops),
        codelet.fields,
        codelet.scalars,
        codelet.code_bytes,
        codelet.source,
        codelet.is_supervisor,
        codelet.is_data_dependent,
        codelet.apart,
        codelet.has_slow_path,
        codelet.is_multi_vertex,
        codelet.reads_clock,
        kernel_digest(codelet.pieces),
    )
    return blake2b(repr(parts).encode(), digest_size=16).hexdigest()


def _candidates(codelet: Codelet) -> Iterator[tuple[str, ModuleType, int]]:
    """Yield modules that may define a codelet, likeliest first, and how deep to search."""
    functions = (codelet.kernel, codelet.law, codelet.flops)
    likely = [getattr(function, "__module__", None) for function in functions]
    module_names = [name for name in list(sys.modules) if name.startswith(_OWN)]
    depths: dict[str, int] = {str(name): _DEPTH for name in (*likely, *module_names)}
    for name in list(sys.modules):
        depths.setdefault(name, 0)
    for name, depth in depths.items():
        module = sys.modules.get(name)
        # Another process runs another script as __main__.
        if isinstance(module, ModuleType) and name != "__main__":
            yield name, module, depth


def _codelets_in(values: Iterable[Any], depth: int) -> Iterator[Codelet]:
    """Yield the codelets among values, and in nested containers down to a depth."""
    for value in list(values):
        if isinstance(value, Codelet):
            yield value
        elif depth and isinstance(value, dict):
            yield from _codelets_in(value.values(), depth - 1)
        elif depth and isinstance(value, tuple | list):
            yield from _codelets_in(value, depth - 1)
