"""Names that programs give their calls, and the file that tells where the calls stand."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import cbor2

from popart.arguments import Kind, Mismatch
from tilescope.engine.compiler.executable.executable import Executable, Node
from tilescope.engine.graph import ComputeSet, Variable
from tilescope.engine.graph.identity import debug as engine_debug

__all__ = [
    "DEBUG_CONTEXT",
    "DebugContext",
    "DebugInfo",
    "SourceLocation",
    "closePoplarDebugInfo",
    "initializePoplarDebugInfo",
    "record_contexts",
]


class SourceLocation:
    """A line of a program."""

    def __init__(self, functionName: str, fileName: str, lineNumber: int) -> None:
        self.functionName, self.fileName, self.lineNumber = functionName, fileName, lineNumber

    @classmethod
    def _of_caller(cls) -> SourceLocation:
        """Return the line outside this module that is being run."""
        frame = sys._getframe(1)
        while frame.f_code.co_filename == __file__ and frame.f_back is not None:
            frame = frame.f_back
        return cls(frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno)


class _Stream:
    """The debug information of a process, until it is written."""

    def __init__(self, path: str, form: str) -> None:
        self._path, self._form = path, form
        self._strings: dict[str, int] = {}
        self.contexts: list[dict[str, Any]] = []
        self.n_infos = 0

    def text(self, string: str) -> int:
        """Return the number of a string in the table of strings."""
        return self._strings.setdefault(string, len(self._strings))

    def close(self) -> None:
        """Write the file."""
        content = {"contexts": self.contexts, "stringTable": list(self._strings)}
        if self._form == "cbor":
            Path(self._path).write_bytes(cbor2.dumps(content))
        else:
            Path(self._path).write_text(json.dumps(content), encoding="utf-8")

    def add(self, name: str, layer: str, parent: int) -> int:
        """Add a context of a compiled program, and return its number."""
        self.n_infos += 1
        entry: dict[str, Any] = {"id": self.n_infos, "name": self.text(name), "layer": layer}
        if parent:
            entry["parentId"] = parent
        self.contexts.append(entry)
        return self.n_infos


_stream: _Stream | None = None


def record_contexts(names: Iterable[str], executable: Executable) -> None:
    """Add the tensors and nodes of a model, and what its program consists of.

    Parameters
    ----------
    names
        Of the inputs, initializers and nodes of the model.
    executable
        The program. Nothing is added unless `initializePoplarDebugInfo` was called.
    """
    if _stream is None:
        return
    stream, numbers = _stream, dict[int, int]()

    def number(context: engine_debug.DebugContext | None) -> int:
        if context is None or not context.name:
            return 0
        if id(context) not in numbers:
            above = number(context.parent)
            numbers[id(context)] = stream.add(context.name, context.layer, above)
        return numbers[id(context)]

    for name in names:
        stream.add(name, "popart", 0)
    graph = executable.graph
    parts: list[Variable | ComputeSet | Node]
    parts = [*graph.variables, *graph.compute_sets, *executable.nodes]
    for part in parts:
        stream.add(part.name, "poplar", number(part.debug))


class DebugContext:
    """A name for a call: from a string, or below a `DebugInfo`."""

    def __init__(
        self,
        debugInfo: DebugInfo | str | None = None,
        name: str | None = None,
        loc: SourceLocation | None = None,
    ) -> None:
        self._parent = debugInfo if isinstance(debugInfo, DebugInfo) else None
        self._name = str(debugInfo) if isinstance(debugInfo, str) else name or ""
        self._location = SourceLocation._of_caller() if loc is None else loc

    def getPathName(self) -> str:
        """Return the names above and its own, joined by slashes."""
        above = self._parent.getPathName() if self._parent else ""
        return "/".join(name for name in (above, self._name) if name)


class DebugInfo:
    """What a layer of a program says of a call, written when it is no longer used."""

    def __init__(self, debugContext: DebugContext | str, layer: str) -> None:
        self._context: DebugContext = _context_of(debugContext)
        self._layer = layer
        self._values: dict[str, Any] = {}
        self._stream = _stream
        self._id = 0
        if self._stream is not None:
            self._stream.n_infos += 1
            self._id = self._stream.n_infos

    def setValue(self, name: str, value: str | list[Any]) -> bool:
        """Add a value under a name; return whether it is written."""
        self._values[name] = value
        return self._stream is not None

    def getId(self) -> int:
        """Return its number in the file; 0 without one."""
        return self._id

    def getPathName(self) -> str:
        """Return the path of its context."""
        return self._context.getPathName()

    def __del__(self) -> None:
        stream: _Stream | None = getattr(self, "_stream", None)
        if stream is None or stream is not _stream:
            return
        location = self._context._location
        entry: dict[str, Any] = {
            "id": self._id,
            "name": stream.text(self._context._name),
            "layer": self._layer,
            "location": {
                "fileName": stream.text(location.fileName),
                "functionName": stream.text(location.functionName),
                "lineNumber": location.lineNumber,
            },
            **self._values,
        }
        if self._context._parent is not None:
            entry["parentId"] = self._context._parent.getId()
        stream.contexts.append(entry)


def _context_of(value: Any) -> DebugContext:
    if isinstance(value, DebugContext):
        return value
    if isinstance(value, str):
        return DebugContext(value)
    raise Mismatch("not a debug context")


#: The kind of arguments that name a call.
DEBUG_CONTEXT = Kind("popart.DebugContext", lambda value: _context_of(value).getPathName())


def initializePoplarDebugInfo(filename: str, format: str = "json") -> None:
    """Collect the `DebugInfo` of the process, for a file of format ``json`` or ``cbor``."""
    global _stream  # noqa: PLW0603 - the binding has one file for a process
    _stream = _Stream(filename, format)


def closePoplarDebugInfo() -> None:
    """Write the file that `initializePoplarDebugInfo` named."""
    global _stream  # noqa: PLW0603 - as above
    if _stream is not None:
        _stream.close()
    _stream = None
