"""Executables as bytes, for exchange between processes: a container of objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilescope.engine.arguments import shown
from tilescope.engine.compiler.executable.container import Container, NotAnEntry, encode
from tilescope.engine.compiler.executable.objects import ObjectReader, write_objects
from tilescope.engine.compiler.executable.versions import engine_versions
from tilescope.engine.errors import BadExecutable, EngineError

__all__ = ["read_executable", "write_executable"]

_CONTENT = "executable"
#: Raised by a reader when a table is malformed.
_ODD = (KeyError, ValueError, TypeError, IndexError, AttributeError, OverflowError, EngineError)


def write_executable(executable: Any, kinds: Sequence[type]) -> bytes:
    """Serialise an executable.

    Parameters
    ----------
    executable
        An `Executable`.
    kinds
        All dataclasses and enums that it may contain.

    Raises
    ------
    BadExecutable
        When something in it cannot be serialised.
    """
    try:
        objects, arrays = write_objects(executable, kinds)
    except TypeError as error:
        raise BadExecutable(f"Cannot serialise this executable: {error}") from None
    facts = {"content": _CONTENT, "versions": engine_versions(), "objects": objects}
    return encode(facts, arrays)


def read_executable(data: bytes, kinds: Sequence[type]) -> Any:
    """Return the executable serialised by `write_executable`.

    Raises
    ------
    BadExecutable
        When the bytes are damaged, come from another engine, or name a codelet that is missing.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise BadExecutable(f"Expected the bytes of an executable, got {shown(data)}")
    where = "These bytes are not an executable"
    try:
        container = Container(memoryview(data).cast("B"))
        facts = container.facts
        content, versions = facts.get("content"), facts.get("versions")
    except NotAnEntry as error:
        raise BadExecutable(f"{where}: {error}") from None
    except _ODD:
        raise BadExecutable(f"{where}: their header is malformed") from None
    if content != _CONTENT or not isinstance(versions, dict):
        raise BadExecutable(f"{where}: they hold something else, such as a cache entry")
    own_versions = engine_versions()
    if any(versions.get(name) != own_versions[name] for name in ("tilescope", "sources")):
        raise BadExecutable(
            f"This executable was written by another engine, of version"
            f" {versions.get('tilescope')}; this one has version {own_versions['tilescope']} and"
            " different sources: compile the program again"
        )
    try:
        return ObjectReader(kinds, facts["objects"], container.array).root
    except BadExecutable:
        raise
    except Exception:  # what a malformed pickle makes of its records can raise anything
        raise BadExecutable(f"{where}: their table is malformed") from None
