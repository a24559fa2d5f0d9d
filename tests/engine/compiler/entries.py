"""Cache entries as their facts and all their arrays."""

from __future__ import annotations

from typing import Any, BinaryIO

from numpy.typing import NDArray

from tilescope.engine.compiler.executable.container import Container

__all__ = ["decode"]


def decode(file: BinaryIO, file_bytes: int) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the facts and arrays of an entry of so many bytes, all verified.

    Raises
    ------
    NotAnEntry
        When anything differs from what was written.
    """
    container = Container(memoryview(file.read(file_bytes)))
    return container.facts, {name: container.array(name) for name in container.names}
