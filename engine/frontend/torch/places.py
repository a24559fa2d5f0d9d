"""Where a node of an exported program is from: module path, file and line."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

__all__ = ["PATH_KEY", "SCOPE_KEY", "line_of", "module_path", "place_of", "scope_of"]

#: Under which a node's own facts have the path that `markers.named` gave it.
PATH_KEY = "path"
#: Under which they have the names that `markers.scoped` puts before it.
SCOPE_KEY = "scope"

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')


def module_path(node: Any) -> str:
    """Return the path of the innermost module that a node is from; empty for the module itself."""
    stated = (node.meta.get("custom") or {}).get(PATH_KEY)
    if stated:
        return str(stated)
    paths = [path for path, _ in (node.meta.get("nn_module_stack") or {}).values()]
    path = paths[-1] if paths else ""
    # A module that is called several times has "@1" and so on behind its path.
    return "" if path.startswith("_empty") else re.sub(r"@\d+$", "", str(path))


def scope_of(node: Any) -> str:
    """Return the names that stand before the path of a node, as `markers.scoped` states them."""
    return str((node.meta.get("custom") or {}).get(SCOPE_KEY, ""))


def line_of(node: Any) -> tuple[str, int] | None:
    """Return the innermost line of the trace of a node that is not PyTorch's own; None if unknown.

    Where all lines are PyTorch's, it is the innermost of these.
    """
    frames = [
        (match["file"], int(match["line"]))
        for match in _FRAME.finditer(node.meta.get("stack_trace") or "")
    ]
    own = [frame for frame in frames if not _is_of_torch(frame[0])]
    return own[-1] if own else frames[-1] if frames else None


def place_of(node: Any) -> str:
    """Return a node's module and line, as sentences name them."""
    path, line = module_path(node), line_of(node)
    where = f"module {path!r}" if path else "the module itself"
    return where if line is None else f"{where}, {Path(line[0]).name}, line {line[1]}"


def _is_of_torch(file: str) -> bool:
    # A trace names PyTorch's files in full, or from its own folder.
    package = (
        str(Path(sys.modules["torch"].__file__ or "").parent) if "torch" in sys.modules else ""
    )
    return file.startswith(("torch/", "torch\\", package or "torch/"))
